// What `run osync` concludes: who shared each flush, and what held the writers back.
#pragma once

#include <nlohmann/json.hpp>
#include <set>

#include "userspace/kernel/devices.h"
#include "userspace/model/trace.h"
#include "userspace/report/report.h"

namespace stalltrace::cli {

// {"executed","requests","empty","after_writes","writers_per_flush","requests_per_flush",
// "diskstats","fua","write_cache"}: `requests` asked for the flushes executed, `empty` of them
// carried no data (blkdev_issue_flush), the others follow a write that asked for FUA, on a disk
// without it, or begin a commit's record. `disks`: that execute what is sent to the device.
// `writes`: of the load.
nlohmann::json flush_figures(const model::Trace& trace, const kernel::Device& device,
                             const std::vector<uint32_t>& disks, uint64_t writes,
                             std::optional<uint64_t> diskstats);

// The roots of the writers' time: {"roots":[{"cause","dev","us","share"}],"share"}, where `share`
// is how much of their time the stalls make up. `writers_us`: of all writers.
nlohmann::json root_figures(const report::Report& report, const std::set<uint32_t>& tids,
                            double writers_us);

// In one sentence, from the figures above: what the writers were serialized by, if by anything.
std::string osync_verdict(const nlohmann::json& workload);

}  // namespace stalltrace::cli

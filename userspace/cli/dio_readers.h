// Where the readers of one cell of `run dio-matrix` spent their time, and who was in their way.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "userspace/blame/stall.h"
#include "userspace/model/trace.h"

namespace stalltrace::cli {

// {"lock.inode","lock.other","queue","device","other","short"}: shares of `readers_ns`, the time
// of all of them; "short" are the calls that took less than `threshold_ns` and were not looked
// into. "holders":[{"who","doing","us","share"}]: of their time behind the inode's lock; threads
// of one kind (write-00, write-01) count as one.
nlohmann::json reader_figures(const model::Trace& trace, const std::set<uint32_t>& readers,
                              uint64_t readers_ns, uint64_t threshold_ns);

}  // namespace stalltrace::cli

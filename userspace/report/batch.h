// The fsync batching analysis as JSON (schema `stalltrace.batch/1`) and as text.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "userspace/batching/verdicts.h"
#include "userspace/report/report.h"
#include "userspace/report/text.h"

namespace stalltrace::report {

inline constexpr std::string_view kBatchSchema = "stalltrace.batch/1";

struct BatchReport {
  std::string version, kernel, arch;
  std::vector<std::string> command;
  uint32_t cpus = 0;
  std::vector<DeviceInfo> devices;  // the file system's, and the journal's where it is another
  std::string work;                 // what the threads did, in words
  std::vector<batching::Rung> rungs;
  // By setting: the bounds of the batching sleep (min_batch_time, max_batch_time), in us.
  std::map<std::string, std::pair<uint64_t, uint64_t>> batch_bounds_us;
  std::vector<batching::Verdict> verdicts;
  std::vector<std::string> notes;
};

nlohmann::ordered_json to_json(const BatchReport& report);
std::string to_text(const BatchReport& report, const TextStyle& style);

}  // namespace stalltrace::report

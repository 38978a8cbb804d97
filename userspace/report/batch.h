// The fsync batching analysis as JSON (schema `stalltrace.batch/1`) and as text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "userspace/batching/verdicts.h"
#include "userspace/kernel/knobs.h"
#include "userspace/report/beside.h"
#include "userspace/report/report.h"
#include "userspace/report/text.h"

namespace stalltrace::report {

inline constexpr std::string_view kBatchSchema = "stalltrace.batch/1";

struct BatchReport {
  std::string version;
  BatchHost host;
  std::vector<std::string> command;
  std::vector<DeviceInfo> devices;  // the file system's, and the journal's where it is another
  std::string work;                 // what the threads did, in words
  BatchLoad load;
  std::vector<batching::Rung> rungs;
  std::vector<OtherBatch> beside;
  std::vector<batching::Verdict> verdicts;
  std::vector<std::string> notes;
};

// What one tally says of the sharing; also a report's "batching", one per journal.
nlohmann::ordered_json sharing_json(const batching::Tally& tally,
                                    const kernel::BatchBounds& bounds);

nlohmann::ordered_json to_json(const BatchReport& report);
std::string to_text(const BatchReport& report, const TextStyle& style);

}  // namespace stalltrace::report

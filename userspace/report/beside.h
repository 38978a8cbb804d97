// Another batch analysis beside this one: another kernel's, or another machine's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/batching/verdicts.h"

namespace stalltrace::report {

struct BatchReport;

struct BatchHost {
  std::string kernel, arch;
  std::string cpu;  // its model; "" where that is not told
  uint32_t cpus = 0;
};
// As far as is told: the same model and number of CPUs.
bool same_host(const BatchHost& a, const BatchHost& b);

// What each thread does in a loop.
struct BatchLoad {
  uint64_t files = 0;
  uint64_t file_bytes = 0;
};

struct OtherRun {
  std::string device;  // a profile's name; "" in a directory
  std::string setting, sync;
  std::map<std::string, std::string> knobs;
  unsigned threads = 1;
  double files_per_s = 0;
  std::vector<double> loops;  // files/s of each; none in files of older versions
};

struct OtherBatch {
  std::string file;
  BatchHost host;
  std::string version;            // of the stalltrace that made it
  std::string disk;               // where its runs without a profile ran
  std::string work;               // in words
  std::optional<BatchLoad> load;  // not in files of older versions
  std::vector<OtherRun> runs;
};

// From the JSON of `batch --json`. `file` names it in errors. Throws a usage Error that says what
// is wrong: not JSON, another schema, no runs.
OtherBatch read_batch_json(std::string_view text, const std::string& file);

// Our run on the same kind of device, of the same mode, with as many threads.
const batching::Rung* counterpart_of(const BatchReport& report, const OtherRun& run);

// The other's rate to ours; nothing without a counterpart. As many `comparisons` hold together.
std::optional<batching::Effect> effect_beside(const BatchReport& report, const OtherRun& run,
                                              size_t comparisons);
// How many runs of all the others have a counterpart.
size_t comparisons_beside(const BatchReport& report);

// What it is called in tables: its kernel's release; with its file's name where that is not enough.
std::string label_of(const BatchReport& report, const OtherBatch& other);

// What has to be known before its figures are compared with ours: another host, another load.
std::vector<std::string> notes_beside(const BatchReport& report, const OtherBatch& other);

std::vector<batching::Verdict> verdicts_beside(const BatchReport& report);

}  // namespace stalltrace::report

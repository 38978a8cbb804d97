#include "workloads/fsmark_results.h"

#include <algorithm>

namespace stalltrace::workloads {
namespace {

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

double rate(uint64_t count, uint64_t ns) {
  return ns > 0 ? static_cast<double>(count) / seconds(ns) : 0;
}

}  // namespace

nlohmann::json fsmark_figures(const Load::Results& results) {
  const FsmarkRun& run = *results.fsmark;
  nlohmann::json iterations = nlohmann::json::array();
  uint64_t all_files = 0;
  uint64_t all_syncs = 0;
  uint64_t all_ns = 0;
  for (size_t i = 0; i < run.starts_ns().size(); ++i) {
    uint64_t files = 0;
    uint64_t syncs = 0;
    uint64_t overhead_ns = 0;
    uint64_t end_ns = 0;
    double sum = 0;
    for (const FsmarkWorker* worker : results.fsmark_threads) {
      if (i >= worker->shares().size()) continue;
      const FsmarkWorker::Share& share = worker->shares()[i];
      uint64_t took_ns = share.end_ns - share.start_ns;
      files += share.files;
      syncs += share.syncs;
      overhead_ns += took_ns - std::min(took_ns, share.calls_ns);
      end_ns = std::max(end_ns, share.end_ns);
      sum += rate(share.files, took_ns);
    }
    if (end_ns == 0) continue;  // stopped before it began
    if (results.fsmark_sync != nullptr) {
      for (uint64_t at_ns : results.fsmark_sync->calls_ns()) {
        if (at_ns >= run.starts_ns()[i] && at_ns < end_ns) ++syncs;
      }
    }
    uint64_t took_ns = end_ns - run.starts_ns()[i];
    all_files += files;
    all_syncs += syncs;
    all_ns += took_ns;
    iterations.push_back({{"fsuse_percent", run.use_percents()[i]},
                          {"count", all_files},
                          {"size_bytes", run.spec().file_bytes},
                          {"files_per_s_sum", sum},
                          {"files_per_s", rate(files, took_ns)},
                          {"app_overhead_us", overhead_ns / 1000},
                          {"syncs", syncs},
                          {"elapsed_s", seconds(took_ns)}});
  }
  return {{"iterations", iterations},
          {"files_per_s", rate(all_files, all_ns)},
          {"files_written", all_files},
          {"syncs", all_syncs},
          {"syncs_per_s", rate(all_syncs, all_ns)}};
}

}  // namespace stalltrace::workloads

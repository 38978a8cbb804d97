#include "workloads/scenario.h"

#include <algorithm>
#include <array>
#include <map>

#include "userspace/base/error.h"
#include "userspace/base/units.h"

namespace stalltrace::workloads {
namespace {

struct SyncCallWord {
  SyncCall call;
  std::string_view name;
};
constexpr std::array kSyncCalls{SyncCallWord{SyncCall::kFsync, "fsync"},
                                SyncCallWord{SyncCall::kFdatasync, "fdatasync"},
                                SyncCallWord{SyncCall::kOSync, "osync"},
                                SyncCallWord{SyncCall::kODsync, "dsync"},
                                SyncCallWord{SyncCall::kSyncfs, "syncfs"},
                                SyncCallWord{SyncCall::kSyncFileRange, "sync_file_range"},
                                SyncCallWord{SyncCall::kGroup, "group"},
                                SyncCallWord{SyncCall::kDirsync, "dirsync"},
                                SyncCallWord{SyncCall::kSyncfsEvery, "syncfs-every"}};

std::string sync_words() {
  std::string words;
  for (const SyncCallWord& word : kSyncCalls) {
    words += fmt::format("{}{}{}", words.empty() ? "" : ", ", word.name,
                         word.call == SyncCall::kSyncfsEvery ? "=TIME" : "");
  }
  return words;
}

}  // namespace

SyncMethod parse_sync_method(std::string_view word) {
  std::string_view name = word.substr(0, word.find('='));
  bool has_value = name.size() < word.size();
  for (const SyncCallWord& known : kSyncCalls) {
    if (known.name != name || has_value != (known.call == SyncCall::kSyncfsEvery)) continue;
    if (!has_value) return {known.call, 0};
    SyncMethod method{known.call, parse_time_ns(word.substr(name.size() + 1), "syncfs-every")};
    if (method.interval_ns == 0) {
      throw usage_error("syncfs-every=0 is no interval: with syncfs each file calls it at once");
    }
    return method;
  }
  throw usage_error("there is no way of syncing called '{}': it is one of {}", word, sync_words());
}

void check_fsmark(const FsmarkSpec& spec, const std::string& where) {
  constexpr unsigned kMost = 1000;
  if (spec.directories.empty()) throw usage_error("{}: name a directory with -d", where);
  if (spec.threads == 0 || spec.threads > kMost) {
    throw usage_error("{}: {} threads: choose 1 to {}", where, spec.threads, kMost);
  }
  if (spec.files == 0 || spec.loops == 0) {
    throw usage_error("{}: at least one file (-n) and one iteration (-L)", where);
  }
  if (spec.method > 6) {
    throw usage_error("{}: sync method {}: fs_mark has 0 to 6", where, spec.method);
  }
  if (spec.write_bytes == 0 || spec.write_bytes > (uint64_t{1} << 30U)) {
    throw usage_error("{}: writes of {} bytes: choose 1 to 1 GiB", where, spec.write_bytes);
  }
  if (spec.subdirs > 4096)
    throw usage_error("{}: {} subdirectories: choose up to 4096", where, spec.subdirs);
}

std::string ProbeSpec::path() const {
  return path_in(directory, filename);
}

uint64_t planned_runtime_ns(const Scenario& scenario) {
  if (scenario.osync) return scenario.osync->runtime_ns;
  if (scenario.dio_cell) return scenario.dio_cell->runtime_ns;
  if (scenario.jobs.empty()) return scenario.probe ? scenario.probe->runtime_ns : 0;
  std::map<unsigned, uint64_t> phases;  // each as long as its longest job
  for (const JobSpec& job : scenario.jobs) {
    if (job.runtime_ns == 0) return 0;
    uint64_t& longest = phases[job.phase];
    longest = std::max(longest, job.start_delay_ns + job.ramp_ns + job.runtime_ns);
  }
  uint64_t sum = 0;
  for (const auto& [phase, longest] : phases) sum += longest;
  return sum;
}

}  // namespace stalltrace::workloads

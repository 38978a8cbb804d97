#include "workloads/scenario.h"

#include <algorithm>
#include <array>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/ops_log.h"

namespace stalltrace::workloads {
namespace {

std::string join(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + '/' + name;
}

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

std::string JobSpec::path(unsigned thread) const {
  switch (file_names) {
    case FileNames::kChunk:
      return join(directory, fmt::format("chunk-{:03}", thread));
    case FileNames::kFio:
      return join(directory, fmt::format("{}.{}.0", name, thread));
    case FileNames::kShared:
      break;
  }
  return join(directory, filename);
}

std::string ProbeSpec::path() const {
  return join(directory, filename);
}

std::string_view engine_name(Engine engine) {
  switch (engine) {
    case Engine::kLibaio:
      return "libaio";
    case Engine::kIoUring:
      return "io_uring";
    case Engine::kSync:
      return "sync";
    case Engine::kPsync:
      break;
  }
  return "psync";
}

std::string_view pattern_name(Pattern pattern) {
  switch (pattern) {
    case Pattern::kRead:
      return "read";
    case Pattern::kWrite:
      return "write";
    case Pattern::kRandRead:
      return "randread";
    case Pattern::kRandWrite:
      return "randwrite";
    case Pattern::kReadWrite:
      return "rw";
    case Pattern::kRandReadWrite:
      break;
  }
  return "randrw";
}

void check_job(const JobSpec& job, const std::string& where) {
  constexpr unsigned kMaxJobs = 4096;
  constexpr uint64_t kMaxBlock = uint64_t{1} << 30U;
  if (job.jobs == 0 || job.jobs > kMaxJobs) {
    throw usage_error("{}: {} jobs: choose 1 to {}", where, job.jobs, kMaxJobs);
  }
  if (job.iodepth == 0 || job.iodepth > kMaxDepth) {
    throw usage_error("{}: an I/O depth of {}: choose 1 to {}", where, job.iodepth, kMaxDepth);
  }
  if (job.block_bytes == 0 || job.block_bytes > kMaxBlock) {
    throw usage_error("{}: a block size of {} bytes: choose 1 byte to 1 GiB", where,
                      job.block_bytes);
  }
  if (job.direct && job.block_bytes % 512 != 0) {
    throw usage_error("{}: a block size of {} bytes is not a multiple of 512, as direct I/O needs",
                      where, job.block_bytes);
  }
  if (job.size_bytes < job.block_bytes) {
    throw usage_error("{}: a size of {} is less than one block of {}", where,
                      format_size(job.size_bytes), format_size(job.block_bytes));
  }
  if (job.size_bytes > (uint64_t{1} << 62U)) {
    throw usage_error("{}: a size of {} is more than a file can have", where,
                      format_size(job.size_bytes));
  }
  if (job.time_based && job.runtime_ns == 0 && job.file_names != FileNames::kChunk) {
    throw usage_error("{}: time_based needs a runtime", where);
  }
  if (job.sync_threads > 0 && (job.fsync_every > 0 || job.fdatasync_every > 0)) {
    throw usage_error("{}: either the writers sync or threads of their own do: drop one", where);
  }
}

uint64_t planned_runtime_ns(const Scenario& scenario) {
  if (scenario.osync) return scenario.osync->runtime_ns;
  if (scenario.dio_cell) return scenario.dio_cell->runtime_ns;
  uint64_t longest = 0;
  for (const JobSpec& job : scenario.jobs) {
    if (job.runtime_ns == 0) return 0;
    longest = std::max(longest, job.runtime_ns);
  }
  if (scenario.jobs.empty() && scenario.probe) longest = scenario.probe->runtime_ns;
  return longest;
}

}  // namespace stalltrace::workloads

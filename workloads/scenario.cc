#include "workloads/scenario.h"

#include <algorithm>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/ops_log.h"

namespace stalltrace::workloads {
namespace {

std::string join(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + '/' + name;
}

}  // namespace

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
  uint64_t longest = 0;
  for (const JobSpec& job : scenario.jobs) {
    if (job.runtime_ns == 0) return 0;
    longest = std::max(longest, job.runtime_ns);
  }
  if (scenario.jobs.empty() && scenario.probe) longest = scenario.probe->runtime_ns;
  return longest;
}

}  // namespace stalltrace::workloads

#include "workloads/job_spec.h"

#include <algorithm>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/ops_log.h"
#include "workloads/random.h"

namespace stalltrace::workloads {
namespace {

struct EngineWord {
  Engine engine;
  std::string_view name;
};
constexpr std::array kEngineWords{
    EngineWord{Engine::kLibaio, "libaio"}, EngineWord{Engine::kIoUring, "io_uring"},
    EngineWord{Engine::kSync, "sync"},     EngineWord{Engine::kPsync, "psync"},
    EngineWord{Engine::kPvsync, "pvsync"}, EngineWord{Engine::kPvsync2, "pvsync2"}};

constexpr std::array<std::string_view, 6> kPatternWords{"read",      "write", "randread",
                                                        "randwrite", "rw",    "randrw"};

void replace_all(std::string& text, std::string_view word, const std::string& by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size())) {
    text.replace(at, word.size(), by);
  }
}

std::string formatted_name(const JobSpec& job, unsigned thread, unsigned file) {
  if (job.filename_format.empty()) return fmt::format("{}.{}.{}", job.name, thread, file);
  std::string name = job.filename_format;
  replace_all(name, "$jobname", job.name);
  replace_all(name, "$jobnum", std::to_string(thread));
  replace_all(name, "$filenum", std::to_string(file));
  return name;
}

// fio's lists of files: ':' between them, "\:" is a colon.
std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ':') {
      names.back() += text[++i];
    } else if (text[i] == ':') {
      names.emplace_back();
    } else {
      names.back() += text[i];
    }
  }
  std::erase(names, "");
  return names;
}

std::vector<std::string> file_names(const JobSpec& job, unsigned thread) {
  if (job.file_names == FileNames::kShared) return split_names(job.filename);
  if (job.file_names == FileNames::kChunk) return {fmt::format("chunk-{:03}", thread)};
  std::vector<std::string> names;
  for (unsigned file = 0; file < job.files; ++file) {
    names.push_back(formatted_name(job, thread, file));
  }
  return names;
}

void check_blocks(const JobSpec& job, const std::string& where) {
  constexpr uint64_t kMaxBlock = uint64_t{1} << 30U;
  for (bool write : {false, true}) {
    if (!(write ? job.writes() : job.reads())) continue;
    uint64_t least = job.min_block(write);
    uint64_t most = job.max_block(write);
    if (least == 0 || least > most || most > kMaxBlock) {
      throw usage_error("{}: a block size of {} bytes: choose 1 byte to 1 GiB", where,
                        least == 0 ? least : most);
    }
    if (job.direct && job.any_size && least < most) {
      throw usage_error("{}: bs_unaligned needs buffered I/O: drop direct=1", where);
    }
    if (job.direct && least % 512 != 0) {
      throw usage_error(
          "{}: a block size of {} bytes is not a multiple of 512, as direct I/O needs", where,
          least);
    }
  }
}

void check_files(const JobSpec& job, const std::string& where) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 62U;
  constexpr uint64_t kMaxFiles = 100'000;
  if (job.file_names == FileNames::kFio &&
      (job.files == 0 || uint64_t{job.files} * job.jobs > kMaxFiles)) {
    throw usage_error("{}: {} files in each of {} jobs: choose 1 to {} in all", where, job.files,
                      job.jobs, kMaxFiles);
  }
  std::vector<JobFile> files = job_files(job, 0);
  if (files.empty()) throw usage_error("{}: names no file", where);
  uint64_t step = 0;
  if (__builtin_mul_overflow(job.offset_step, uint64_t{job.jobs}, &step) || step > kMaxSize ||
      job.offset_bytes > kMaxSize || job.size_bytes > kMaxSize || job.file_max_bytes > kMaxSize ||
      job.io_bytes > kMaxSize) {
    throw usage_error("{}: a size of {} is more than a file can have", where,
                      format_size(std::max({step, job.offset_bytes, job.size_bytes,
                                            job.file_max_bytes, job.io_bytes})));
  }
  for (const JobFile& file : files) {
    if (file.bytes < job.max_block()) {
      throw usage_error("{}: a size of {} is less than one block of {}", where,
                        format_size(file.bytes), format_size(job.max_block()));
    }
  }
  if (job.direct && (job.offset_bytes % 512 != 0 || job.offset_step % 512 != 0)) {
    throw usage_error("{}: an offset that is not a multiple of 512, as direct I/O needs", where);
  }
}

void check_ring(const JobSpec& job, const std::string& where) {
  bool ring = job.engine == Engine::kIoUring;
  if (!ring && (job.uring.sq_poll || job.uring.fixed_files || job.uring.fixed_buffers)) {
    throw usage_error(
        "{}: sqthread_poll, registerfiles and fixedbufs are io_uring's: use ioengine=io_uring",
        where);
  }
  if (job.uring.fixed_files && job.create_on_open) {
    throw usage_error("{}: files that do not exist yet cannot be registered: drop create_on_open",
                      where);
  }
  if (job.hipri && !ring && job.engine != Engine::kPvsync2) {
    throw usage_error("{}: hipri needs ioengine=pvsync2 or io_uring", where);
  }
  if (job.hipri && !job.direct) throw usage_error("{}: hipri needs direct=1", where);
  if (job.nowait && !job.async() && job.engine != Engine::kPvsync2) {
    throw usage_error("{}: nowait needs ioengine=libaio, io_uring or pvsync2", where);
  }
}

}  // namespace

uint64_t JobSpec::min_block(bool write) const {
  const BlockSizes& sizes = blocks[write ? 1 : 0];
  return sizes.min_bytes > 0 ? sizes.min_bytes : block_bytes;
}

uint64_t JobSpec::max_block(bool write) const {
  const BlockSizes& sizes = blocks[write ? 1 : 0];
  return sizes.max_bytes > 0 ? sizes.max_bytes : min_block(write);
}

uint64_t JobSpec::min_block() const {
  if (!writes()) return min_block(false);
  if (!reads()) return min_block(true);
  return std::min(min_block(false), min_block(true));
}

uint64_t JobSpec::max_block() const {
  if (!writes()) return max_block(false);
  if (!reads()) return max_block(true);
  return std::max(max_block(false), max_block(true));
}

std::string path_in(const std::string& directory, const std::string& name) {
  if (directory.empty() || name.starts_with('/')) return name;
  return directory.back() == '/' ? directory + name : directory + '/' + name;
}

std::string JobSpec::path(unsigned thread) const {
  std::vector<std::string> names = workloads::file_names(*this, thread);
  return path_in(directory, names.empty() ? filename : names.front());
}

std::vector<JobFile> job_files(const JobSpec& job, unsigned thread) {
  std::vector<std::string> names = file_names(job, thread);
  Random random(job.seed + 0x66696c65 + thread);
  std::vector<JobFile> files;
  uint64_t begin = job.offset_bytes + job.offset_step * thread;
  for (const std::string& name : names) {
    uint64_t bytes = job.size_bytes / names.size();
    if (job.file_min_bytes > 0) {
      // fio's: a file's size includes what lies before its offset.
      bytes = job.file_min_bytes + random.below(job.file_max_bytes - job.file_min_bytes + 1);
      bytes -= std::min(bytes, begin);
      if (names.size() == 1 && job.size_bytes > 0) bytes = std::min(bytes, job.size_bytes);
    }
    files.push_back({.path = path_in(job.directory, name), .begin = begin, .bytes = bytes});
  }
  return files;
}

std::string_view engine_name(Engine engine) {
  return std::find_if(kEngineWords.begin(), kEngineWords.end(),
                      [engine](const EngineWord& word) { return word.engine == engine; })
      ->name;
}

std::string_view pattern_name(Pattern pattern) {
  return kPatternWords[static_cast<size_t>(pattern)];
}

void check_job(const JobSpec& job, const std::string& where) {
  constexpr unsigned kMaxJobs = 4096;
  constexpr uint64_t kMaxBuffers = uint64_t{64} << 30U;
  if (job.jobs == 0 || job.jobs > kMaxJobs) {
    throw usage_error("{}: {} jobs: choose 1 to {}", where, job.jobs, kMaxJobs);
  }
  if (job.iodepth == 0 || job.iodepth > kMaxDepth) {
    throw usage_error("{}: an I/O depth of {}: choose 1 to {}", where, job.iodepth, kMaxDepth);
  }
  if (job.batch == 0 || job.batch > job.iodepth || job.reap_min > job.iodepth ||
      job.reap_max > job.iodepth || job.depth_low > job.iodepth) {
    throw usage_error("{}: a batch or low mark of more than the I/O depth of {}", where,
                      job.iodepth);
  }
  check_blocks(job, where);
  check_files(job, where);
  check_ring(job, where);
  if (job.max_block() * job.iodepth * job.jobs > kMaxBuffers) {
    throw usage_error("{}: buffers of {}: lower numjobs, iodepth or bs", where,
                      format_size(job.max_block() * job.iodepth * job.jobs));
  }
  if (job.time_based && job.runtime_ns == 0 && job.file_names != FileNames::kChunk) {
    throw usage_error("{}: time_based needs a runtime", where);
  }
  if (job.sync_threads > 0 && (job.fsync_every > 0 || job.fdatasync_every > 0)) {
    throw usage_error("{}: either the writers sync or threads of their own do: drop one", where);
  }
}

}  // namespace stalltrace::workloads

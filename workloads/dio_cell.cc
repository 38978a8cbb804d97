#include "workloads/dio_cell.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/device_guard.h"

namespace stalltrace::workloads {
namespace {

constexpr size_t kDioAlign = 4096;

Fill fill_of(DioLayout layout) {
  switch (layout) {
    case DioLayout::kFallocated:
      return Fill::kPreallocate;
    case DioLayout::kSparse:
      return Fill::kTruncate;
    case DioLayout::kWritten:
      break;
  }
  return Fill::kWrite;
}

}  // namespace

void GrowingEnd::attach(int fd, uint64_t base_bytes) {
  fd_ = fd;
  base_ = base_bytes;
  end_ = base_bytes;
  limit_ = 2 * base_bytes;
  if (ftruncate(fd, static_cast<off_t>(base_bytes)) != 0) {
    throw failed_error("the file cannot be cut to its size: {}", std::strerror(errno));
  }
}

int64_t GrowingEnd::next(uint64_t bytes) {
  std::scoped_lock lock(mutex_);
  if (end_ + bytes > limit_) {
    // What others have in flight lands behind it, and is cut off the next time.
    if (ftruncate(fd_, static_cast<off_t>(base_)) != 0) return -errno;
    end_ = base_;
  }
  const uint64_t offset = end_;
  end_ += bytes;
  return static_cast<int64_t>(offset);
}

DioWorker::DioWorker(unsigned index, unsigned thread, bool writes, const OpsLogSpec& log,
                     const DioCellSpec& spec, int fd, uint64_t first, uint64_t blocks,
                     GrowingEnd* end, const StopSignal& stop)
    : Worker(fmt::format("{}-{:02}", writes ? "write" : "read", thread), index, log),
      spec_(spec),
      writes_(writes),
      fd_(fd),
      first_(first),
      order_(spec.linear() ? OrderKind::kSequential : OrderKind::kShuffled, blocks, index),
      end_(end),
      stop_(stop),
      buffer_(std::aligned_alloc(kDioAlign,
                                 (spec.block_bytes + kDioAlign - 1) / kDioAlign * kDioAlign)) {
  if (buffer_ == nullptr) throw std::bad_alloc();
  std::memset(buffer_, 'd', spec.block_bytes);
}

DioWorker::~DioWorker() {
  join();
  std::free(buffer_);
}

void DioWorker::run(uint64_t start_ns) {
  start_ns_ = start_ns;
  const uint64_t end_ns = start_ns + spec_.runtime_ns;
  const size_t bytes = spec_.block_bytes;
  uint64_t now_ns = monotonic_ns();
  while (!stop_.requested() && now_ns < end_ns) {
    auto offset = static_cast<int64_t>((first_ + order_.next()) * bytes);
    if (end_ != nullptr) offset = end_->next(bytes);
    if (offset < 0) return add_error("cutting " + spec_.path, static_cast<int>(-offset));
    const uint64_t begin_ns = end_ != nullptr ? monotonic_ns() : now_ns;
    ssize_t done =
        writes_ ? pwrite(fd_, buffer_, bytes, offset) : pread(fd_, buffer_, bytes, offset);
    const int error = done < 0 ? errno : EIO;
    now_ns = monotonic_ns();
    record(writes_ ? OpKind::kWrite : OpKind::kRead, next_id(), begin_ns, now_ns, done);
    if (done != static_cast<ssize_t>(bytes)) {
      return add_error((writes_ ? "writing to " : "reading ") + spec_.path, error);
    }
    ++operations_;
  }
}

bool DioCellLoad::prepare(const LayoutHooks& /*hooks*/) {
  uint64_t bytes = spec_.bytes;
  if (spec_.raw && spec_.writes()) {
    claim_ = claim_device(spec_.path, spec_.destroy_data);
    bytes = std::min(bytes, device_bytes(claim_, spec_.path));
  }
  if (spec_.reads()) {
    reads_ = open_for_load(spec_.path, false, true, true, spec_.block_bytes);
    if (spec_.raw) bytes = std::min(bytes, device_bytes(reads_, spec_.path));
  }
  const uint64_t blocks = bytes / spec_.block_bytes;
  if (blocks < spec_.threads) {
    throw usage_error(
        "{} of {} are less than a block of {} for each of {} threads: use a larger "
        "--size or fewer --threads",
        format_size(bytes), spec_.path, format_size(spec_.block_bytes), spec_.threads);
  }
  if (spec_.writes()) {
    const bool direct = spec_.writers != DioWriters::kBuffered;
    writes_ = open_for_load(spec_.path, true, false, direct, spec_.block_bytes);
    if (spec_.writers == DioWriters::kExtending) end_.attach(writes_.get(), spec_.bytes);
  }
  if (spec_.reads()) add_threads(false, reads_.get(), blocks);
  if (spec_.writes()) add_threads(true, writes_.get(), blocks);
  return true;
}

void DioCellLoad::add_threads(bool writers, int fd, uint64_t blocks) {
  const bool extend = writers && spec_.writers == DioWriters::kExtending;
  for (unsigned thread = 0; thread < spec_.threads; ++thread) {
    // Linear threads have regions of their own, random ones all of it.
    const uint64_t share = spec_.linear() ? blocks / spec_.threads : blocks;
    const uint64_t first = spec_.linear() ? thread * share : 0;
    workers_.push_back(std::make_unique<DioWorker>(static_cast<unsigned>(workers_.size()) + 1,
                                                   thread, writers, log_, spec_, fd, first, share,
                                                   extend ? &end_ : nullptr, stop_));
  }
}

nlohmann::json DioCellLoad::figures(uint64_t /*elapsed_ns*/) const {
  nlohmann::json figures;
  for (bool writers : {false, true}) {
    uint64_t operations = 0;
    uint64_t ns = 0;
    for (const auto& worker : workers_) {
      const auto& thread = static_cast<const DioWorker&>(*worker);
      if (thread.is_writer() != writers || thread.start_ns() == 0) continue;
      operations += thread.operations();
      ns = std::max(ns, thread.end_ns() - thread.start_ns());
    }
    const uint64_t bytes = operations * spec_.block_bytes;
    figures[writers ? "writes" : "reads"] = operations;
    figures[writers ? "bytes_written" : "bytes_read"] = bytes;
    figures[writers ? "write_mb_per_s" : "read_mb_per_s"] =
        ns == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(ns) * 1e3;
  }
  return figures;
}

bool DioFileLoad::prepare(const LayoutHooks& hooks) {
  files_.check({{.path = spec_.path, .bytes = spec_.bytes, .fill = fill_of(spec_.layout)}});
  return files_.create(hooks);
}

}  // namespace stalltrace::workloads

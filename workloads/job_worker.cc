#include "workloads/job_worker.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/units.h"

namespace stalltrace::workloads {
namespace {

constexpr size_t kBufferAlignment = 4096;

OrderKind order_kind(const JobSpec& job) {
  if (!job.random()) return OrderKind::kSequential;
  return job.shuffle ? OrderKind::kShuffled : OrderKind::kIndependent;
}

}  // namespace

JobWorker::JobWorker(std::string name, unsigned index, const OpsLogSpec& log, const JobSpec& job,
                     uint64_t seed, StopSignal& stop)
    : Worker(std::move(name), index, log),
      job_(job),
      stop_(stop),
      order_(order_kind(job), job.size_bytes / job.block_bytes, seed),
      mix_state_(seed + 1),
      buffer_stride_((job.block_bytes + kBufferAlignment - 1) / kBufferAlignment *
                     kBufferAlignment),
      slots_(job.iodepth),
      completions_(job.iodepth) {
  if (job.async()) engine_ = make_async_engine(job.engine, job.iodepth);
  for (unsigned slot = job.iodepth; slot-- > 0;) free_slots_.push_back(slot);

  size_t bytes = buffer_stride_ * job.iodepth;
  buffers_.reset(std::aligned_alloc(kBufferAlignment, bytes));
  if (!buffers_) {
    throw failed_error("no memory for I/O buffers of {}: lower --jobs, --iodepth or --bs",
                       format_size(bytes * job.jobs));
  }
  // Random contents: a device that compresses or detects zeros would not do the work.
  std::mt19937_64 random(seed);
  auto* words = static_cast<uint64_t*>(buffers_.get());
  std::generate(words, words + bytes / sizeof(uint64_t), std::ref(random));

  // What a sync covers is at most what was issued since the last one and what was in flight then.
  constexpr size_t kMaxReserve = 65536;
  size_t every = std::max(job.fsync_every, job.fdatasync_every);
  unacknowledged_.reserve(std::min(every, kMaxReserve) + 2 * size_t{job.iodepth});
}

void JobWorker::attach(int fd, const std::string& path) {
  fd_ = fd;
  path_ = path;
}

void JobWorker::attach_syncs(UnsyncedFile& unsynced, SyncQueue& queue) {
  unsynced_ = &unsynced;
  queue_ = &queue;
}

void* JobWorker::buffer(unsigned slot) {
  return static_cast<char*>(buffers_.get()) + slot * buffer_stride_;
}

bool JobWorker::going_on() const {
  return !failed_ && blocks_left_ > 0 && !stop_.requested() && monotonic_ns() < deadline_ns_;
}

void JobWorker::run(uint64_t start_ns) {
  if (job_.runtime_ns > 0) deadline_ns_ = start_ns + job_.runtime_ns;
  if (!job_.time_based) blocks_left_ = job_.size_bytes / job_.block_bytes;
  while (going_on()) {
    if (free_slots_.empty()) {
      wait_for_one();
    } else if (sync_on_demand() && !unsynced_->wait_for_room()) {
      break;  // told by the thread whose sync failed
    } else if (!sync_if_due()) {
      if (engine_) {
        issue_async();
      } else {
        issue_sync();
      }
    }
  }
  while (free_slots_.size() < slots_.size() && engine_) wait_for_one();
  if (job_.end_fsync && job_.writes() && !failed_) sync(OpKind::kFsync);
}

bool JobWorker::sync_if_due() {
  if (issued_writes_ == synced_at_) return false;
  auto due = [this](unsigned every) { return every > 0 && issued_writes_ % every == 0; };
  if (due(job_.fsync_every)) {
    sync(OpKind::kFsync);
  } else if (due(job_.fdatasync_every)) {
    sync(OpKind::kFdatasync);
  } else {
    return false;
  }
  return true;
}

// A plain system call in the submitting thread, with other writes in flight: fio 3.33 does the same
// for libaio. It covers those writes that were seen complete before it.
void JobWorker::sync(OpKind kind) {
  synced_at_ = issued_writes_;
  uint64_t start = monotonic_ns();
  int failed = kind == OpKind::kFsync ? fsync(fd_) : fdatasync(fd_);
  int error = failed != 0 ? errno : 0;
  uint64_t end = monotonic_ns();
  record(kind, next_id(), start, end, -error);
  if (error != 0) {
    fail(fmt::format("{} of {}", op_kind_name(kind), path_), error);
    return;
  }
  for (const CompletedWrite& write : unacknowledged_) {
    record(OpKind::kAck, write.id, write.submitted_ns, end, 0);
  }
  unacknowledged_.clear();
  look();
}

JobWorker::Slot JobWorker::next_operation() {
  Slot slot;
  slot.write = job_.writes();
  if (job_.writes() && job_.reads()) {
    mix_state_ = mix_state_ * 6364136223846793005U + 1442695040888963407U;
    slot.write = (mix_state_ >> 33U) % 100 >= job_.read_percent;
  }
  slot.offset = order_.next() * job_.block_bytes;
  if (blocks_left_ != UINT64_MAX) --blocks_left_;
  if (slot.write) ++issued_writes_;
  return slot;
}

void JobWorker::issue_async() {
  unsigned number = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[number];
  slot = next_operation();
  IoRequest request{.id = next_id(number),
                    .buffer = buffer(number),
                    .offset = slot.offset,
                    .bytes = static_cast<uint32_t>(job_.block_bytes),
                    .fd = fd_,
                    .write = slot.write};
  if (!submit_until_taken(request, number)) free_slots_.push_back(number);
  look();
}

bool JobWorker::submit_until_taken(const IoRequest& request, unsigned slot) {
  while (engine_) {
    uint64_t start = monotonic_ns();
    int result = engine_->submit(request);
    uint64_t end = monotonic_ns();
    record(engine_->call_kind(), request.id, start, end, result);
    slots_[slot].start_ns = start;
    if (result > 0) return true;
    if (result != -EAGAIN && result != -EBUSY && result != -EINTR) {
      fail(fmt::format("{} for {} at {} of {}", op_kind_name(engine_->call_kind()),
                       request.write ? "a write" : "a read", request.offset, path_),
           -result);
      return false;
    }
    if (stop_.requested() || failed_) return false;
    // Out of resources: they come back with completions, ours or those of others. The slot of this
    // request is neither free nor in flight.
    if (free_slots_.size() + 1 < slots_.size()) {
      wait_for_one();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return false;
}

void JobWorker::issue_sync() {
  Slot slot = next_operation();
  uint64_t id = next_id();
  auto offset = static_cast<off_t>(slot.offset);
  uint64_t start = monotonic_ns();
  ssize_t result = 0;
  if (job_.engine == Engine::kSync) {
    result = lseek(fd_, offset, SEEK_SET);
    if (result >= 0) {
      start = monotonic_ns();
      result = slot.write ? write(fd_, buffer(0), job_.block_bytes)
                          : read(fd_, buffer(0), job_.block_bytes);
    }
  } else {
    result = slot.write ? pwrite(fd_, buffer(0), job_.block_bytes, offset)
                        : pread(fd_, buffer(0), job_.block_bytes, offset);
  }
  if (result < 0) result = -errno;
  uint64_t end = monotonic_ns();
  record(slot.write ? OpKind::kWrite : OpKind::kRead, id, start, end, result);
  slot.start_ns = start;
  completed(slot, id, result);
}

void JobWorker::look() {
  if (!engine_) return;
  uint64_t look_ns = monotonic_ns();
  int count = engine_->reap(completions_, false);
  if (count != 0) reaped(count, monotonic_ns());
  last_look_ns_ = look_ns;
}

void JobWorker::wait_for_one() {
  int count = engine_->reap(completions_, true);
  reaped(count, monotonic_ns());
  // What is not there now completes after now: the wait itself says nothing about when it looked.
  if (count > 0) look();
}

void JobWorker::reaped(int count, uint64_t end_ns) {
  if (count < 0) {
    fail("waiting for completions", -count);
    // Nothing can be known of what is in flight; the kernel waits for it when the engine is closed.
    engine_.reset();
    return;
  }
  for (const Completion& completion : std::span(completions_).first(static_cast<size_t>(count))) {
    unsigned number = slot_of(completion.id);
    const Slot& slot = slots_[number];
    recorder_ref().add({.id = completion.id,
                        .start_ns = slot.start_ns,
                        .end_ns = end_ns,
                        .reap_from_ns = std::max(last_look_ns_, slot.start_ns),
                        .result = completion.result,
                        .kind = engine_->request_kind()});
    completed(slot, completion.id, completion.result);
    free_slots_.push_back(number);
  }
  if (sync_on_demand()) hand_over_completed();
}

void JobWorker::completed(const Slot& slot, uint64_t id, int64_t result) {
  if (result != static_cast<int64_t>(job_.block_bytes)) {
    // A short transfer has no errno of its own.
    fail(fmt::format("{} at {} of {}", slot.write ? "write" : "read", slot.offset, path_),
         result < 0 ? static_cast<int>(-result) : EIO);
    return;
  }
  if (!slot.write) {
    ++reads_;
    bytes_read_ += job_.block_bytes;
    return;
  }
  ++writes_;
  bytes_written_ += job_.block_bytes;
  if (sync_self() || sync_on_demand()) {
    unacknowledged_.push_back({.id = id, .submitted_ns = slot.start_ns});
  }
}

void JobWorker::hand_over_completed() {
  if (unacknowledged_.empty()) return;
  if (unsynced_->add(unacknowledged_.data(), unacknowledged_.size())) queue_->push(*unsynced_);
  unacknowledged_.clear();
}

void JobWorker::fail(const std::string& what, int error) {
  add_error(what, error);
  failed_ = true;
}

}  // namespace stalltrace::workloads

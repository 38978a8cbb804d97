// How a job's thread syncs what it wrote.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "workloads/job_worker.h"

namespace stalltrace::workloads {

// As fio has it: a sync stays due until one is the last completion seen. In a ring, where none
// completes at once, the queue fills with them; between two writes, each read is followed by one.
bool JobWorker::sync_if_due() {
  if (last_was_sync_ || issued_writes_ == 0) return false;
  auto due = [this](unsigned every) { return every > 0 && issued_writes_ % every == 0; };
  IoAction action = IoAction::kTransfer;
  if (due(job_.fsync_every)) {
    action = IoAction::kFsync;
  } else if (due(job_.fdatasync_every)) {
    action = IoAction::kFdatasync;
  } else if (!due(job_.range_sync_every)) {
    return false;
  }
  if (action == IoAction::kTransfer) {
    sync_range();
  } else if (job_.sync_in_ring && job_.engine == Engine::kIoUring) {
    sync_in_ring(action);
  } else {
    uint64_t took_ns = sync(action, last_written_);
    stats_.add_due_sync(took_ns, action == IoAction::kFsync);
  }
  return true;
}

// A plain system call in the submitting thread, with other writes in flight: fio 3.33 does the same
// for libaio. It covers those writes that were seen complete before it.
uint64_t JobWorker::sync(IoAction action, unsigned file) {
  if (files_[file].get() < 0) return 0;
  commit();
  OpKind kind = action == IoAction::kFsync ? OpKind::kFsync : OpKind::kFdatasync;
  uint64_t start = monotonic_ns();
  int fd = files_[file].get();
  int failed = action == IoAction::kFsync ? fsync(fd) : fdatasync(fd);
  int error = failed != 0 ? errno : 0;
  uint64_t end = monotonic_ns();
  now_ns_ = end;
  record(kind, next_id(), start, end, -error);
  stats_.sync().add(end - start);
  if (error != 0) {
    fail(fmt::format("{} of {}", op_kind_name(kind), path(file)), error);
    return end - start;
  }
  acknowledge(acknowledged_ + unacknowledged_.size(), end);
  look();
  // What completed meanwhile, fio would see only after the I/O that comes next.
  last_was_sync_ = true;
  return end - start;
}

// A request like the others, as fio has it for io_uring: the thread goes on.
void JobWorker::sync_in_ring(IoAction action) {
  unsigned number = free_slots_.back();
  free_slots_.pop_back();
  slots_[number] = {.io = {.file = last_written_},
                    .action = action,
                    .id = next_id(number),
                    .covers_before = acknowledged_ + unacknowledged_.size()};
  slots_[number].start_ns = now_ns_ = monotonic_ns();
  engine_->queue(request_of(number));
  queued_.push_back(number);
  if (queued_.size() >= job_.batch) commit();
}

void JobWorker::sync_completed(const Slot& slot, int64_t result, uint64_t end_ns) {
  stats_.sync().add(end_ns - slot.start_ns);
  stats_.add_due_sync(end_ns - slot.start_ns, slot.action == IoAction::kFsync);
  if (result < 0) {
    fail(fmt::format("sync of {}", path(slot.io.file)), static_cast<int>(-result));
    return;
  }
  acknowledge(slot.covers_before, end_ns);
}

// The writes up to the one of that number: they completed before the sync began.
void JobWorker::acknowledge(uint64_t before, uint64_t end_ns) {
  if (before <= acknowledged_) return;
  auto end = unacknowledged_.begin() + static_cast<ptrdiff_t>(before - acknowledged_);
  for (auto write = unacknowledged_.begin(); write != end; ++write) {
    record(OpKind::kAck, write->id, write->submitted_ns, end_ns, 0);
  }
  unacknowledged_.erase(unacknowledged_.begin(), end);
  acknowledged_ = before;
}

void JobWorker::sync_range() {
  commit();
  last_was_sync_ = true;
  WrittenRange& range = written_[last_written_];
  if (range.from >= range.to) return;
  uint64_t start = monotonic_ns();
  int failed = sync_file_range(files_[last_written_].get(), static_cast<off_t>(range.from),
                               static_cast<off_t>(range.to - range.from), job_.range_sync_flags);
  int error = failed != 0 ? errno : 0;
  uint64_t end = monotonic_ns();
  now_ns_ = end;
  range = {};
  record(OpKind::kSyncFileRange, next_id(), start, end, -error);
  stats_.sync().add(end - start);
  stats_.add_due_sync(end - start, false);
  if (error != 0) fail(fmt::format("sync_file_range of {}", path(last_written_)), error);
}

void JobWorker::hand_over_completed() {
  if (unacknowledged_.empty()) return;
  acknowledged_ += unacknowledged_.size();
  if (unsynced_->add(unacknowledged_.data(), unacknowledged_.size())) queue_->push(*unsynced_);
  unacknowledged_.clear();
}

}  // namespace stalltrace::workloads

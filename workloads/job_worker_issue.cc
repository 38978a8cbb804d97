// How a job's thread issues its I/O and sees it completed.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "workloads/job_worker.h"

namespace stalltrace::workloads {

// False if what was to come has changed meanwhile: a stop, or the end of the time. Where both
// directions have a pace, the one that is behind goes first, whatever was drawn.
bool JobWorker::wait_for_its_time() {
  uint64_t due_ns = pace_.due_ns(*next_is_write_);
  if (due_ns <= now_ns_) return true;
  bool both = job_.reads() && job_.writes() && job_.read_percent > 0 && job_.read_percent < 100;
  if (both) {
    uint64_t other_ns = pace_.due_ns(!*next_is_write_);
    if (other_ns < due_ns) {
      due_ns = other_ns;
      next_is_write_ = !*next_is_write_;
    }
    if (due_ns <= now_ns_) return true;
  }
  // Nothing stays queued while nobody looks.
  drain();
  now_ns_ = monotonic_ns();
  if (due_ns <= now_ns_) return true;
  stop_.sleep_until(std::min(due_ns, deadline_ns_));
  now_ns_ = monotonic_ns();
  return false;
}

void JobWorker::pause() {
  drain();
  now_ns_ = monotonic_ns();
  uint64_t end_ns = std::min(now_ns_ + job_.think_ns, deadline_ns_);
  uint64_t spin_end_ns = std::min(now_ns_ + job_.think_spin_ns, end_ns);
  while (now_ns_ < spin_end_ns && !stop_.requested()) now_ns_ = monotonic_ns();
  if (now_ns_ < end_ns) stop_.sleep_until(end_ns);
  now_ns_ = monotonic_ns();
  pause_due_ = false;
}

// A file that the job itself creates.
bool JobWorker::open_now(unsigned file) {
  if (files_[file].get() >= 0) return true;
  uint64_t start = monotonic_ns();
  int error = 0;
  try {
    files_[file] = create_for_load(path(file), job_);
  } catch (const Error& problem) {
    error = errno;
    fail(problem.what(), error);
  }
  now_ns_ = monotonic_ns();
  record(OpKind::kOpen, next_id(), start, now_ns_, error == 0 ? files_[file].get() : -error);
  return error == 0;
}

void JobWorker::issue(const PlannedIo& io) {
  if (job_.create_on_open && !open_now(io.file)) return;
  if (io.write) {
    ++issued_writes_;
    last_written_ = io.file;
    if (job_.range_sync_every > 0) {
      WrittenRange& range = written_[io.file];
      range.from = std::min(range.from, io.offset);
      range.to = std::max(range.to, io.offset + io.bytes);
    }
  }
  if (engine_) {
    issue_async(io);
  } else {
    issue_sync(io);
  }
  if (pace_.issued(io.write, io.bytes)) pause_due_ = true;
}

IoRequest JobWorker::request_of(unsigned number) {
  const Slot& slot = slots_[number];
  return {.id = slot.id,
          .buffer = buffers_.at(number),
          .offset = slot.io.offset,
          .bytes = slot.io.bytes,
          .fd = files_[slot.io.file].get(),
          .write = slot.io.write,
          .action = slot.action,
          .file = slot.io.file};
}

void JobWorker::issue_async(const PlannedIo& io) {
  unsigned number = free_slots_.back();
  free_slots_.pop_back();
  if (io.write) buffers_.prepare(number, io.bytes);
  Slot& slot = slots_[number];
  slot = {.io = io, .action = IoAction::kTransfer, .id = next_id(number)};
  slot.start_ns = now_ns_ = monotonic_ns();
  engine_->queue(request_of(number));
  queued_.push_back(number);
  if (queued_.size() >= job_.batch) commit();
}

// One call for all that is queued, and again for what it did not take.
void JobWorker::commit() {
  while (engine_ && !queued_.empty()) {
    if (job_.nowait) stats_.nowait.before_call();
    uint64_t id = slots_[queued_.front()].id;
    uint64_t start = queued_.size() == 1 ? slots_[queued_.front()].start_ns : monotonic_ns();
    int taken = engine_->commit();
    uint64_t end = monotonic_ns();
    now_ns_ = end;
    // With a polling thread it is no call.
    if (!job_.uring.sq_poll) record(engine_->call_kind(), id, start, end, taken);
    if (job_.nowait) stats_.nowait.after_call(end - start);
    if (taken <= 0) {
      if (!retry(-taken)) give_up_queued();
      continue;
    }
    size_t depth = in_flight();
    auto done = std::span(queued_).first(static_cast<size_t>(taken));
    for (unsigned number : done) {
      Slot& slot = slots_[number];
      slot.issued_ns = end;
      stats_.depth.add_depth(++depth);
      if (slot.action != IoAction::kTransfer) continue;
      stats_.direction(slot.io.write).submit.add(end - slot.start_ns);
    }
    stats_.batch.add_batch(done.size());
    queued_.erase(queued_.begin(), queued_.begin() + taken);
    look();
  }
}

// Whether a refused call is worth another try, after what may help.
bool JobWorker::retry(int error) {
  const Slot& slot = slots_[queued_.front()];
  if (job_.nowait && error == EOPNOTSUPP) return false;
  if (error != EAGAIN && error != EBUSY && error != EINTR) {
    fail(fmt::format("{} for {} at {} of {}", op_kind_name(engine_->call_kind()),
                     slot.io.write ? "a write" : "a read", slot.io.offset, path(slot.io.file)),
         error);
    return false;
  }
  if (stop_.requested() || failed_) return false;
  // Out of resources: they come back with completions, ours or those of others.
  if (in_flight() > 0) {
    wait_for(1);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!engine_) return false;
  now_ns_ = monotonic_ns();
  if (queued_.size() == 1) slots_[queued_.front()].start_ns = now_ns_;
  return true;
}

void JobWorker::give_up_queued() {
  if (engine_) engine_->drop_queued();
  for (unsigned number : queued_) {
    const PlannedIo& io = slots_[number].io;
    if (job_.nowait && !failed_) {
      stats_.nowait.add_refused(
          {files_[io.file].get(), io.write, io.offset, io.bytes, -EOPNOTSUPP});
    }
    free_slots_.push_back(number);
  }
  queued_.clear();
}

void JobWorker::issue_sync(const PlannedIo& io) {
  if (io.write) buffers_.prepare(0, io.bytes);
  Slot& slot = slots_[0];
  slot = {.io = io, .action = IoAction::kTransfer, .id = next_id()};
  int fd = files_[io.file].get();
  int error = calls_.seek(fd, io.offset);
  if (error < 0) {
    fail_transfer(io, error);
    return;
  }
  if (job_.nowait) stats_.nowait.before_call();
  uint64_t start = monotonic_ns();
  ssize_t result = calls_.transfer(fd, io.write, buffers_.at(0), io.bytes, io.offset);
  uint64_t end = monotonic_ns();
  now_ns_ = end;
  record(io.write ? OpKind::kWrite : OpKind::kRead, slot.id, start, end, result);
  if (job_.nowait) stats_.nowait.after_call(end - start);
  slot.start_ns = slot.issued_ns = start;
  stats_.depth.add_depth(1);
  completed(slot, result, end);
  last_was_sync_ = false;
}

// The queue is full: waits for as many as the job wants to, and looks for more.
void JobWorker::make_room() {
  commit();
  unsigned low = job_.depth_low > 0 ? job_.depth_low : job_.iodepth;
  do {
    if (!engine_ || in_flight() == 0) return;
    wait_for(std::clamp(job_.reap_min, 1U, static_cast<unsigned>(in_flight())));
  } while (in_flight() > low);
}

void JobWorker::drain() {
  commit();
  while (engine_ && in_flight() > 0) wait_for(1);
}

void JobWorker::look() {
  if (!engine_ || in_flight() == 0 || reaps_by_count_) return;
  // Nothing was waited for: the clock as it was read before is when it looked, or earlier.
  uint64_t look_ns = now_ns_;
  int count = engine_->reap(completions_, 0);
  if (count != 0) {
    now_ns_ = monotonic_ns();
    reaped(count, now_ns_);
  }
  if (engine_ && engine_->posts_at_once()) last_look_ns_ = look_ns;
}

void JobWorker::wait_for(unsigned least) {
  std::span<Completion> room(completions_);
  if (reaps_by_count_) room = room.first(std::clamp<size_t>(job_.reap_max, least, room.size()));
  int count = engine_->reap(room, least);
  now_ns_ = monotonic_ns();
  reaped(count, now_ns_);
  if (count <= 0) return;
  // What is not there now completes after now: the wait itself says nothing about when it looked.
  if (!reaps_by_count_) {
    look();
  } else if (engine_ && engine_->posts_at_once() && !engine_->any_ready()) {
    last_look_ns_ = now_ns_;
  }
}

void JobWorker::reaped(int count, uint64_t end_ns) {
  if (count < 0) {
    fail("waiting for completions", -count);
    // Nothing can be known of what is in flight; the kernel waits for it when the engine is closed.
    engine_.reset();
    return;
  }
  if (count > 0) stats_.reaped.add_batch(static_cast<uint64_t>(count));
  bool any_sync = false;
  for (const Completion& completion : std::span(completions_).first(static_cast<size_t>(count))) {
    unsigned number = slot_of(completion.id);
    Slot& slot = slots_[number];
    bool transfer = slot.action == IoAction::kTransfer;
    any_sync = any_sync || !transfer;
    recorder_ref().add({.id = completion.id,
                        .start_ns = slot.start_ns,
                        .end_ns = end_ns,
                        .reap_from_ns = std::max(last_look_ns_, slot.start_ns),
                        .result = completion.result,
                        .kind = transfer ? engine_->request_kind() : OpKind::kUringSync});
    if (transfer) {
      completed(slot, completion.result, end_ns);
    } else {
      sync_completed(slot, completion.result, end_ns);
    }
    free_slots_.push_back(number);
  }
  // fio would issue an I/O after each: a sync among them ends what was due.
  if (count > 0) last_was_sync_ = any_sync;
  if (sync_on_demand()) hand_over_completed();
}

void JobWorker::completed(Slot& slot, int64_t result, uint64_t end_ns) {
  const PlannedIo& io = slot.io;
  if (result != static_cast<int64_t>(io.bytes)) {
    if (job_.nowait && NowaitTally::refused(result, io.bytes)) {
      stats_.nowait.add_refused({files_[io.file].get(), io.write, io.offset, io.bytes, result});
    } else {
      fail_transfer(io, result);
    }
    return;
  }
  DirectionStats& direction = stats_.direction(io.write);
  ++direction.ios;
  direction.bytes += io.bytes;
  direction.complete.add(end_ns > slot.issued_ns ? end_ns - slot.issued_ns : 0);
  direction.total.add(end_ns - slot.start_ns);
  if (io.write && (job_.syncs_itself() || sync_on_demand())) {
    unacknowledged_.push_back({.id = slot.id, .submitted_ns = slot.start_ns});
  }
}

}  // namespace stalltrace::workloads

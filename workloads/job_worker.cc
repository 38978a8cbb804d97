#include "workloads/job_worker.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"

namespace stalltrace::workloads {

JobWorker::JobWorker(std::string name, unsigned index, const OpsLogSpec& log, const JobSpec& job,
                     uint64_t seed, StopSignal& stop, Phases& phases)
    : Worker(std::move(name), index, log),
      job_(job),
      reaps_by_count_(job.reap_max > 0),
      stop_(stop),
      phases_(phases),
      seed_(seed),
      pace_(job, seed),
      stats_(job),
      calls_(job.engine, job.hipri, job.nowait),
      buffers_(job, seed),
      slots_(job.iodepth),
      completions_(job.iodepth) {
  if (job.async()) {
    engine_ = make_async_engine(
        job.engine,
        {.depth = job.iodepth, .uring = job.uring, .hipri = job.hipri, .nowait = job.nowait});
    engine_->register_buffers(buffers_.vectors());
  }
  for (unsigned slot = job.iodepth; slot-- > 0;) free_slots_.push_back(slot);
  queued_.reserve(job.iodepth);
  phases.join(job.phase);

  // What a sync covers is at most what was issued since the last one and what was in flight then.
  constexpr size_t kMaxReserve = 65536;
  size_t every = std::max(job.fsync_every, job.fdatasync_every);
  unacknowledged_.reserve(std::min(every, kMaxReserve) + 2 * size_t{job.iodepth});
}

void JobWorker::attach(std::vector<File> files, std::vector<JobFile> regions) {
  files_ = std::move(files);
  regions_ = std::move(regions);
  written_.resize(files_.size());
  plan_.emplace(job_, regions_, seed_);
  if (!job_.uring.fixed_files) return;
  std::vector<int> fds;
  for (const File& file : files_) fds.push_back(file.get());
  engine_->register_files(fds);
}

void JobWorker::attach_syncs(UnsyncedFile& unsynced, SyncQueue& queue) {
  unsynced_ = &unsynced;
  queue_ = &queue;
}

uint64_t JobWorker::ios_of(bool write) const {
  const DirectionStats* direction = stats_.direction(write);
  return direction != nullptr ? direction->ios : 0;
}

uint64_t JobWorker::bytes_of(bool write) const {
  const DirectionStats* direction = stats_.direction(write);
  return direction != nullptr ? direction->bytes : 0;
}

void JobWorker::run(uint64_t start_ns) {
  phases_.wait(job_.phase);
  if (!stop_.requested()) work(job_.phase == 0 ? start_ns : monotonic_ns());
  phases_.leave(job_.phase);
}

void JobWorker::work(uint64_t start_ns) {
  uint64_t delay_ns = job_.start_delay_ns;
  if (job_.start_delay_max_ns > 0) {
    delay_ns += Random(seed_).below(job_.start_delay_max_ns - job_.start_delay_ns + 1);
  }
  if (delay_ns > 0) {
    if (!stop_.sleep_until(start_ns + delay_ns)) return;
    start_ns = monotonic_ns();
  }
  int error = engine_ ? engine_->begin_in_this_thread() : 0;
  if (error < 0) fail("enabling the ring", -error);
  begin(start_ns);
  issue_all();
  drain();
  sync_at_end();
  stats_.end(monotonic_ns());
}

void JobWorker::begin(uint64_t now_ns) {
  now_ns_ = now_ns;
  pace_.begin(now_ns);
  ramping_ = job_.ramp_ns > 0;
  counts_from_ns_ = now_ns + job_.ramp_ns;
  if (job_.runtime_ns > 0) deadline_ns_ = counts_from_ns_ + job_.runtime_ns;
  stats_.begin(now_ns);
}

bool JobWorker::going_on() const {
  return !failed_ && !stop_.requested() && now_ns_ < deadline_ns_;
}

// The end of the ramp: what is in flight counts when it completes, as fio has it.
void JobWorker::count_from_now() {
  ramping_ = false;
  stats_.begin(now_ns_);
  recorder_ref().forget_latencies();
}

// A sync that is due, or an I/O, or what comes before it. False: everything was done.
bool JobWorker::issue_next() {
  if (plan_->done()) return false;
  if (plan_->at_pass_end()) begin_pass();
  if (!next_is_write_) {
    if (sync_if_due()) return true;
    next_is_write_ = plan_->draw_write();
  }
  if (!wait_for_its_time()) return true;
  issue(plan_->next(*std::exchange(next_is_write_, std::nullopt)));
  return true;
}

// What ends a job in fio ends each of its passes.
void JobWorker::begin_pass() {
  drain();
  sync_at_end();
  last_was_sync_ = false;
  plan_->begin_pass();
}

void JobWorker::issue_all() {
  while (going_on()) {
    if (ramping_ && now_ns_ >= counts_from_ns_) count_from_now();
    if (pause_due_) {
      pause();
    } else if (engine_ && free_slots_.empty()) {
      make_room();
    } else if (sync_on_demand() && !unsynced_->wait_for_room()) {
      break;  // told by the thread whose sync failed
    } else if (!issue_next()) {
      break;
    }
  }
  if (ramping_ && now_ns_ >= counts_from_ns_) count_from_now();
}

// The same for both options, as in fio: within the measured time, and no sync after a sync.
void JobWorker::sync_at_end() {
  if (!job_.end_fsync && !job_.fsync_on_close) return;
  if (!job_.writes() || failed_ || last_was_sync_) return;
  for (unsigned file = 0; file < files_.size() && !failed_; ++file) {
    if (files_[file].get() >= 0) sync(IoAction::kFsync, file);
  }
}

void JobWorker::fail(const std::string& what, int error) {
  add_error(what, error);
  failed_ = true;
}

void JobWorker::fail_transfer(const PlannedIo& io, int64_t result) {
  // A short transfer has no errno of its own.
  fail(fmt::format("{} at {} of {}", io.write ? "write" : "read", io.offset, path(io.file)),
       result < 0 ? static_cast<int>(-result) : EIO);
}

}  // namespace stalltrace::workloads

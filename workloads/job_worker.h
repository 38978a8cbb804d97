// One thread of a job: issues reads and writes as fio's thread of the same description does.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/async_engine.h"
#include "workloads/job_buffers.h"
#include "workloads/job_pace.h"
#include "workloads/job_plan.h"
#include "workloads/job_stats.h"
#include "workloads/layout.h"
#include "workloads/phases.h"
#include "workloads/sync_engine.h"
#include "workloads/sync_worker.h"
#include "workloads/worker.h"

namespace stalltrace::workloads {

class JobWorker : public Worker {
 public:
  // Sets up its engine and buffers. Throws a refused Error where the kernel does not allow the
  // engine, a failed one without the memory. `job`, `stop` and `phases` outlive it.
  JobWorker(std::string name, unsigned index, const OpsLogSpec& log, const JobSpec& job,
            uint64_t seed, StopSignal& stop, Phases& phases);

  // To be called before the start: the files to work on, open but for those that the job creates
  // itself, and where its writes are to be synced on demand, the first one's state and queue.
  void attach(std::vector<File> files, std::vector<JobFile> regions);
  void attach_syncs(UnsyncedFile& unsynced, SyncQueue& queue);

  [[nodiscard]] int fd(size_t file) const { return files_[file].get(); }
  [[nodiscard]] const JobSpec& job() const { return job_; }
  // For after join().
  [[nodiscard]] const JobStats& stats() const { return stats_; }
  [[nodiscard]] uint64_t bytes_read() const { return bytes_of(false); }
  [[nodiscard]] uint64_t bytes_written() const { return bytes_of(true); }
  [[nodiscard]] uint64_t reads() const { return ios_of(false); }
  [[nodiscard]] uint64_t writes() const { return ios_of(true); }

 protected:
  void run(uint64_t start_ns) override;

 private:
  struct Slot {
    PlannedIo io;
    IoAction action = IoAction::kTransfer;
    uint64_t id = 0;
    uint64_t start_ns = 0;
    uint64_t issued_ns = 0;      // its submitting call returned
    uint64_t covers_before = 0;  // a sync: the writes completed until then are on disk with it
  };
  struct WrittenRange {
    uint64_t from = UINT64_MAX;
    uint64_t to = 0;
  };

  // The whole of the job, and its loop.
  void work(uint64_t start_ns);
  void begin(uint64_t now_ns);
  void issue_all();
  [[nodiscard]] bool going_on() const;
  void count_from_now();
  void begin_pass();
  bool issue_next();
  void sync_at_end();
  [[nodiscard]] uint64_t ios_of(bool write) const;
  [[nodiscard]] uint64_t bytes_of(bool write) const;

  // job_worker_issue.cc
  bool wait_for_its_time();
  void pause();
  bool open_now(unsigned file);
  IoRequest request_of(unsigned number);
  void issue(const PlannedIo& io);
  void issue_async(const PlannedIo& io);
  void issue_sync(const PlannedIo& io);
  void commit();
  bool retry(int error);
  void give_up_queued();
  void make_room();
  void drain();
  void look();
  void wait_for(unsigned least);
  void reaped(int count, uint64_t end_ns);
  void completed(Slot& slot, int64_t result, uint64_t end_ns);
  void fail(const std::string& what, int error);
  void fail_transfer(const PlannedIo& io, int64_t result);
  [[nodiscard]] size_t in_flight() const {
    return slots_.size() - free_slots_.size() - queued_.size();
  }
  [[nodiscard]] const std::string& path(unsigned file) const { return regions_[file].path; }

  // job_worker_sync.cc
  [[nodiscard]] bool sync_on_demand() const { return unsynced_ != nullptr; }
  bool sync_if_due();
  uint64_t sync(IoAction action, unsigned file);  // how long it took
  void sync_in_ring(IoAction action);
  void sync_range();
  void sync_completed(const Slot& slot, int64_t result, uint64_t end_ns);
  void acknowledge(uint64_t before, uint64_t end_ns);
  void hand_over_completed();

  const JobSpec& job_;
  // Completions are taken as the job says, that many at once and only to make room. Otherwise all
  // that are there, at every opportunity.
  bool reaps_by_count_;
  StopSignal& stop_;
  Phases& phases_;
  uint64_t seed_;
  std::vector<File> files_;
  std::vector<JobFile> regions_;
  std::optional<JobPlan> plan_;
  JobPace pace_;
  JobStats stats_;
  UnsyncedFile* unsynced_ = nullptr;
  SyncQueue* queue_ = nullptr;

  std::unique_ptr<AsyncEngine> engine_;
  SyncEngine calls_;
  JobBuffers buffers_;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_slots_;
  std::vector<unsigned> queued_;  // slots, queued and not yet submitted
  std::vector<Completion> completions_;

  std::optional<bool> next_is_write_;  // drawn, not yet issued
  bool pause_due_ = false;
  uint64_t now_ns_ = 0;  // the last time that was read from the clock
  uint64_t counts_from_ns_ = 0;
  bool ramping_ = false;
  uint64_t deadline_ns_ = UINT64_MAX;
  uint64_t last_look_ns_ = 0;
  bool failed_ = false;

  uint64_t issued_writes_ = 0;
  bool last_was_sync_ = false;  // the last completion that was seen
  unsigned last_written_ = 0;   // file
  std::vector<WrittenRange> written_;
  std::vector<CompletedWrite> unacknowledged_;  // completed, not yet covered by a sync
  uint64_t acknowledged_ = 0;                   // how many writes have left it
};

}  // namespace stalltrace::workloads

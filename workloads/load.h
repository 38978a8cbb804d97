// A whole scenario in the present process: its files and its threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "workloads/disk_use.h"
#include "workloads/extra_load.h"
#include "workloads/fsmark.h"
#include "workloads/job_devices.h"
#include "workloads/job_worker.h"
#include "workloads/layout.h"
#include "workloads/probe_worker.h"
#include "workloads/scenario.h"
#include "workloads/sync_worker.h"

namespace stalltrace::workloads {

class Load {
 public:
  explicit Load(const Scenario& scenario);
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load();

  // Sets up engines, makes the files, parks the threads. False: cancelled by hooks.progress.
  // Throws as FileSet::create, open_for_load and JobWorker do; files made are removed then.
  bool prepare(const LayoutHooks& hooks);

  // Releases the threads; the CLOCK_MONOTONIC time that counts as the start.
  uint64_t start();
  void request_stop();

  // Readable once every job has ended (where there are none: the probe).
  [[nodiscard]] int done_fd() const { return done_.get(); }

  // Waits for all threads. Writes that completed are synced and acknowledged first.
  void join();
  // For after join(): the operations log, if one was asked for.
  void write_log() const;
  void remove_files() noexcept;

  // For after join().
  struct Results {
    const Scenario& scenario;
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;  // when the last job ended
    size_t files_created = 0;
    size_t files_reused = 0;
    bool direct = true;                  // no file goes through the page cache
    std::vector<const JobWorker*> jobs;  // section by section
    std::vector<DiskUse> disks;          // what they had to do meanwhile
    std::vector<const SyncWorker*> syncs;
    const ProbeWorker* probe = nullptr;
    const FsmarkRun* fsmark = nullptr;
    std::vector<const FsmarkWorker*> fsmark_threads;
    const ExtraLoad* extra = nullptr;
    const IntervalSync* fsmark_sync = nullptr;

    [[nodiscard]] std::vector<const Worker*> workers() const;
  };
  [[nodiscard]] Results results() const;

 private:
  struct Job {
    std::unique_ptr<SyncQueue> queue;
    std::vector<std::unique_ptr<JobWorker>> workers;
    std::vector<std::unique_ptr<SyncWorker>> syncs;
  };

  void make_workers();
  void make_fsmark(const LayoutHooks& hooks);
  void open_files();
  void launch();
  void open_files_of(JobWorker& worker, const JobSpec& spec, unsigned thread);

  const Scenario& scenario_;
  StopSignal stop_;
  Phases phases_;
  StopSignal probe_stop_;
  StopSignal sync_stop_;
  StartGate gate_;
  bool gate_open_ = false;
  File done_;
  JobDevices devices_;
  FileSet files_;
  File ops_log_;
  File probe_file_;
  std::map<std::string, std::unique_ptr<UnsyncedFile>> unsynced_;
  std::vector<Job> jobs_;
  std::unique_ptr<ProbeWorker> probe_;
  std::unique_ptr<FsmarkRun> fsmark_;
  std::vector<std::unique_ptr<FsmarkWorker>> fsmark_threads_;
  std::unique_ptr<ExtraLoad> extra_;
  std::unique_ptr<IntervalSync> fsmark_sync_;
  std::atomic<size_t> running_ = 0;
  uint64_t start_ns_ = 0;
  bool direct_ = true;
  std::vector<DiskUse> disks_;
};

}  // namespace stalltrace::workloads

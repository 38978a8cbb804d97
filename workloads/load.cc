#include "workloads/load.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "workloads/ops_log.h"

namespace stalltrace::workloads {
namespace {

// The kernel cuts thread names at 15 characters; the number must stay.
std::string thread_name(const std::string& job, unsigned thread) {
  constexpr size_t kMaxName = 15;
  std::string number = fmt::format("-{:02}", thread);
  return job.substr(0, kMaxName - number.size()) + number;
}

std::vector<FileSpec> file_specs(const Scenario& scenario) {
  std::vector<FileSpec> specs;
  for (const JobSpec& job : scenario.jobs) {
    for (unsigned thread = 0; thread < job.jobs; ++thread) {
      for (const JobFile& file : job_files(job, thread)) {
        specs.push_back({.path = file.path,
                         .bytes = file.begin + file.bytes,
                         .fill = job.fill,
                         .append = job.append,
                         .only_read = !job.writes(),
                         .made_later = job.create_on_open,
                         .may_create = job.may_create});
      }
    }
  }
  if (scenario.probe) {
    specs.push_back({.path = scenario.probe->path(),
                     .bytes = scenario.probe->size_bytes,
                     .fill = Fill::kWrite});
  }
  return specs;
}

}  // namespace

Load::Load(const Scenario& scenario)
    : scenario_(scenario), done_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Load::~Load() {
  if (!gate_open_) gate_.open(StartGate::kAbandoned);
  join();
}

bool Load::prepare(const LayoutHooks& hooks) {
  std::vector<FileSpec> specs = file_specs(scenario_);
  devices_.take_from(specs, scenario_.destroy_data);
  files_.check(specs);
  const OpsLogSpec& log = scenario_.ops_log;
  if (!log.path.empty()) {
    ops_log_ = File(open(log.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (ops_log_.get() < 0) {
      throw usage_error("cannot write the operations log {}: {}", log.path, std::strerror(errno));
    }
  }
  make_workers();
  if (scenario_.fsmark) {
    make_fsmark(hooks);
    launch();
    return true;
  }
  extra_ = make_extra_load(scenario_, stop_);
  if (extra_) {
    if (!extra_->prepare(hooks)) return false;
    try {
      launch();
    } catch (...) {
      remove_files();
      throw;
    }
    return true;
  }
  if (!files_.create(hooks)) return false;
  try {
    open_files();
    launch();
  } catch (...) {
    remove_files();
    throw;
  }
  return true;
}

void Load::make_workers() {
  unsigned index = 0;
  for (const JobSpec& spec : scenario_.jobs) {
    Job& job = jobs_.emplace_back();
    for (unsigned thread = 0; thread < spec.jobs; ++thread) {
      ++index;
      job.workers.push_back(std::make_unique<JobWorker>(thread_name(spec.name, thread), index,
                                                        scenario_.ops_log, spec, spec.seed + index,
                                                        stop_, phases_));
    }
    if (spec.sync_threads > 0) job.queue = std::make_unique<SyncQueue>(spec.jobs);
    for (unsigned thread = 0; thread < spec.sync_threads; ++thread) {
      job.syncs.push_back(std::make_unique<SyncWorker>(thread_name("sync", thread), ++index,
                                                       scenario_.ops_log, *job.queue));
    }
  }
  if (scenario_.probe) {
    probe_ =
        std::make_unique<ProbeWorker>(++index, scenario_.ops_log, *scenario_.probe, probe_stop_);
  }
}

void Load::make_fsmark(const LayoutHooks& hooks) {
  for (const std::string& directory : scenario_.fsmark->directories) check_directory(directory);
  fsmark_ = std::make_unique<FsmarkRun>(*scenario_.fsmark);
  hooks.announce(fsmark_->folders());
  try {
    fsmark_->make_folders();
  } catch (...) {
    remove_files();
    throw;
  }
  for (unsigned thread = 0; thread < scenario_.fsmark->threads; ++thread) {
    fsmark_threads_.push_back(std::make_unique<FsmarkWorker>(
        thread_name("fsmark", thread), thread + 1, scenario_.ops_log, *fsmark_, thread, stop_));
  }
  const SyncMethod& sync = scenario_.fsmark->sync;
  if (sync.call != SyncCall::kSyncfsEvery) return;
  try {
    fsmark_sync_ = std::make_unique<IntervalSync>(scenario_.fsmark->threads + 1, scenario_.ops_log,
                                                  fsmark_->folders(), sync.interval_ns,
                                                  fsmark_->shared_sync(), sync_stop_);
  } catch (...) {
    remove_files();
    throw;
  }
}

void Load::open_files_of(JobWorker& worker, const JobSpec& spec, unsigned thread) {
  std::vector<JobFile> regions = job_files(spec, thread);
  std::vector<File> files;
  for (JobFile& region : regions) {
    if (spec.append) region.begin = files_.size_before(region.path);
    if (spec.create_on_open) {
      files.emplace_back();
      continue;
    }
    files.push_back(open_for_load(region.path, spec));
    if (spec.direct && !is_direct(files.back().get())) direct_ = false;
  }
  worker.attach(std::move(files), std::move(regions));
}

void Load::open_files() {
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const JobSpec& spec = scenario_.jobs[i];
    for (unsigned thread = 0; thread < spec.jobs; ++thread) {
      JobWorker& worker = *jobs_[i].workers[thread];
      open_files_of(worker, spec, thread);
      if (!jobs_[i].queue) continue;
      std::string path = spec.path(thread);
      auto& unsynced = unsynced_[path];
      if (!unsynced) unsynced = std::make_unique<UnsyncedFile>(worker.fd(0), path);
      worker.attach_syncs(*unsynced, *jobs_[i].queue);
    }
  }
  if (probe_) {
    const ProbeSpec& spec = *scenario_.probe;
    probe_file_ = open_for_load(spec.path(), true, false, true, spec.block_bytes);
    probe_->attach(probe_file_.get());
  }
}

void Load::launch() {
  auto signal_done = [this] {
    if (running_.fetch_sub(1) == 1) eventfd_write(done_.get(), 1);
  };
  for (const Job& job : jobs_) running_ += job.workers.size();
  running_ += fsmark_threads_.size();
  for (auto& thread : fsmark_threads_) thread->launch(gate_, signal_done);
  if (extra_) {
    running_ += extra_->workers().size();
    for (const auto& worker : extra_->workers()) worker->launch(gate_, signal_done);
  }
  if (fsmark_sync_) fsmark_sync_->launch(gate_, [] {});
  bool probe_alone = running_ == 0;
  if (probe_alone) running_ = 1;
  for (Job& job : jobs_) {
    for (auto& worker : job.workers) worker->launch(gate_, signal_done);
    for (auto& sync : job.syncs) sync->launch(gate_, [] {});
  }
  if (!probe_) return;
  if (probe_alone) {
    probe_->launch(gate_, signal_done);
  } else {
    probe_->launch(gate_, [] {});
  }
}

uint64_t Load::start() {
  gate_open_ = true;
  std::vector<std::string> paths;
  for (const JobSpec& job : scenario_.jobs) {
    for (const JobFile& file : job_files(job, 0)) {
      paths.push_back(is_block_device(file.path) ? file.path : job.directory);
    }
  }
  disks_ = disks_of(paths);
  start_ns_ = monotonic_ns();
  gate_.open(start_ns_);
  return start_ns_;
}

void Load::request_stop() {
  stop_.request();
  probe_stop_.request();
}

void Load::join() {
  for (auto& thread : fsmark_threads_) thread->join();
  if (extra_) {
    for (const auto& worker : extra_->workers()) worker->join();
  }
  if (fsmark_sync_) {
    // Only now: the threads' files wait for it.
    sync_stop_.request();
    fsmark_sync_->join();
  }
  for (Job& job : jobs_) {
    for (auto& worker : job.workers) worker->join();
    if (job.queue) job.queue->close();
    for (auto& sync : job.syncs) sync->join();
  }
  for (DiskUse& disk : disks_) disk.finish();
  if (!probe_) return;
  if (!jobs_.empty()) probe_stop_.request();
  probe_->join();
}

void Load::write_log() const {
  if (ops_log_.get() < 0) return;
  std::vector<const OpRecorder*> recorders;
  for (const Worker* worker : results().workers()) recorders.push_back(&worker->recorder());
  write_ops_log(ops_log_.get(), scenario_.ops_log.path, recorders);
}

void Load::remove_files() noexcept {
  files_.remove_created();
  if (fsmark_) fsmark_->remove_folders();
  if (extra_) extra_->remove_files();
}

Load::Results Load::results() const {
  Results results{.scenario = scenario_,
                  .start_ns = start_ns_,
                  .end_ns = start_ns_,
                  .files_created = files_.created(),
                  .files_reused = files_.reused(),
                  .direct = direct_,
                  .jobs = {},
                  .disks = disks_,
                  .syncs = {},
                  .probe = probe_.get(),
                  .fsmark = fsmark_.get(),
                  .fsmark_threads = {},
                  .extra = extra_.get(),
                  .fsmark_sync = fsmark_sync_.get()};
  if (extra_) {
    for (const auto& worker : extra_->workers()) {
      results.end_ns = std::max(results.end_ns, worker->end_ns());
    }
  }
  for (const auto& thread : fsmark_threads_) {
    results.fsmark_threads.push_back(thread.get());
    results.end_ns = std::max(results.end_ns, thread->end_ns());
  }
  for (const Job& job : jobs_) {
    for (const auto& worker : job.workers) {
      results.jobs.push_back(worker.get());
      results.end_ns = std::max(results.end_ns, worker->end_ns());
    }
    for (const auto& sync : job.syncs) results.syncs.push_back(sync.get());
  }
  if (jobs_.empty() && probe_) results.end_ns = probe_->end_ns();
  return results;
}

std::vector<const Worker*> Load::Results::workers() const {
  std::vector<const Worker*> all(jobs.begin(), jobs.end());
  all.insert(all.end(), syncs.begin(), syncs.end());
  all.insert(all.end(), fsmark_threads.begin(), fsmark_threads.end());
  if (extra != nullptr) {
    for (const auto& worker : extra->workers()) all.push_back(worker.get());
  }
  if (fsmark_sync != nullptr) all.push_back(fsmark_sync);
  if (probe != nullptr) all.push_back(probe);
  return all;
}

}  // namespace stalltrace::workloads

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
      specs.push_back({.path = job.path(thread), .bytes = job.size_bytes, .fill = job.fill});
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
  files_.check(file_specs(scenario_));
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
                                                        stop_));
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

File& Load::open_once(const std::string& path, const JobSpec& job) {
  std::string key = fmt::format("{}\n{} {} {}", path, job.writes(), job.reads(), job.direct);
  // With lseek, threads that share a file need a file position each.
  if (job.engine == Engine::kSync) key += fmt::format(" {}", open_.size());
  auto found = open_.find(key);
  if (found != open_.end()) return found->second;
  File file = open_for_load(path, job.writes(), job.reads(), job.direct, job.block_bytes);
  if (job.direct && !is_direct(file.get())) direct_ = false;
  return open_.emplace(key, std::move(file)).first->second;
}

void Load::open_files() {
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const JobSpec& spec = scenario_.jobs[i];
    for (unsigned thread = 0; thread < spec.jobs; ++thread) {
      std::string path = spec.path(thread);
      // Jobs of one name may differ in how they open the file.
      File& file = open_once(path, spec);
      JobWorker& worker = *jobs_[i].workers[thread];
      worker.attach(file.get(), path);
      if (!jobs_[i].queue) continue;
      auto& unsynced = unsynced_[path];
      if (!unsynced) unsynced = std::make_unique<UnsyncedFile>(file.get(), path);
      worker.attach_syncs(*unsynced, *jobs_[i].queue);
    }
  }
  if (probe_) {
    const ProbeSpec& spec = *scenario_.probe;
    File file = open_for_load(spec.path(), true, false, true, spec.block_bytes);
    probe_->attach(file.get());
    open_.emplace("probe\n" + spec.path(), std::move(file));
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

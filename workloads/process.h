// A scenario in a process of its own, so that the load has its own pid and a tracer can leave
// itself out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/channel.h"
#include "workloads/results.h"
#include "workloads/scenario.h"

namespace stalltrace::workloads {

struct LoadThread {
  std::string name;
  pid_t tid;
};

class WorkloadProcess {
 public:
  // Bytes laid out, and to lay out (0 until that is known). Called at least every 100 ms while
  // waiting; false cancels.
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;

  // Forks: to be made before this process has a second thread (std::logic_error otherwise), and
  // best before it opens what the load must not hold open. The child closes all it inherited but
  // the standard streams. It ends by itself when the thread that made it dies.
  explicit WorkloadProcess(const Scenario& scenario);
  WorkloadProcess(const WorkloadProcess&) = delete;
  WorkloadProcess& operator=(const WorkloadProcess&) = delete;
  // As finish(), without errors.
  ~WorkloadProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Makes the files and parks the threads. False: cancelled, nothing is left. Throws the child's
  // Error: usage (directory, options), refused (engine, permission), failed (space, I/O).
  bool prepare(const Progress& progress = {});
  // After prepare().
  [[nodiscard]] const std::vector<LoadThread>& threads() const { return threads_; }

  // Begins the load; its CLOCK_MONOTONIC start in ns. Throws a failed Error if the child died.
  uint64_t start();

  // To poll for: readable when wait(0) has something to do.
  [[nodiscard]] int fd() const { return channel_->fd(); }
  // True once the load has ended and result() is there; false after `timeout_ms` (-1: none) or a
  // signal. Throws a failed Error if the child died; its files have been removed then.
  bool wait(int timeout_ms);
  // Ends the load early: its threads finish what they have in flight, the result still comes.
  void stop();
  // After wait() returned true.
  [[nodiscard]] const WorkloadResult& result() const { return *result_; }

  // Removes the load's files and waits for its end, at any time after the constructor. To be
  // called when the tracing is over: removing files is work for the journal, too.
  void finish();

 private:
  std::optional<nlohmann::json> receive(int timeout_ms);
  [[noreturn]] void child_is_gone();
  void reap() noexcept;

  pid_t pid_ = -1;
  bool keep_files_;
  bool started_ = false;
  bool reaped_ = false;
  int exit_status_ = 0;
  std::unique_ptr<Channel> channel_;
  std::vector<std::string> files_;  // that the child made
  std::vector<LoadThread> threads_;
  std::optional<WorkloadResult> result_;
};

}  // namespace stalltrace::workloads

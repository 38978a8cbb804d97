// Ctrl-C and SIGTERM end the window, not the process: the report of what was gathered follows.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>

namespace stalltrace::cli {

// Holds SIGINT, SIGTERM, SIGCHLD and (but under nohup) SIGHUP back for the whole process (threads
// made later inherit it) and takes them one by one. A child must call restore() before it executes
// a program.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Waits until `until`, or a signal. True once a stop was asked for; also at every later call.
  bool wait_until(std::chrono::steady_clock::time_point until);
  [[nodiscard]] bool stop_requested() { return wait_until(std::chrono::steady_clock::now()); }

  void restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t held_{};
  sigset_t before_{};
  bool stopped_ = false;
};

}  // namespace stalltrace::cli

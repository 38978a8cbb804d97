// The command of `trace -- CMD`: started once tracing is on, its exit status is ours.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "userspace/cli/signals.h"

namespace stalltrace::cli {

class Child {
 public:
  // Finds the program but does not start it yet. Throws a usage Error if there is no such program.
  // `leave_stdout`: our report goes there, so what the program prints goes to standard error.
  Child(std::vector<std::string> words, const StopSignals& signals, bool leave_stdout);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void start();
  // Its exit status once it has ended (128 + signal for one that was killed), without waiting.
  std::optional<int> ended();
  // Passes a stop on and waits; the status as ended().
  int stop();

 private:
  std::vector<std::string> words_;
  pid_t pid_ = -1;
  int go_fd_ = -1;
  std::optional<int> status_;
};

}  // namespace stalltrace::cli

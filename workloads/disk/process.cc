#include "workloads/disk/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace stalltrace::disk {
namespace {

struct Stat {
  char state = 0;
  uint64_t start_ticks = 0;
};

Stat read_stat(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (pid <= 0 || !std::getline(file, line)) return {};
  // The comm may hold blanks and parentheses; the fields are counted from the last one.
  const size_t comm_end = line.rfind(')');
  if (comm_end == std::string::npos) return {};
  std::istringstream fields(line.substr(comm_end + 1));
  Stat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> stat.start_ticks;
  return stat;
}

// By number: glibc 2.36 declares the wrappers without C linkage.
int open_pidfd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

class PidFd {
 public:
  // Opened first and compared after, so that the descriptor is of the process that was meant.
  explicit PidFd(const ProcessId& process) : fd_(open_pidfd(process.pid)) {
    if (fd_ >= 0 && !is_alive(process)) {
      close(fd_);
      fd_ = -1;
    }
  }
  PidFd(const PidFd&) = delete;
  PidFd& operator=(const PidFd&) = delete;
  ~PidFd() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

ProcessId identify(pid_t pid) {
  return {pid, read_stat(pid).start_ticks};
}

bool is_alive(const ProcessId& process) {
  if (process.pid <= 0) return false;
  const Stat stat = read_stat(process.pid);
  return stat.start_ticks == process.start_ticks && stat.state != 0 && stat.state != 'Z' &&
         stat.state != 'X';
}

void send_signal(const ProcessId& process, int signal) {
  const PidFd pidfd(process);
  if (pidfd.fd() >= 0) syscall(SYS_pidfd_send_signal, pidfd.fd(), signal, nullptr, 0);
}

bool wait_gone(const ProcessId& process, uint64_t timeout_ns) {
  const PidFd pidfd(process);
  if (pidfd.fd() < 0) return !is_alive(process);
  pollfd poll_entry{pidfd.fd(), POLLIN, 0};
  return poll(&poll_entry, 1, static_cast<int>(timeout_ns / 1'000'000)) > 0 || !is_alive(process);
}

void sleep_ns(uint64_t ns) {
  const timespec time{static_cast<time_t>(ns / 1'000'000'000),
                      static_cast<long>(ns % 1'000'000'000)};
  nanosleep(&time, nullptr);
}

}  // namespace stalltrace::disk

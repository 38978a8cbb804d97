#include "workloads/disk/patience.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "userspace/base/error.h"
#include "workloads/disk/process.h"

namespace stalltrace::disk {

BlockingStep::BlockingStep(const std::function<int()>& step) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw failed_error("cannot make a pipe: {}", std::strerror(errno));
  }
  child_ = fork();
  if (child_ == 0) {
    // Ctrl-C ends the command that waits; the step, once begun, is better finished.
    setpgid(0, 0);
    // Only the pipe is kept: a step that hangs must not hold the caller's descriptors.
    dup2(ends[1], 0);
    close_range(1, UINT_MAX, 0);
    const int result = step();
    const ssize_t written = write(0, &result, sizeof result);
    _exit(written == sizeof result ? 0 : 1);
  }
  const int error = errno;
  close(ends[1]);
  result_fd_ = ends[0];
  if (child_ < 0) {
    close(result_fd_);
    throw failed_error("cannot fork: {}", std::strerror(error));
  }
}

BlockingStep::~BlockingStep() {
  close(result_fd_);
  waitpid(child_, nullptr, WNOHANG);
}

std::optional<int> BlockingStep::wait(uint64_t timeout_ns) {
  const uint64_t deadline = monotonic_ns() + timeout_ns;
  while (true) {
    const uint64_t now = monotonic_ns();
    const uint64_t left_ns = now < deadline ? deadline - now : 0;
    pollfd readable{result_fd_, POLLIN, 0};
    const int ready = poll(&readable, 1, static_cast<int>((left_ns + 999'999) / 1'000'000));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    int result = 0;
    const bool told = read(result_fd_, &result, sizeof result) == sizeof result;
    waitpid(child_, nullptr, 0);
    return told ? result : EINTR;
  }
}

}  // namespace stalltrace::disk

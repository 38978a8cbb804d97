#include "workloads/disk/truth_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "workloads/disk/process.h"

namespace stalltrace::disk {
namespace {

using LineBuffer = std::array<char, 128>;

size_t format_to(LineBuffer& buffer, const TruthLine& line) {
  const auto result = fmt::format_to_n(buffer.data(), buffer.size(), "{},{},{},{},{}\n",
                                       kOpNames[static_cast<size_t>(line.op)], line.start_ns,
                                       line.end_ns, line.offset, line.bytes);
  return result.size;
}

bool write_all(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(fd, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

std::string format_truth_line(const TruthLine& line) {
  LineBuffer buffer{};
  return {buffer.data(), format_to(buffer, line)};
}

void TruthWriter::write(const TruthLine& line) const {
  LineBuffer buffer{};
  write_all(pipe_fd_, buffer.data(), format_to(buffer, line));
}

void copy_truth(int pipe_fd, int file_fd) {
  std::vector<char> buffer(64 << 10);
  bool failed = false;
  pollfd readable{pipe_fd, POLLIN, 0};
  while (poll(&readable, 1, -1) > 0 || errno == EINTR) {
    flock(file_fd, LOCK_EX);
    const ssize_t bytes = read(pipe_fd, buffer.data(), buffer.size());
    if (bytes <= 0) return;
    // The disk goes on without its log: a full pipe would stop it.
    if (!failed && !write_all(file_fd, buffer.data(), static_cast<size_t>(bytes))) {
      failed = true;
      fmt::print(stderr, "{}{}; it is incomplete from here on\n", kTruthFailure,
                 std::strerror(errno));
    }
    flock(file_fd, LOCK_UN);
  }
}

bool settle_pipe(pid_t logger, const std::string& file, uint64_t timeout_ns) {
  const int pipe_fd =
      open(fmt::format("/proc/{}/fd/0", logger).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const int file_fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const uint64_t deadline = monotonic_ns() + timeout_ns;
  bool settled = pipe_fd < 0 || file_fd < 0;
  while (!settled && monotonic_ns() < deadline) {
    if (flock(file_fd, LOCK_SH | LOCK_NB) == 0) {
      int waiting = 0;
      settled = ioctl(pipe_fd, FIONREAD, &waiting) != 0 || waiting == 0;
      flock(file_fd, LOCK_UN);
    }
    if (!settled) sleep_ns(200'000);
  }
  if (pipe_fd >= 0) close(pipe_fd);
  if (file_fd >= 0) close(file_fd);
  return settled;
}

}  // namespace stalltrace::disk

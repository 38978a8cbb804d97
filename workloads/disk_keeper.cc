#include "workloads/disk_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "userspace/base/error.h"
#include "workloads/disk/disk.h"

namespace stalltrace::workloads {
namespace {

constexpr int kFirstFd = 3;

// Nothing of the owner's may live on here: a pipe of its shell must see its end, and a file system
// that it stood in must come off.
void leave_owner(int owner_fd) {
  setsid();
  if (chdir("/") != 0) _exit(1);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(signal, SIG_IGN);
  prctl(PR_SET_NAME, "st-keeper");
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null_fd, fd);
  dup2(owner_fd, kFirstFd);
  close_range(kFirstFd + 1, UINT_MAX, 0);
}

[[noreturn]] void keep(const std::string& name, int owner_fd) {
  leave_owner(owner_fd);
  pollfd owner{kFirstFd, POLLIN, 0};
  while (poll(&owner, 1, -1) < 0 && errno == EINTR) {
  }
  try {
    disk::destroy(name);
  } catch (const Error&) {
    // There is none, or `disk list` shows what is left.
  }
  _exit(0);
}

}  // namespace

DiskKeeper::DiskKeeper(const std::string& name) {
  const auto owner_fd = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (owner_fd < 0) throw failed_error("no pidfd of this process: {}", std::strerror(errno));
  pid_ = fork();
  if (pid_ == 0) keep(name, owner_fd);
  const int error = errno;
  close(owner_fd);
  if (pid_ < 0) throw failed_error("cannot fork: {}", std::strerror(error));
}

DiskKeeper::~DiskKeeper() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace stalltrace::workloads

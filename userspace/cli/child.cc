#include "userspace/cli/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "userspace/base/error.h"

namespace stalltrace::cli {
namespace {

bool is_program(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

bool is_found(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name);
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (is_program(folder + "/" + name)) return true;
  }
  return false;
}

int exit_status_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return WEXITSTATUS(wait_status);
}

}  // namespace

Child::Child(std::vector<std::string> words, const StopSignals& signals, bool leave_stdout)
    : words_(std::move(words)) {
  if (!is_found(words_.front())) {
    throw usage_error("{}: no such program (or it cannot be executed)", words_.front());
  }
  int go[2];
  if (pipe2(go, O_CLOEXEC) != 0) throw failed_error("pipe: {}", strerror(errno));
  pid_ = fork();
  if (pid_ < 0) throw failed_error("fork: {}", strerror(errno));
  if (pid_ == 0) {
    // If the tracer is killed before it lets the command begin, nothing must begin.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(go[1]);
    char token = 0;
    if (read(go[0], &token, 1) != 1) _exit(125);
    prctl(PR_SET_PDEATHSIG, 0);
    signals.restore();
    std::signal(SIGPIPE, SIG_DFL);
    if (leave_stdout) dup2(STDERR_FILENO, STDOUT_FILENO);
    std::vector<char*> argv;
    for (std::string& word : words_) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    fprintf(stderr, "stalltrace: %s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
  }
  close(go[0]);
  go_fd_ = go[1];
}

Child::~Child() {
  if (go_fd_ >= 0) close(go_fd_);
  if (!status_ && pid_ > 0) {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
}

void Child::start() {
  char token = 1;
  if (write(go_fd_, &token, 1) != 1) throw failed_error("{} cannot be started", words_.front());
  close(go_fd_);
  go_fd_ = -1;
}

std::optional<int> Child::ended() {
  if (status_) return status_;
  int wait_status = 0;
  if (waitpid(pid_, &wait_status, WNOHANG) == pid_) status_ = exit_status_of(wait_status);
  return status_;
}

int Child::stop() {
  if (ended()) return *status_;
  kill(pid_, SIGTERM);
  int wait_status = 0;
  while (waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
  }
  status_ = exit_status_of(wait_status);
  return *status_;
}

}  // namespace stalltrace::cli

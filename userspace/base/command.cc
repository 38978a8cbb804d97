#include "userspace/base/command.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "userspace/base/error.h"
#include "userspace/base/fd.h"

namespace stalltrace {
namespace {

// Files in memory, not pipes: nobody has to read and write at the same time.
Fd memory_file(const std::string& text) {
  Fd fd(memfd_create("stalltrace-command", MFD_CLOEXEC));
  if (fd.get() < 0 ||
      pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw failed_error("no memory for a program's input: {}", std::strerror(errno));
  }
  return fd;
}

std::string contents_of(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t bytes = 0;
  while ((bytes = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0) {
    text.append(buffer.data(), static_cast<size_t>(bytes));
  }
  return text;
}

[[noreturn]] void execute(const std::vector<std::string>& words, int input, int output,
                          bool with_errors) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  if (with_errors) dup2(output, STDERR_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "%s: %s\n", arguments[0], std::strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

}  // namespace

CommandEnd run_command(const std::vector<std::string>& words, const std::string& input,
                       bool with_errors) {
  const Fd in = memory_file(input);
  const Fd out = memory_file({});
  const pid_t pid = fork();
  if (pid < 0) throw failed_error("cannot start {}: {}", words.front(), std::strerror(errno));
  if (pid == 0) execute(words, in.get(), out.get(), with_errors);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
          contents_of(out.get())};
}

void need_command(const std::vector<std::string>& words) {
  const CommandEnd end = run_command(words);
  if (end.status == 0) return;
  const std::string line = end.output.substr(0, end.output.find('\n'));
  throw failed_error("{} failed (exit {}): {}", words.front(), end.status, line);
}

}  // namespace stalltrace

#include "workloads/powercut_program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "userspace/base/command.h"
#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

constexpr std::string_view kPromise = "promised ";

}  // namespace

ProgramLoad::ProgramLoad(const ProgramLoadSpec& spec) : spec_(spec) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw failed_error("pipe: {}", std::strerror(errno));
  output_ = Fd(ends[0]);
  const Fd childs(ends[1]);
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  pid_ = fork();
  if (pid_ < 0) throw failed_error("cannot start the program: {}", std::strerror(errno));
  if (pid_ > 0) {
    setpgid(pid_, pid_);
    return;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(childs.get(), STDOUT_FILENO);
  setenv("STALLTRACE_DIR", spec_.folder.c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& word : spec_.command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "stalltrace: %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

ProgramLoad::~ProgramLoad() {
  ProgramLoad::end();
}

void ProgramLoad::read_lines() {
  std::array<char, 4096> buffer{};
  ssize_t bytes = 0;
  while ((bytes = read(output_.get(), buffer.data(), buffer.size())) > 0) {
    begun_line_.append(buffer.data(), static_cast<size_t>(bytes));
  }
  size_t begin = 0;
  for (size_t end = 0; (end = begun_line_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = begun_line_.substr(begin, end - begin);
    if (line.compare(0, kPromise.size(), kPromise) == 0) {
      tokens_.push_back(line.substr(kPromise.size()));
    }
  }
  begun_line_.erase(0, begin);
}

uint64_t ProgramLoad::promised() {
  int status = 0;
  const bool ended = pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_;
  read_lines();
  if (ended) {
    pid_ = -1;
    throw failed_error("{} ended before the power was cut ({} {}); it must go on until then",
                       spec_.command.front(), WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  return tokens_.size();
}

// As with the power of the machine itself, all of it dies at once.
void ProgramLoad::end() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  read_lines();
}

PowercutFindings ProgramLoad::check(bool mounted) {
  PowercutFindings findings;
  findings.promised = tokens_.size();
  if (!mounted) {
    findings.lost = tokens_.size();
    return findings;
  }
  std::string input;
  for (const std::string& token : tokens_) input += token + "\n";
  const CommandEnd end = run_command({spec_.checker, spec_.folder}, input, false);
  if (end.status == 0) return findings;
  if (end.status == 126 || end.status == 127) {
    throw usage_error("--check: {} cannot be run (exit {})", spec_.checker, end.status);
  }
  std::istringstream lines(end.output);
  for (std::string line; std::getline(lines, line);) {
    ++findings.lost;
    if (findings.faults.size() < PowercutFindings::kMaxFaults) {
      findings.faults.push_back("lost " + line);
    }
  }
  if (findings.lost == 0) {
    findings.lost = 1;
    findings.faults.push_back(fmt::format("{} ended with {}", spec_.checker, end.status));
  }
  return findings;
}

}  // namespace stalltrace::workloads

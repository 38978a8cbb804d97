#include "workloads/disk/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "userspace/base/error.h"
#include "workloads/disk/control.h"
#include "workloads/disk/profile.h"
#include "workloads/disk/server.h"
#include "workloads/disk/truth_log.h"

namespace stalltrace::disk {
namespace {

constexpr uint64_t kStartTimeoutNs = 30'000'000'000;
constexpr int kPipeBytes = 1 << 20;

// The descriptors a daemon keeps, in these places; all others are the creator's and are closed.
constexpr int kReadyFd = 3;
constexpr int kLockFd = 4;
constexpr int kTruthFd = 5;
constexpr int kFirstOtherFd = 6;

void log_line(const std::string& text) {
  std::array<char, 32> time{};
  const time_t now = std::time(nullptr);
  tm local{};
  localtime_r(&now, &local);
  std::strftime(time.data(), time.size(), "%F %T", &local);
  fmt::print(stderr, "{} {}\n", time.data(), text);
}

void set_process_name(const char* kind, const std::string& name) {
  prctl(PR_SET_NAME, fmt::format("{}-{}", kind, name).substr(0, 15).c_str());
}

void take_standard_fds(const std::string& log_file) {
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int log_fd = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(null_fd, STDIN_FILENO);
  dup2(null_fd, STDOUT_FILENO);
  dup2(log_fd >= 0 ? log_fd : null_fd, STDERR_FILENO);
}

// Afterwards no descriptor of the creator is left: a pipe of its shell must see its end, and
// whatever else it had open must not live as long as the disk.
void take_descriptors(const DaemonConfig& config, int ready_fd) {
  std::array<std::pair<int, int>, 3> kept{
      {{ready_fd, kReadyFd}, {config.lock_fd, kLockFd}, {config.truth_fd, kTruthFd}}};
  // Out of the way first: a source may lie where another one goes.
  for (auto& [from, to] : kept) {
    if (from >= 0) from = fcntl(from, F_DUPFD_CLOEXEC, kFirstOtherFd);
  }
  take_standard_fds(config.folder.log_file());
  for (const auto& [from, to] : kept) {
    if (from >= 0) {
      dup2(from, to);
    } else {
      close(to);
    }
  }
  close_range(kFirstOtherFd, UINT_MAX, 0);
}

void take_signals() {
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  // The logger, our only child, needs nobody to wait for it.
  std::signal(SIGCHLD, SIG_IGN);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
}

// Returns the logger and the pipe's writing end.
std::pair<ProcessId, int> start_logger(const std::string& name) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw failed_error("no pipe for the truth log: {}", std::strerror(errno));
  }
  fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
  const pid_t pid = fork();
  if (pid < 0) throw failed_error("cannot fork: {}", std::strerror(errno));
  if (pid == 0) {
    set_process_name("st-log", name);
    dup2(ends[0], STDIN_FILENO);
    close(kReadyFd);
    close(kLockFd);
    close_range(kFirstOtherFd, UINT_MAX, 0);
    copy_truth(STDIN_FILENO, kTruthFd);
    _exit(0);
  }
  close(ends[0]);
  close(kTruthFd);
  return {identify(pid), ends[1]};
}

// A disk does not wait for a CPU behind the load that it serves. Nice alone does not do: on 6.18
// with four CPU hogs one request in ten reached a server of nice -20 after more than 3.4 ms, a
// real-time one after 0.14 ms.
void take_priority() {
  setpriority(PRIO_PROCESS, 0, -20);
  const sched_param priority{1};
  sched_setscheduler(0, SCHED_FIFO, &priority);
}

// Where memory runs out, the disk's contents are what took it, and its requests fail cleanly.
void take_blame_for_memory() {
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

void reload(Server& server, const DaemonConfig& config) {
  nlohmann::json outcome = {{"windows", 0}, {"error", ""}};
  try {
    Schedule schedule = Schedule::load(config.options.schedule_path);
    outcome["windows"] = schedule.windows().size();
    log_line(fmt::format("schedule read again: {} lines", schedule.windows().size()));
    server.set_schedule(std::move(schedule));
  } catch (const Error& error) {
    outcome["error"] = error.what();
    log_line(fmt::format("{}; the old schedule stays", error.what()));
  }
  outcome["read_monotonic_ns"] = monotonic_ns();
  try {
    write_atomically(config.folder.schedule_file(), outcome.dump() + "\n");
  } catch (const Error& error) {
    log_line(error.what());
  }
}

void handle_signals(Server& server, const DaemonConfig& config, DaemonRecord record) {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (int signal : {SIGHUP, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&wanted, signal);
  while (true) {
    int signal = 0;
    if (sigwait(&wanted, &signal) != 0) continue;
    if (signal == SIGHUP && !config.options.schedule_path.empty()) {
      reload(server, config);
    } else if (signal == SIGUSR1) {
      log_line("asked to hurry: no delays any more");
      server.hurry();
    } else if (signal == SIGUSR2) {
      obey_order(server, config.folder, record, log_line);
    } else if (signal == SIGTERM) {
      log_line("asked to end");
      // The kernel aborts the connection, and with it whatever is still under way.
      _exit(0);
    }
  }
}

void serve(const DaemonConfig& config) {
  DaemonRecord record;
  record.daemon = identify(getpid());
  config.folder.write(record);
  std::unique_ptr<TruthWriter> truth;
  if (config.truth_fd >= 0) {
    const auto [logger, pipe_fd] = start_logger(config.options.name);
    truth = std::make_unique<TruthWriter>(pipe_fd);
    record.logger = logger;
    config.folder.write(record);
  }
  take_priority();
  take_blame_for_memory();
  // Memory for the disk must not be won by writing to the disk. Needs CAP_SYS_RESOURCE.
  prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
  Server server(config.options, resolve(config.options), config.schedule, truth.get());
  server.mount(config.folder.mount_folder(), "stalltrace:" + config.options.name);
  record.created_monotonic_ns = server.created_monotonic_ns();
  config.folder.write(record);
  std::thread([&] { handle_signals(server, config, record); }).detach();
  const char ready = '\0';
  if (write(kReadyFd, &ready, 1) != 1) log_line("the creator is gone; serving all the same");
  close(kReadyFd);
  close(kLockFd);
  server.run();
  log_line("unmounted");
  _exit(0);
}

// The first byte tells the outcome: 0 ready, else the exit status of the Error that follows.
[[noreturn]] void daemon_main(const DaemonConfig& config, int ready_fd) {
  take_signals();
  take_descriptors(config, ready_fd);
  set_process_name("st-disk", config.options.name);
  umask(077);
  std::string message;
  auto code = static_cast<char>(ExitCode::kFailed);
  try {
    if (chdir("/") != 0) throw failed_error("cannot go to /: {}", std::strerror(errno));
    serve(config);
  } catch (const Error& error) {
    message = error.what();
    code = static_cast<char>(error.code());
  } catch (const std::exception& error) {
    message = error.what();
  }
  log_line(message);
  message.insert(message.begin(), code);
  if (write(kReadyFd, message.data(), message.size()) < 0) log_line("the creator is gone");
  _exit(1);
}

// Everything the daemon says until it closes its end.
std::string read_outcome(int fd) {
  std::string outcome;
  std::array<char, 512> buffer{};
  const uint64_t deadline = monotonic_ns() + kStartTimeoutNs;
  while (true) {
    const uint64_t now = monotonic_ns();
    pollfd readable{fd, POLLIN, 0};
    const int left_ms = now < deadline ? static_cast<int>((deadline - now) / 1'000'000) : 0;
    const int ready = poll(&readable, 1, left_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::string(1, '\1') + "it did not get ready in 30 s";
    const ssize_t bytes = read(fd, buffer.data(), buffer.size());
    if (bytes <= 0) return outcome;
    outcome.append(buffer.data(), static_cast<size_t>(bytes));
  }
}

}  // namespace

void start_daemon(const DaemonConfig& config) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw failed_error("cannot make a pipe: {}", std::strerror(errno));
  }
  // What is buffered here must not be written a second time there.
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    // Forked once more, it is no session leader and can never get a terminal.
    const pid_t grandchild = fork();
    if (grandchild == 0) daemon_main(config, ends[1]);
    _exit(grandchild < 0 ? 1 : 0);
  }
  const int error = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    throw failed_error("cannot fork: {}", std::strerror(error));
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  const std::string outcome = read_outcome(ends[0]);
  close(ends[0]);
  if (outcome.empty()) throw failed_error("the disk's server died while it started");
  if (outcome.front() != '\0') {
    throw Error(static_cast<ExitCode>(outcome.front()),
                fmt::format("disk '{}': {}", config.options.name, outcome.substr(1)));
  }
}

}  // namespace stalltrace::disk

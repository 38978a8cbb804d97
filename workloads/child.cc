// Messages to the parent, by "type":
//   files {paths}                     will be made now; the parent removes them if we are killed
//   progress {done, total}            bytes of the layout
//   ready {threads:[{name, tid}]}     everything is made, the threads are parked
//   started {ns}
//   result {...}                      see results.h; the files are still there
//   cancelled                         stopped before the start, the files are gone
//   error {code, message}             likewise
// From the parent: start, stop (finish what is in flight and report), end (clean up and exit). A
// parent that is gone means end.
#include "workloads/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "workloads/load.h"
#include "workloads/results.h"

namespace stalltrace::workloads {
namespace {

using nlohmann::json;

enum class Order { kNone, kStart, kStop, kEnd, kDone };

class Child {
 public:
  Child(const Scenario& scenario, Channel& channel)
      : scenario_(scenario), channel_(channel), load_(scenario) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    terminate_ = File(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void run() {
    if (!load_.prepare(
            {.announce = [this](const auto& paths) { announce(paths); },
             .progress = [this](uint64_t done,
                                uint64_t total) { return report_progress(done, total); }})) {
      channel_.send({{"type", "cancelled"}});
      return;
    }
    send_ready();
    Order order = Order::kNone;
    while (order == Order::kNone) order = wait_for_order(-1, -1);
    if (order == Order::kStart) {
      run_load();
    } else {
      channel_.send({{"type", "cancelled"}});
    }
    // What was made for a run that did not begin is of no use to anybody.
    if (!scenario_.keep_files || order != Order::kStart) load_.remove_files();
  }

 private:
  void announce(const std::vector<std::string>& paths) {
    channel_.send({{"type", "files"}, {"paths", paths}});
  }

  bool report_progress(uint64_t done, uint64_t total) {
    constexpr uint64_t kEvery_ns = 100'000'000;
    uint64_t now = monotonic_ns();
    if (now >= next_progress_ns_) {
      next_progress_ns_ = now + kEvery_ns;
      channel_.send({{"type", "progress"}, {"done", done}, {"total", total}});
    }
    return wait_for_order(0, -1) == Order::kNone;
  }

  void send_ready() {
    json threads = json::array();
    for (const Worker* worker : load_.results().workers()) {
      threads.push_back({{"name", worker->name()}, {"tid", worker->tid()}});
    }
    channel_.send({{"type", "ready"}, {"threads", threads}});
  }

  void run_load() {
    channel_.send({{"type", "started"}, {"ns", load_.start()}});
    Order order = Order::kNone;
    while (order != Order::kDone && order != Order::kEnd) {
      order = wait_for_order(-1, load_.done_fd());
      if (order != Order::kNone) load_.request_stop();
    }
    load_.join();
    if (order == Order::kEnd) return;
    send_result();
    // Stopping is over; a SIGTERM now may be the parent's death, which the channel tells.
    while (wait_for_order(-1, -1) != Order::kEnd) {
    }
  }

  void send_result() {
    json message = to_message(load_.results());
    try {
      load_.write_log();
    } catch (const Error& error) {
      json& errors = message["workload"]["errors"];
      errors["count"] = errors["count"].get<uint64_t>() + 1;
      if (!errors.contains("first")) errors["first"] = error.what();
    }
    message["type"] = "result";
    channel_.send(message);
  }

  // `done_fd` -1: not waited for.
  Order wait_for_order(int timeout_ms, int done_fd) {
    if (auto message = channel_.receive(0)) return order_of(*message);
    if (!channel_.open()) return Order::kEnd;
    std::array<pollfd, 3> wait{{{.fd = channel_.fd(), .events = POLLIN, .revents = 0},
                                {.fd = terminate_.get(), .events = POLLIN, .revents = 0},
                                {.fd = done_fd, .events = POLLIN, .revents = 0}}};
    if (poll(wait.data(), wait.size(), timeout_ms) <= 0) return Order::kNone;
    if (wait[1].revents != 0) {
      signalfd_siginfo info{};
      (void)!read(terminate_.get(), &info, sizeof(info));
      // Either somebody wants us to stop, or the kernel tells us that the parent died; then the
      // channel says so as well.
      return Order::kStop;
    }
    if (wait[0].revents != 0) {
      auto message = channel_.receive(0);
      if (message) return order_of(*message);
      return channel_.open() ? Order::kNone : Order::kEnd;
    }
    return Order::kDone;
  }

  static Order order_of(const json& message) {
    const std::string type = message.at("type");
    if (type == "start") return Order::kStart;
    if (type == "stop") return Order::kStop;
    return Order::kEnd;
  }

  const Scenario& scenario_;
  Channel& channel_;
  File terminate_;
  Load load_;
  uint64_t next_progress_ns_ = 0;
};

void set_up_process(pid_t parent) {
  prctl(PR_SET_NAME, "stalltrace-load");
  // Ctrl-C reaches the whole foreground group; the parent decides what it means for us.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);  // it died before the line above
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

}  // namespace

void run_child(const Scenario& scenario, Channel& channel, pid_t parent) {
  set_up_process(parent);
  auto fail = [&channel](ExitCode code, const char* message) {
    channel.send({{"type", "error"}, {"code", static_cast<int>(code)}, {"message", message}});
  };
  // Not destroyed: io_destroy waits for an RCU grace period each (31 ms on Linux 6.18, a second
  // for 32 threads), while the kernel ends all contexts of a process at once.
  try {
    (new Child(scenario, channel))->run();
  } catch (const Error& error) {
    fail(error.code(), error.what());
  } catch (const std::exception& error) {
    fail(ExitCode::kFailed, error.what());
  }
  // Nothing of the parent's (buffered output, files, destructors) is this process's to end.
  _exit(0);
}

}  // namespace stalltrace::workloads

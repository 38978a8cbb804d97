#include "workloads/process.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "userspace/base/error.h"
#include "workloads/child.h"

namespace stalltrace::workloads {
namespace {

using nlohmann::json;

void require_single_thread() {
  std::filesystem::directory_iterator tasks("/proc/self/task");
  if (std::distance(begin(tasks), end(tasks)) != 1) {
    throw std::logic_error("a WorkloadProcess must be made before any thread");
  }
}

void close_all_but(int fd) {
  constexpr unsigned kFirst = 3;
  auto keep = static_cast<unsigned>(fd);
  if (keep > kFirst) close_range(kFirst, keep - 1, 0);
  close_range(keep + 1, ~0U, 0);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

WorkloadProcess::WorkloadProcess(const Scenario& scenario) : keep_files_(scenario.keep_files) {
  require_single_thread();
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw failed_error("cannot make a socket pair: {}", std::strerror(errno));
  }
  channel_ = std::make_unique<Channel>(File(ends[0]));
  File childs(ends[1]);
  pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw failed_error("cannot start the workload's process: {}", std::strerror(errno));
  if (pid_ > 0) return;
  close_all_but(childs.get());
  Channel channel(std::move(childs));
  run_child(scenario, channel, parent);
}

WorkloadProcess::~WorkloadProcess() {
  try {
    finish();
  } catch (const std::exception&) {
    // finish() reports what went wrong to those who ask for it.
  }
}

bool WorkloadProcess::prepare(const Progress& progress) {
  constexpr int kProgressEvery_ms = 100;
  uint64_t done = 0;
  uint64_t total = 0;
  while (true) {
    std::optional<json> message = receive(kProgressEvery_ms);
    if (message) {
      const std::string type = message->at("type");
      if (type == "ready") break;
      if (type == "cancelled") {
        finish();
        return false;
      }
      if (type == "progress") {
        done = message->at("done");
        total = message->at("total");
      }
    }
    if (progress && !progress(done, total)) stop();
  }
  return true;
}

uint64_t WorkloadProcess::start() {
  channel_->send({{"type", "start"}});
  while (true) {
    std::optional<json> message = receive(-1);
    if (!message) continue;
    const std::string type = message->at("type");
    if (type == "cancelled") throw failed_error("the load was stopped before it began");
    if (type != "started") continue;
    started_ = true;
    return message->at("ns");
  }
}

bool WorkloadProcess::wait(int timeout_ms) {
  if (result_) return true;
  std::optional<json> message = receive(timeout_ms);
  if (!message || message->at("type") != "result") return false;
  result_ = from_message(*message);
  return true;
}

void WorkloadProcess::stop() {
  channel_->send({{"type", "stop"}});
}

std::optional<json> WorkloadProcess::receive(int timeout_ms) {
  std::optional<json> message = channel_->receive(timeout_ms);
  if (!message) {
    if (!channel_->open()) child_is_gone();
    return std::nullopt;
  }
  const std::string type = message->at("type");
  if (type == "files") files_ = message->at("paths").get<std::vector<std::string>>();
  if (type == "ready") {
    for (const json& thread : message->at("threads")) {
      threads_.push_back({.name = thread.at("name"), .tid = thread.at("tid")});
    }
  }
  if (type == "error") {
    files_.clear();
    reap();
    throw Error(static_cast<ExitCode>(message->at("code").get<int>()), message->at("message"));
  }
  return message;
}

void WorkloadProcess::finish() {
  if (reaped_) return;
  channel_->send({{"type", "end"}});
  reap();
}

void WorkloadProcess::reap() noexcept {
  if (reaped_) return;
  while (waitpid(pid_, &exit_status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  if (WIFEXITED(exit_status_)) return;
  // It could not clean up by itself. Files of a run that never began are of no use.
  if (keep_files_ && started_) return;
  for (const std::string& path : files_) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
}

void WorkloadProcess::child_is_gone() {
  reap();
  throw failed_error("the workload's process ({}) {}; its files were removed", pid_,
                     describe_end(exit_status_));
}

}  // namespace stalltrace::workloads

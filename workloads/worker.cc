#include "workloads/worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <latch>
#include <system_error>
#include <utility>

#include "userspace/base/clock.h"

namespace stalltrace::workloads {

void StopSignal::request() {
  {
    std::scoped_lock lock(mutex_);
    requested_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

bool StopSignal::sleep_until(uint64_t time_ns) {
  // libstdc++'s steady_clock is CLOCK_MONOTONIC.
  std::chrono::steady_clock::time_point time{std::chrono::nanoseconds(time_ns)};
  std::unique_lock lock(mutex_);
  return !changed_.wait_until(lock, time, [this] { return requested(); });
}

void StartGate::open(uint64_t start_ns) {
  start_ns_.store(start_ns, std::memory_order_release);
  start_ns_.notify_all();
}

uint64_t StartGate::wait() {
  start_ns_.wait(0, std::memory_order_acquire);
  return start_ns_.load(std::memory_order_acquire);
}

Worker::Worker(std::string name, unsigned index, const OpsLogSpec& log)
    : name_(std::move(name)), index_(index), recorder_(!log.path.empty(), log.floor_ns, log.room) {}

Worker::~Worker() {
  join();
}

void Worker::launch(StartGate& gate, std::function<void()> ended) {
  std::latch parked(1);
  thread_ = std::thread([this, &gate, &parked, ended = std::move(ended)] {
    prctl(PR_SET_NAME, name_.c_str());
    recorder_.set_tid(gettid());
    parked.count_down();
    uint64_t start_ns = gate.wait();
    if (start_ns != StartGate::kAbandoned) run(start_ns);
    end_ns_ = monotonic_ns();
    ended();
  });
  parked.wait();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::add_error(const std::string& what, int error) {
  if (errors_++ > 0) return;
  first_errno_ = error;
  first_error_ = name_ + ": " + what + ": " + std::generic_category().message(error);
}

}  // namespace stalltrace::workloads

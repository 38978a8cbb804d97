#include "workloads/disk/timer_queue.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <chrono>
#include <utility>

#include "workloads/disk/process.h"

namespace stalltrace::disk {

TimerQueue::TimerQueue() : thread_([this] { run(); }) {}

TimerQueue::~TimerQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void TimerQueue::add(uint64_t due_ns, Task task) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = waiting_.empty() || due_ns < waiting_.top().due_ns;
    waiting_.push({due_ns, next_number_++, std::move(task)});
  }
  if (is_first) changed_.notify_one();
}

void TimerQueue::hurry() {
  {
    const std::lock_guard lock(mutex_);
    hurried_ = true;
  }
  changed_.notify_one();
}

void TimerQueue::run_all_now() {
  {
    const std::lock_guard lock(mutex_);
    std::priority_queue<Entry, std::vector<Entry>, Later> due;
    for (; !waiting_.empty(); waiting_.pop()) {
      due.push({0, waiting_.top().number, waiting_.top().task});
    }
    waiting_.swap(due);
  }
  changed_.notify_one();
}

void TimerQueue::run() {
  pthread_setname_np(pthread_self(), "st-disk-timer");
  // The default slack of 50 us would be added to every service time.
  prctl(PR_SET_TIMERSLACK, 1);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const uint64_t due_ns = waiting_.top().due_ns;
    if (!hurried_ && due_ns > monotonic_ns()) {
      // steady_clock is CLOCK_MONOTONIC on Linux.
      changed_.wait_until(lock, std::chrono::steady_clock::time_point(
                                    std::chrono::nanoseconds(static_cast<int64_t>(due_ns))));
      continue;
    }
    Task task = waiting_.top().task;
    waiting_.pop();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace stalltrace::disk

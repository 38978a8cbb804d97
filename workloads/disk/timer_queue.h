// One thread that runs tasks at their time. A thread per delayed request would cap a slow disk at
// the thread count divided by the delay.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace stalltrace::disk {

class TimerQueue {
 public:
  using Task = std::function<void()>;

  TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;
  // Tasks still waiting are dropped.
  ~TimerQueue();

  // Runs `task` on the queue's thread at `due_ns` (CLOCK_MONOTONIC) or as soon after as it can.
  // Tasks due at the same time run in the order they were added. Tasks must not block.
  void add(uint64_t due_ns, Task task);

  // Everything waiting, and everything added from now on, is due at once.
  void hurry();

  // Everything waiting is due at once, what is added later is not.
  void run_all_now();

 private:
  struct Entry {
    uint64_t due_ns;
    uint64_t number;
    Task task;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.due_ns != b.due_ns ? a.due_ns > b.due_ns : a.number > b.number;
    }
  };

  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Entry, std::vector<Entry>, Later> waiting_;
  uint64_t next_number_ = 0;
  bool hurried_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace stalltrace::disk

#include "workloads/disk/timer_queue.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "tests/unit/disk/disk_fixture.h"
#include "workloads/disk/process.h"

namespace stalltrace::disk {
namespace {

// What ran, in order, with the time it ran at.
class Record {
 public:
  void add(int what) {
    const std::lock_guard lock(mutex_);
    order_.push_back(what);
    times_ns_.push_back(monotonic_ns());
    changed_.notify_all();
  }
  bool wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return order_.size() >= count; });
  }
  std::vector<int> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  std::vector<uint64_t> times_ns() {
    const std::lock_guard lock(mutex_);
    return times_ns_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> order_;
  std::vector<uint64_t> times_ns_;
};

TEST(TimerQueue, RunsByTimeNotByOrderOfAdding) {
  Record record;
  TimerQueue queue;
  const uint64_t now = monotonic_ns();
  const std::vector<std::pair<int, uint64_t>> tasks{{30, 90}, {10, 30}, {20, 60}};
  for (const auto& [what, due_ms] : tasks) {
    queue.add(now + due_ms * kMs, [&record, what = what] { record.add(what); });
  }
  ASSERT_TRUE(record.wait_for(3));
  EXPECT_EQ(record.order(), (std::vector<int>{10, 20, 30}));
  const auto times = record.times_ns();
  EXPECT_GE(times[0], now + 30 * kMs);
  EXPECT_GE(times[1], now + 60 * kMs);
  EXPECT_GE(times[2], now + 90 * kMs);
}

TEST(TimerQueue, EqualTimesRunInOrderOfAdding) {
  Record record;
  TimerQueue queue;
  const uint64_t due = monotonic_ns() + 30 * kMs;
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    queue.add(due, [&record, i] { record.add(i); });
    expected.push_back(i);
  }
  ASSERT_TRUE(record.wait_for(100));
  EXPECT_EQ(record.order(), expected);
}

TEST(TimerQueue, AnEarlierTaskDoesNotWaitForALaterOne) {
  Record record;
  TimerQueue queue;
  const uint64_t now = monotonic_ns();
  queue.add(now + 60'000 * kMs, [&record] { record.add(2); });
  queue.add(now + 5 * kMs, [&record] { record.add(1); });
  ASSERT_TRUE(record.wait_for(1));
  EXPECT_EQ(record.order(), std::vector<int>{1});
}

TEST(TimerQueue, HurryRunsWhatWaitsAndWhatComesInOrder) {
  Record record;
  TimerQueue queue;
  const uint64_t far = monotonic_ns() + 60'000 * kMs;
  queue.add(far + 1, [&record] { record.add(2); });
  queue.add(far, [&record] { record.add(1); });
  queue.hurry();
  ASSERT_TRUE(record.wait_for(2));
  queue.add(far, [&record] { record.add(3); });
  ASSERT_TRUE(record.wait_for(3));
  EXPECT_EQ(record.order(), (std::vector<int>{1, 2, 3}));
}

TEST(TimerQueue, TasksStillWaitingAreDroppedAtTheEnd) {
  bool ran = false;
  {
    TimerQueue queue;
    queue.add(monotonic_ns() + 60'000 * kMs, [&ran] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace stalltrace::disk

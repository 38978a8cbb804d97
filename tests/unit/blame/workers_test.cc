#include "tests/unit/blame/checks.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)
using kernel::WaitClass;
using Lines = std::vector<std::string>;

constexpr TaskId kWorker{40, "kworker/0:1"};
constexpr TaskId kPusher{50, "xfsaild/loop0"};
constexpr uint64_t kBufferLock = 0xffff888000002000;

#define SPACE_STACK \
  { "schedule", "xlog_grant_head_wait", "xlog_grant_head_check", "xfs_create", "do_sys_openat2" }
#define INACTIVE_STACK \
  { "schedule", "schedule_timeout", "__flush_work", "destroy_inode", "do_unlinkat" }
#define BUFFER_STACK                                                                   \
  {                                                                                    \
    "schedule", "schedule_timeout", "__down_common", "__down", "down", "xfs_buf_lock", \
        "xfs_buf_find_lock", "xfs_buf_get_map", "do_unlinkat"                          \
  }
#define PAUSE_STACK \
  { "schedule", "schedule_timeout", "xfsaild", "kthread" }

// The worker had nothing to do until a write completed, which its submitter had sent late because
// it paused.
TEST(Worker, WaitsForTheRequestThatGaveItWork) {
  Events events;
  events.call(kFio, wire::CALL_OPEN, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(SPACE_STACK).woken_by(kWorker);
  events.wait(kWorker, ms(2), ms(58), ms(58))
      .flags(wire::WAIT_IDLE)
      .dev(0)
      .request(1, 800, ms(30), ms(30), ms(58));
  events.waits.back().waker_request.submitter = kPusher.tid;
  events.wait(kPusher, ms(5), ms(30), ms(30))
      .stack(PAUSE_STACK)
      .dev(0)
      .woken_by(kHog, wire::WAKER_SOFTIRQ);
  events.request(1, 800, ms(30), ms(30), ms(58)).times.submitter = kPusher.tid;
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kLogSpace);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.write loop0 28000000 inferred", "knob 50 20000000 inferred",
                   "task.cpu 40 2000000 inferred"}));
}

// What it did for others before it was given this work does not matter, and is no cycle.
TEST(Worker, MayHaveBeenWaitedForByWhoGaveItWork) {
  Events events;
  events.call(kFio, wire::CALL_UNLINK, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(INACTIVE_STACK).woken_by(kWorker);
  events.wait(kWorker, ms(2), ms(20), ms(20)).flags(wire::WAIT_IDLE).dev(0).woken_by(kThird);
  events.wait(kWorker, ms(20), ms(39), ms(39)).stack(SPACE_STACK).dev(0).woken_by(kHog);
  events.wait(kWorker, ms(40), ms(50), ms(50)).flags(wire::WAIT_IDLE).dev(0).woken_by(kOther);
  events.wait(kOther, ms(5), ms(40), ms(50)).stack(INACTIVE_STACK).dev(0).woken_by(kWorker);
  events.request(1, 800, ms(20), ms(20), ms(39));
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].causes.at(0).task.tid, kWorker.tid);
  EXPECT_EQ(roots_of(stall.roots).at(0), "device.write loop0 19000000 inferred");
  for (const Root& root : stall.roots) {
    EXPECT_TRUE(root.kind != RootKind::kUnexplained || root.ns <= 10 * kMs);
  }
}

// A softirq ends what a large request had written page by page, for longer than a wake-up takes:
// the device is done by then.
TEST(Worker, EndsWhatTheDeviceHasCompleted) {
  Events events;
  events.call(kFio, wire::CALL_FSYNC, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(WRITEBACK_STACK)
      .request(1, 800, ms(10), ms(10), ms(55))
      .woken_by(kWorker, wire::WAKER_SOFTIRQ);
  events.request(1, 800, ms(10), ms(10), ms(55));
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.write loop0 45000000 measured", "task.cpu 40 5000000 measured"}));
}

// A kernel thread's buffer under write is nobody's: its place on the disk tells which write it is.
TEST(Buffer, IsLockedWhileItIsWritten) {
  Events events;
  events.call(kFio, wire::CALL_UNLINK, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(BUFFER_STACK)
      .lock(kBufferLock, wire::LCB_BUFFER, 805)
      .owner(kPusher)
      .woken_by(kWorker);
  events.request(1, 100, ms(9), ms(9), ms(70));    // another place
  events.request(1, 800, ms(12), ms(12), ms(58));  // sectors 800 to 807
  events.wait(kWorker, ms(2), ms(58), ms(58))
      .flags(wire::WAIT_IDLE)
      .dev(0)
      .request(1, 800, ms(12), ms(12), ms(58));
  events.wait(kPusher, ms(5), ms(11), ms(11)).stack(TAG_STACK).dev(kPart).woken_by(kHog);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kLockOther);
  ASSERT_EQ(stall.parts[0].causes.size(), 3U);
  EXPECT_EQ(stall.parts[0].causes[1].kind, CauseKind::kRequest);
  EXPECT_EQ(stall.parts[0].causes[1].id, "800");
  EXPECT_EQ(stall.parts[0].causes[1].ns, 46 * kMs);
  EXPECT_EQ(stall.parts[0].causes[2].task.tid, kWorker.tid);
}

}  // namespace
}  // namespace stalltrace::blame

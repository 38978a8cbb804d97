#include "tests/unit/blame/checks.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)
using kernel::WaitClass;
using Lines = std::vector<std::string>;

TEST(Parts, ACallThatSleptNowhereRan) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts.size(), 1U);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kCpuRun);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"self 4242 50000000 measured"}));
}

TEST(Parts, PreemptedIsNotBlocked) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(20), 0, ms(50)).flags(wire::WAIT_PREEMPTED).ran_before(kThird);
  events.slice(0, kHog, ms(20), ms(49));
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts.size(), 3U);
  EXPECT_EQ(stall.parts[1].wait_class, WaitClass::kCpuWait);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"task.runnable 99 30000000 measured", "self 4242 20000000 measured"}));
}

TEST(Parts, WaitsAreClippedToTheCall) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(5), ms(20), ms(25)).stack(BATCH_STACK);
  events.wait(kFio, ms(55), ms(70), ms(70)).stack(BATCH_STACK);
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts.size(), 4U);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"self 4242 30000000 measured", "knob 4242 15000000 measured",
                   "task.runnable 5000000 measured"}));
}

TEST(Parts, ShortSleepsAreCarvedOutOfTheLargestGaps) {
  Events events;
  auto& call = events.call(kFio, wire::CALL_WRITE, ms(0), ms(100));
  call.short_waits = 40;
  call.short_blocked_ns = 30 * kMs;
  call.short_runnable_ns = 5 * kMs;
  events.wait(kFio, ms(20), ms(50), ms(50)).stack(BATCH_STACK);
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts.size(), 5U);
  EXPECT_EQ(stall.parts[0].ns, 15 * kMs);  // [0,15) runs
  EXPECT_EQ(stall.parts[1].wait_class, WaitClass::kCpuWait);
  EXPECT_EQ(stall.parts[1].start_ns, ms(15));
  EXPECT_EQ(stall.parts[3].wait_class, WaitClass::kCpuRun);  // [50,70)
  EXPECT_EQ(stall.parts[4].wait_class, WaitClass::kOther);
  EXPECT_EQ(stall.parts[4].start_ns, ms(70));
  EXPECT_EQ(stall.folded_ns, 35 * kMs);
}

TEST(Parts, ShortSleepsNeverExceedTheGaps) {
  Events events;
  auto& call = events.call(kFio, wire::CALL_WRITE, ms(0), ms(100));
  call.short_blocked_ns = 500 * kMs;
  call.short_runnable_ns = 500 * kMs;
  events.wait(kFio, ms(20), ms(50), ms(50)).stack(BATCH_STACK);
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.folded_ns, 70 * kMs);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"unexplained 70000000 guess", "knob 4242 30000000 measured"}));
}

TEST(Parts, AnUnknownSleepKeepsItsStackAndIsUnexplained) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(0), ms(100));
  events.wait(kFio, ms(0), ms(100), ms(100)).stack({"schedule", "some_new_function", "vfs_write"});
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kOther);
  EXPECT_EQ(stall.parts[0].stack.at(0), "some_new_function");
  EXPECT_TRUE(stall.parts[0].causes.empty());
  EXPECT_EQ(roots_of(stall.roots), (Lines{"unexplained 100000000 guess"}));
}

TEST(Parts, FixedRoots) {
  struct Case {
    std::initializer_list<std::string_view> stack;
    WaitClass wait_class;
    std::string root;
  };
  const Case cases[] = {
      {{"io_schedule_timeout", "balance_dirty_pages", "ext4_buffered_write_iter", "vfs_write"},
       WaitClass::kPageDirtyThrottle,
       "throttle loop0 50000000 measured"},
      {{"io_schedule", "rq_qos_wait", "wbt_wait", "blk_mq_submit_bio"},
       WaitClass::kBlockWbt,
       "throttle loop0 50000000 measured"},
      {{"schedule", "percpu_rwsem_wait", "__percpu_down_read", "aio_write"},
       WaitClass::kFsFrozen,
       "frozen loop0 50000000 inferred"},
      {{"schedule", "__bio_queue_enter", "submit_bio_noacct", "__iomap_dio_rw", "aio_write"},
       WaitClass::kBlockFrozen,
       "frozen loop0 50000000 inferred"},
  };
  for (const Case& c : cases) {
    Events events;
    events.call(kFio, wire::CALL_WRITE, ms(0), ms(50));
    events.wait(kFio, ms(0), ms(50), ms(50)).stack(c.stack).woken_by(kHog);
    model::Trace trace = events.trace();
    Stall stall = only_stall(trace);
    EXPECT_EQ(stall.parts[0].wait_class, c.wait_class);
    EXPECT_EQ(roots_of(stall.roots), (Lines{c.root}));
  }
}

TEST(ExplainAll, TakesStallsOnly) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(0), ms(50));
  events.call(kOther, wire::CALL_WRITE, ms(0), ms(60), wire::CALL_WANTED);
  events.call(kThird, wire::CALL_FSYNC, ms(90), ms(150));
  events.call(kHog, wire::CALL_NONE, ms(0), ms(90));
  model::Trace trace = events.trace(ms(0), ms(100));
  std::vector<Stall> stalls = explain_all(trace, 20 * kMs);
  ASSERT_EQ(stalls.size(), 1U);  // the fsync's part in the window is under the threshold
  EXPECT_EQ(stalls[0].task.tid, kFio.tid);
  EXPECT_EQ(stalls[0].id, 1U);
  stalls = explain_all(trace);
  ASSERT_EQ(stalls.size(), 2U);
  EXPECT_EQ(stalls[1].id, 2U);
  EXPECT_EQ(stalls[1].cut, Cut::kEnd);
  EXPECT_FALSE(stalls[1].unfinished);
}

}  // namespace
}  // namespace stalltrace::blame

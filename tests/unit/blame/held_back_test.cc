// Held back on purpose: frozen file systems and queues, limits of cgroups.
#include "tests/unit/blame/checks.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)
using kernel::WaitClass;
using Lines = std::vector<std::string>;

#define FROZEN_FS_STACK \
  { "schedule", "percpu_rwsem_wait", "__percpu_down_read", "ext4_buffered_write_iter", "vfs_write" }
#define FROZEN_QUEUE_STACK \
  { "schedule", "__bio_queue_enter", "blk_mq_submit_bio", "__iomap_dio_rw", "ext4_file_write_iter" }

TEST(Frozen, NamesWhoFrozeTheFileSystem) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(FROZEN_FS_STACK).in_call(ms(10)).dev(kPart);
  events.freeze(kOther, ms(5), ms(60));
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kFsFrozen);
  EXPECT_EQ(roots_of(stall.roots), Lines{"frozen loop0 4250 50000000 measured"});
}

TEST(Frozen, BeforeTracingBeganByNobodyKnown) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(FROZEN_FS_STACK).in_call(ms(10)).dev(kPart);
  events.freeze({0, ""}, ms(0), ms(60)).flags = wire::FREEZE_CUT_START;
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(roots_of(stall.roots), Lines{"frozen loop0 50000000 measured"});
  EXPECT_NE(stall.parts[0].causes[0].text.find("before tracing began"), std::string::npos);
}

TEST(Frozen, NamesTheWriterOfTheKnobOfItsOwnQueueOnly) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(FROZEN_QUEUE_STACK).in_call(ms(10)).dev(kPart);
  auto& other = events.call(kThird, wire::CALL_WRITE, ms(5), ms(70), wire::CALL_KNOB);
  set_path(other, {"scheduler", "queue", "loop1", "block"});
  auto& knob = events.call(kOther, wire::CALL_WRITE, ms(8), ms(60), wire::CALL_KNOB);
  set_path(knob, {"wbt_lat_usec", "queue", "loop0", "block"});
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);  // a knob's writer is never a stall itself
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kBlockFrozen);
  EXPECT_EQ(roots_of(stall.roots), Lines{"frozen loop0 4250 50000000 measured"});
}

TEST(Throttle, UntilItsOwnBioWasLetGoAndTheDeviceAfterwards) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(DIO_STACK)
      .in_call(ms(10))
      .dev(kPart)
      .request(1, 800, ms(50), ms(50), ms(60));
  events.throttle(4096, ms(40), "others");  // another bio's turn
  events.throttle(800, ms(50), "limited");
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"throttle loop0 40000000 measured", "device.write loop0 10000000 measured"}));
  EXPECT_NE(stall.parts[0].causes[0].text.find("cgroup /limited"), std::string::npos);
}

TEST(Request, ThatEndedUnseenIsNotHung) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(DIO_STACK).in_call(ms(10)).dev(kPart);
  events.request(1, 800, ms(10), ms(10), ms(60)).flags = 0;
  events.request(1, 9999, ms(5), ms(5), ms(9000)).flags = wire::REQUEST_END_UNSEEN;
  model::Trace trace = events.trace(ms(0), ms(9000));
  Stall stall = only_stall(trace);
  EXPECT_EQ(roots_of(stall.roots), Lines{"device.write loop0 50000000 inferred"});
  EXPECT_EQ(stall.parts[0].causes[0].id, "800");
}

TEST(Cpu, NamesWhoHadItAndNotWhoRanLast) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(10), ms(60)).flags(wire::WAIT_PREEMPTED).ran_before(kThird);
  events.slice(0, kHog, ms(10), ms(59));
  events.slice(1, kOther, ms(10), ms(60));  // another CPU's
  model::Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(roots_of(only_stall(trace).roots), Lines{"task.runnable 99 50000000 measured"});
}

TEST(Cpu, AQuotaThatWasUsedUpIsNamedAndWhoeverRanMeanwhile) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(10), ms(60))
      .flags(wire::WAIT_PREEMPTED | wire::WAIT_QUOTA)
      .ran_before({0, "swapper/0"});
  model::Trace idle = events.trace(ms(0), ms(100));
  Stall stall = only_stall(idle);
  EXPECT_EQ(stall.parts.at(0).wait_class, WaitClass::kCpuWait);
  EXPECT_EQ(roots_of(stall.roots), Lines{"task.runnable 50000000 measured"});
  const Cause& cause = stall.parts.at(0).causes.at(0);
  EXPECT_EQ(cause.text, "fio[4242] was ready to run, but the CPU quota of its cgroup was used up");
  EXPECT_TRUE(has_evidence(cause, "no other task had its CPU"));

  events.slice(0, kHog, ms(10), ms(59));
  model::Trace busy = events.trace(ms(0), ms(100));
  stall = only_stall(busy);
  EXPECT_EQ(roots_of(stall.roots), Lines{"task.runnable 99 50000000 measured"});
  EXPECT_TRUE(has_evidence(stall.parts.at(0).causes.at(0), "stress[99] ran on its CPU"));
}

TEST(Cpu, TimeThatTheKernelDoesNotCountIsNotTheCallsOwn) {
  Events events;
  auto& call = events.call(kFio, wire::CALL_WRITE, ms(10), ms(130));
  call.ran_ns = 5 * kMs;
  model::Trace trace = events.trace(ms(0), ms(200));
  EXPECT_EQ(roots_of(only_stall(trace).roots),
            (Lines{"unexplained 115000000 guess", "self 4242 5000000 measured"}));
}

TEST(SleepCall, OfAPageFault) {
  Events events;
  for (uint64_t t : {10, 40}) {
    events.wait(kFio, ms(t), ms(t + 30), ms(t + 30))
        .stack({"io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault",
                "exc_page_fault"})
        .dev(kPart)
        .request(0, 800, ms(t), ms(t), ms(t + 30));
  }
  // Another fault, later.
  events.wait(kFio, ms(90), ms(95), ms(95))
      .stack({"io_schedule", "filemap_fault", "handle_mm_fault", "exc_page_fault"})
      .dev(kPart);
  model::Trace trace = events.trace(ms(0), ms(100));
  std::vector<Stall> stalls = explain_all(trace, 10 * kMs);
  ASSERT_EQ(stalls.size(), 1U);
  check_sums(stalls[0]);
  EXPECT_EQ(stalls[0].kind, wire::CALL_FAULT);
  EXPECT_EQ(stalls[0].ns, 60 * kMs);
  EXPECT_EQ(roots_of(stalls[0].roots), Lines{"device.read loop0 60000000 measured"});
}

TEST(SleepCall, IsNotMadeInsideACall) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack({"io_schedule", "filemap_fault", "exc_page_fault", "copy_from_user", "vfs_write"})
      .in_call(ms(10));
  model::Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(only_stall(trace).kind, wire::CALL_WRITE);
}

}  // namespace
}  // namespace stalltrace::blame

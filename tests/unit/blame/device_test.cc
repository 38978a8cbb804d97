#include "tests/unit/blame/checks.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)
using kernel::WaitClass;
using Lines = std::vector<std::string>;

// An fdatasync that joins while a flush runs waits for that one and then for its own.
TEST(Flush, WaitsForTheOneInFlightAndThenForItsOwn) {
  Events events;
  events.call(kFio, wire::CALL_FDATASYNC, ms(100), ms(131));
  events.wait(kFio, ms(100), ms(131), ms(131))
      .stack(FLUSH_STACK)
      .request(2, ~0ULL, ms(100), ms(111), ms(131));
  Events::member(events.flush(ms(89), ms(90), ms(110)), kOther, ms(89));
  auto& own = events.flush(ms(100), ms(111), ms(131));
  Events::member(own, kThird, ms(100));
  Events::member(own, kFio, ms(100));
  model::Trace trace = events.trace(ms(0), ms(200));
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts.size(), 1U);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kBlockFlush);
  const std::vector<Cause>& causes = stall.parts[0].causes;
  ASSERT_EQ(causes.size(), 3U);
  EXPECT_EQ(causes[0].text,
            "a flush of loop0 already in flight: waited 10.0 ms for the rest of it, asked for by "
            "fio[4250]");
  EXPECT_EQ(causes[0].id, "1");
  EXPECT_EQ(causes[0].sure, Sure::kMeasured);
  EXPECT_EQ(causes[1].root.kind, RootKind::kDeviceQueue);
  EXPECT_EQ(causes[1].ns, 1 * kMs);
  EXPECT_EQ(causes[2].text, "its own flush of loop0: 20.0 ms in the device, shared by 2 requests");
  EXPECT_EQ(causes[2].id, "2");
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.flush loop0 30000000 measured", "device.queue loop0 1000000 measured"}));
}

// On a device with several hardware queues flushes do not wait for each other.
TEST(Flush, OfAnotherQueueIsNotAheadOfIt) {
  Events events;
  events.call(kFio, wire::CALL_FDATASYNC, ms(100), ms(131));
  events.wait(kFio, ms(100), ms(131), ms(131)).stack(FLUSH_STACK);
  auto& other = events.flush(ms(89), ms(90), ms(110));
  other.queue = 1;
  other.overtaken_ns = ms(95);  // the device goes on working
  Events::member(events.flush(ms(100), ms(120), ms(131)), kFio, ms(100));
  model::Trace trace = events.trace(ms(0), ms(200));
  EXPECT_EQ(roots_of(only_stall(trace).roots), (Lines{"device.queue loop0 20000000 measured",
                                                      "device.flush loop0 11000000 measured"}));
}

TEST(Flush, WhoseWorkerGotNoCpu) {
  const TaskId worker{900, "kworker/0:1H"};
  Events events;
  events.call(kFio, wire::CALL_FDATASYNC, ms(100), ms(131));
  events.wait(kFio, ms(100), ms(131), ms(131)).stack(FLUSH_STACK);
  auto& flush = events.flush(ms(100), ms(111), ms(131));
  flush.issuer = worker.wire();
  Events::member(flush, kFio, ms(100));
  events.wait(worker, ms(90), ms(101), ms(110)).ran_before(kHog);
  events.slice(0, kHog, ms(101), ms(110));
  model::Trace trace = events.trace(ms(0), ms(200));
  // Nothing was ahead of it in the device: the rest was the worker's as well, what ran there then
  // was not seen.
  EXPECT_EQ(roots_of(only_stall(trace).roots),
            (Lines{"device.flush loop0 20000000 measured", "task.runnable 99 9000000 measured",
                   "task.runnable 2000000 inferred"}));
}

// No other flush is sent while the record of a commit is written between its two flushes.
TEST(Flush, WaitsForTheDataOfAnothersSequence) {
  const TaskId worker{900, "kworker/0:1H"};
  Events events;
  events.call(kFio, wire::CALL_FDATASYNC, ms(100), ms(160));
  events.wait(kFio, ms(100), ms(160), ms(160)).stack(FLUSH_STACK);
  Events::member(events.flush(ms(90), ms(90), ms(105)), kJbd, ms(90), 54, true);
  events.request(1, 5000, ms(105), ms(105), ms(145));
  auto& flush = events.flush(ms(100), ms(145), ms(160));
  flush.issuer = worker.wire();
  Events::member(flush, kFio, ms(100));
  Events::member(flush, kJbd, ms(145), 54, true);
  model::Trace trace = events.trace(ms(0), ms(200));
  // 5 ms for the rest of the flush before, 15 ms for its own
  EXPECT_EQ(roots_of(only_stall(trace).roots), (Lines{"device.write loop0 40000000 inferred",
                                                      "device.flush loop0 20000000 measured"}));
}

TEST(Flush, OfAnotherDiskIsNeverBlamed) {
  Events events;
  events.call(kFio, wire::CALL_FDATASYNC, ms(100), ms(131));
  events.wait(kFio, ms(100), ms(131), ms(131))
      .stack(FLUSH_STACK)
      .in_call(ms(100))
      .request(2, ~0ULL, ms(100), ms(101), ms(131), kDecoy);
  Events::member(events.flush(ms(100), ms(101), ms(131), kDecoy), kFio, ms(100));
  model::Trace trace = events.trace(ms(0), ms(200));
  EXPECT_EQ(roots_of(only_stall(trace).roots), (Lines{"unexplained 31000000 guess"}));
}

TEST(Flush, ThatHangsIsHung) {
  Events events;
  events.call(kFio, wire::CALL_FDATASYNC, ms(1000), 0, wire::CALL_UNFINISHED);
  events.wait(kFio, ms(1000), 0, ms(9000)).stack(FLUSH_STACK).flags(wire::WAIT_STILL_ASLEEP);
  auto& flush = events.flush(ms(1000), ms(1000), 0);
  flush.flags = wire::FLUSH_UNFINISHED;
  Events::member(flush, kFio, ms(1000));
  model::Trace trace = events.trace(ms(0), ms(9000));
  Stall stall = only_stall(trace);
  EXPECT_TRUE(stall.unfinished);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"device.hung loop0 8000000000 measured"}));
}

// The contract's rule: while the device executes a flush and completes nothing else, waiting for
// any of its requests is waiting for that flush.
TEST(Write, BehindAFlushIsTheFlush) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(20), ms(105));
  events.wait(kFio, ms(20), ms(105), ms(105))
      .stack(DIO_STACK)
      .request(1, 800, ms(20), ms(20), ms(105));
  auto& flush = events.flush(ms(9), ms(10), ms(100));
  Events::member(flush, kOther, ms(9));
  events.request(1, 700, ms(5), ms(6), us(10'500));
  model::Trace trace = events.trace(ms(0), ms(200));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kBlockWrite);
  EXPECT_EQ(stall.parts[0].causes[0].text,
            "the rest of a flush of loop0: 80.0 ms in the device, asked for by fio[4250]");
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.flush loop0 80000000 measured", "device.write loop0 5000000 measured"}));
}

TEST(Write, BesideAFlushIsItsOwnTime) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(20), ms(105));
  events.wait(kFio, ms(20), ms(105), ms(105))
      .stack(DIO_STACK)
      .request(1, 800, ms(20), ms(30), ms(105));
  auto& flush = events.flush(ms(9), ms(10), ms(100));
  flush.overtaken_ns = ms(60);
  events.request(1, 700, ms(15), ms(16), ms(60));  // completed in the middle of it
  model::Trace trace = events.trace(ms(0), ms(200));
  EXPECT_EQ(roots_of(only_stall(trace).roots), (Lines{"device.write loop0 75000000 measured",
                                                      "device.queue loop0 10000000 measured"}));
}

// What the device had begun before the flush may still complete during it.
TEST(Write, BehindAFlushWhileTheDeviceFinishesTheRest) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(20), ms(100));
  events.wait(kFio, ms(20), ms(100), ms(100))
      .stack(DIO_STACK)
      .in_call(ms(20))
      .request(1, 800, ms(20), ms(20), ms(100));
  events.flush(ms(9), ms(10), ms(100));
  events.request(1, 700, ms(5), ms(6), ms(30));
  model::Trace trace = events.trace(ms(0), ms(200));
  EXPECT_EQ(roots_of(only_stall(trace).roots), (Lines{"device.flush loop0 80000000 measured"}));
}

TEST(Write, BetweenTwoFlushesWaitsForTheNext) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(20), ms(80));
  events.wait(kFio, ms(20), ms(80), ms(80))
      .stack(DIO_STACK)
      .request(1, 800, ms(20), ms(20), ms(80));
  events.flush(ms(10), ms(11), ms(50));
  events.flush(ms(12), us(50'400), ms(80));
  model::Trace trace = events.trace(ms(0), ms(200));
  EXPECT_EQ(roots_of(only_stall(trace).roots),
            (Lines{"device.flush loop0 59600000 measured", "device.queue loop0 400000 measured"}));
}

TEST(Read, SlowRequestsExplainWhatTheWakerDoesNot) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(20), ms(80));
  events.wait(kFio, ms(20), ms(80), ms(80)).stack(READ_STACK).woken_by(kHog, wire::WAKER_SOFTIRQ);
  events.request(0, 100, ms(10), ms(15), ms(40));
  events.request(0, 200, ms(10), ms(35), ms(70));
  events.request(0, 300, ms(10), ms(60), ms(65));
  events.request(0, 400, ms(10), ms(15), ms(80), kDecoy);
  model::Trace trace = events.trace(ms(0), ms(200));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kBlockRead);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.read loop0 50000000 inferred", "unexplained 10000000 guess"}));
}

TEST(Tag, TakenByWritesBehindAFlush) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(20), ms(101));
  events.wait(kFio, ms(20), ms(100), ms(101))
      .stack(TAG_STACK)
      .request(1, 800, ms(15), ms(16), ms(100))
      .ran_before(kHog);
  events.flush(ms(9), ms(10), ms(95));
  model::Trace trace = events.trace(ms(0), ms(200));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kBlockTag);
  EXPECT_TRUE(has_evidence(stall.parts[0].causes.front(), "every request was taken"));
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.flush loop0 75000000 measured", "device.write loop0 5000000 measured",
                   "task.runnable 99 1000000 measured"}));
}

TEST(Writeback, EndedByAWorkerIsTheDeviceAndThenTheWorker) {
  const TaskId worker{900, "kworker/0:1"};
  Events events;
  events.call(kFio, wire::CALL_FSYNC, ms(10), ms(50));
  events.wait(kFio, ms(10), ms(50), ms(50)).stack(WRITEBACK_STACK).woken_by(worker);
  events.request(1, 800, ms(10), ms(10), ms(30));
  events.wait(worker, ms(31), ms(45), ms(45)).stack(LOCKED_STACK).woken_by(kJbd);
  events.commit(3, kJbd, {0, ms(30), ms(31), ms(45), ms(45), ms(45), ms(46), ms(46)});
  model::Trace trace = events.trace(ms(0), ms(200));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kPageWriteback);
  // The worker slept 31 to 45 for a commit that was being switched: its thread ran.
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.write loop0 20000000 inferred", "task.cpu 300 14000000 inferred",
                   "task.cpu 900 6000000 inferred"}));
}

// A flush whose completion passed unseen ends when one of those who waited for it wakes up.
TEST(Flush, WhoseEndPassedUnseenEndsWithTheFirstWakeUp) {
  Events events;
  events.call(kFio, wire::CALL_FDATASYNC, ms(100), ms(120));
  events.wait(kFio, ms(100), ms(119), ms(119)).stack(FLUSH_STACK).in_call(ms(100)).dev(kPart);
  auto& flush = events.flush(ms(100), ms(100), ms(900));
  flush.flags = wire::FLUSH_END_UNSEEN;
  Events::member(flush, kFio, ms(100));
  // A stranger's write long after it.
  events.call(kOther, wire::CALL_WRITE, ms(300), ms(340));
  events.wait(kOther, ms(300), ms(340), ms(340))
      .stack(DIO_STACK)
      .in_call(ms(300))
      .dev(kPart)
      .request(1, 800, ms(300), ms(300), ms(340));
  model::Trace trace = events.trace(ms(0), ms(1000));
  EXPECT_EQ(trace.flushes(kDisk)[0].device.end_ns, ms(119));
  std::vector<Stall> stalls = explain_all(trace);
  ASSERT_EQ(stalls.size(), 2U);
  for (const Stall& stall : stalls) check_sums(stall);
  EXPECT_EQ(roots_of(stalls[0].roots).at(0), "device.flush loop0 19000000 inferred");
  EXPECT_EQ(roots_of(stalls[1].roots), Lines{"device.write loop0 40000000 measured"});
}

TEST(Flush, WhoseEndPassedUnseenEndsBeforeWhatWasSentAfterIt) {
  Events events;
  events.flush(ms(100), ms(100), ms(900)).flags = wire::FLUSH_END_UNSEEN;
  events.request(1, 800, ms(150), ms(150), ms(160));
  model::Trace trace = events.trace(ms(0), ms(1000));
  EXPECT_EQ(trace.flushes(kDisk)[0].device.end_ns, ms(160));
  EXPECT_FALSE(trace.flushes(kDisk)[0].worked_beside);
}

// The device is idle, the request lies in the plug of a task that has no CPU.
TEST(Request, HeldInThePlugOfATaskWithoutCpu) {
  const TaskId worker{900, "kworker/u8:1"};
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(70));
  events.wait(kFio, ms(10), ms(70), ms(70))
      .stack(DIO_STACK)
      .in_call(ms(10))
      .dev(kPart)
      .request(1, 800, ms(10), ms(60), ms(70));
  events.waits.back().waker_request.submitter = worker.tid;
  events.wait(worker, ms(11), ms(11), ms(59)).flags(wire::WAIT_PREEMPTED);
  events.slice(0, kHog, ms(11), ms(59));
  model::Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(roots_of(only_stall(trace).roots),
            (Lines{"task.runnable 99 48000000 measured", "device.write loop0 10000000 measured",
                   "task.cpu 900 2000000 inferred"}));
}

}  // namespace
}  // namespace stalltrace::blame

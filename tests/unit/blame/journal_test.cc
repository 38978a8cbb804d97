#include <fmt/format.h>

#include "tests/unit/blame/checks.h"
#include "userspace/blame/culprits.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)
using kernel::WaitClass;
using Lines = std::vector<std::string>;

// The example of an explained stall: a submission waits for a locked commit, that for a handle,
// its task for a buffer, the buffer's commit for a flush.
class MissionExample : public ::testing::Test {
 protected:
  MissionExample() {
    auto& call = events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(1920));
    set_path(call, {"chunk-017", "/"});
    call.ino = 1311;
    // 1.86 s blocked, then 50 ms without a CPU.
    events.wait(kFio, ms(10), ms(1870), ms(1920))
        .stack(LOCKED_STACK)
        .in_call(ms(10))
        .starting_handle(8841, 1)
        .woken_by(kJbd)
        .ran_before(kHog);
    events.slice(0, kHog, ms(1870), ms(1920));
    events.commit(8841, kJbd,
                  {ms(5), ms(6), ms(10), ms(1870), ms(1871), ms(1872), ms(1900), ms(1901)});
    events.wait(kJbd, ms(10), ms(1870), ms(1870))
        .stack(JBD_HANDLES_STACK)
        .flags(wire::WAIT_JOURNAL_THREAD)
        .woken_by(kOther);
    events.handle(kOther, 8841, 1, ms(4), ms(1870));
    events.wait(kOther, ms(10), ms(1870), ms(1870))
        .stack(SHADOW_STACK)
        .flags(wire::WAIT_HANDLE_OPEN)
        .request(1, 1050, ms(9), ms(10), ms(1870));
    events.commit(8840, {301, "jbd2/loop0-8"},
                  {0, ms(1), ms(2), ms(3), ms(4), ms(9), ms(1875), ms(1876)});
    auto& flush = events.flush(ms(9), ms(9), ms(1850));
    Events::member(flush, {301, "jbd2/loop0-8"}, ms(9), 8840, true);
  }
  Events events;
};

TEST_F(MissionExample, FollowsTheChainToTheFlush) {
  model::Trace trace = events.trace(ms(0), ms(2000));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.path, "/mnt/chunk-017");
  EXPECT_EQ(stall.ino, 1311U);
  EXPECT_EQ(stall.dev, kDisk);
  EXPECT_EQ(stall.fs_dev, kPart);
  EXPECT_EQ(stall.ns, 1910 * kMs);
  ASSERT_EQ(stall.parts.size(), 2U);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kJournalLocked);
  EXPECT_EQ(stall.parts[0].ns, 1860 * kMs);
  ASSERT_FALSE(stall.parts[0].stack.empty());
  EXPECT_EQ(stall.parts[0].stack[0], "wait_transaction_locked");
  EXPECT_EQ(stall.parts[1].wait_class, WaitClass::kCpuWait);
  EXPECT_EQ(stall.parts[1].root.kind, RootKind::kTaskRunnable);
  EXPECT_EQ(stall.parts[1].root.task.comm, "stress");

  ASSERT_EQ(stall.parts[0].causes.size(), 1U);
  const Cause& commit = stall.parts[0].causes[0];
  EXPECT_EQ(commit.kind, CauseKind::kCommit);
  EXPECT_EQ(commit.id, "8841");
  EXPECT_EQ(commit.text, "commit 8841 was locked for 1.86 s, waiting for 1 open handle");
  EXPECT_EQ(commit.sure, Sure::kMeasured);
  ASSERT_EQ(commit.causes.size(), 1U);
  const Cause& handle = commit.causes[0];
  EXPECT_EQ(handle.kind, CauseKind::kHandle);
  EXPECT_EQ(handle.text,
            "the handle: fio[4250] (inode update), itself waiting 1.86 s in journal.buffer");
  EXPECT_EQ(handle.sure, Sure::kMeasured);
  ASSERT_EQ(handle.causes.size(), 1U);
  const Cause& buffer = handle.causes[0];
  EXPECT_EQ(buffer.kind, CauseKind::kCommit);
  EXPECT_EQ(buffer.id, "8840");
  EXPECT_EQ(buffer.text,
            "the inode table block: sector 1050, being written by commit 8840, which waited for a "
            "flush of loop0");
  // The flush held everything up until 1850; what was left of the buffer's own write came after.
  ASSERT_EQ(buffer.causes.size(), 2U);
  EXPECT_EQ(buffer.causes[0].kind, CauseKind::kFlush);
  EXPECT_EQ(buffer.causes[0].ns, 1840 * kMs);
  EXPECT_EQ(buffer.causes[0].text,
            "the rest of a flush of loop0: 1.84 s in the device, asked for by commit 8840");
  EXPECT_EQ(buffer.causes[1].kind, CauseKind::kRequest);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.flush loop0 1840000000 measured", "task.runnable 99 50000000 measured",
                   "device.write loop0 20000000 measured"}));
}

TEST_F(MissionExample, SaysTheSameWhateverTheOrderOfEvents) {
  model::Trace trace = events.trace(ms(0), ms(2000));
  std::vector<std::vector<std::byte>> reversed = events.stream();
  std::reverse(reversed.begin(), reversed.end());
  model::Trace other = events.trace_of(reversed, ms(0), ms(2000));
  EXPECT_EQ(roots_of(only_stall(trace).roots), roots_of(only_stall(other).roots));
}

TEST(Locked, AHandleWhoseTaskRanIsTaskCpu) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(0), ms(100));
  events.wait(kFio, ms(0), ms(100), ms(100))
      .stack(LOCKED_STACK)
      .starting_handle(7, 1)
      .woken_by(kJbd);
  // 2 ms of running before it was locked, 88 ms of handles, 8 ms until new handles went on.
  events.commit(7, kJbd, {0, ms(0), ms(2), ms(98), ms(99), ms(110), ms(120), ms(121)});
  events.wait(kJbd, ms(3), ms(90), ms(94))
      .stack(JBD_HANDLES_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .woken_by(kOther)
      .ran_before(kHog);
  events.handle(kOther, 7, 5, ms(0), ms(90));
  events.handle(kThird, 7, 3, ms(0), ms(40));
  // The holder's call is known, it slept from 20 to 30 for a read of the decoy's neighbour.
  events.call(kOther, wire::CALL_TRUNCATE, ms(0), ms(91), wire::CALL_WANTED);
  events.wait(kOther, ms(20), ms(30), ms(31))
      .stack(READ_STACK)
      .request(0, 500, ms(20), ms(21), ms(30))
      .ran_before(kHog);
  model::Trace trace = events.trace(ms(0), ms(200));
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts.size(), 1U);
  const std::vector<Cause>& causes = stall.parts[0].causes;
  // [0,2) before the locking has no explanation; in [98,100) jbd2 came to wake the waiter.
  ASSERT_EQ(causes.size(), 3U);
  EXPECT_EQ(causes[0].root.kind, RootKind::kUnexplained);
  EXPECT_EQ(causes[1].text, "commit 7 was locked for 96.0 ms, waiting for 2 open handles");
  ASSERT_EQ(causes[1].causes.size(), 3U);
  const Cause& handle = causes[1].causes[0];
  EXPECT_EQ(handle.text, "the handle: fio[4250] (truncate), running for 77.0 ms");
  EXPECT_EQ(handle.ns, 88 * kMs);
  EXPECT_TRUE(has_evidence(handle, "also open then: fio[4251] (block mapping), for 38.0 ms"));
  EXPECT_EQ(causes[1].causes[1].root.kind, RootKind::kTaskRunnable);  // jbd2 [90,94)
  EXPECT_EQ(causes[1].causes[2].root.kind, RootKind::kTaskCpu);       // jbd2 [94,98)
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"task.cpu 4250 77000000 measured", "device.read loop0 9000000 measured",
                   "task.cpu 300 6000000 measured", "task.runnable 99 5000000 measured",
                   "unexplained 2000000 guess", "device.queue loop0 1000000 measured"}));
}

TEST(Locked, AHandleThatWasNotSeenIsInferredFromTheWaker) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(LOCKED_STACK).woken_by(kJbd);
  events.commit(7, kJbd, {0, ms(9), ms(10), ms(60), ms(61), ms(62), ms(63), ms(64)});
  events.wait(kJbd, ms(10), ms(60), ms(60))
      .stack(JBD_HANDLES_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .woken_by(kOther);
  events.wait(kOther, ms(5), ms(59), ms(60)).stack(BATCH_STACK).woken_by(kHog, wire::WAKER_HARDIRQ);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  const Cause& handle = stall.parts.at(0).causes.at(0).causes.at(0);
  EXPECT_EQ(handle.kind, CauseKind::kHandle);
  EXPECT_EQ(handle.sure, Sure::kInferred);
  EXPECT_EQ(handle.task.tid, kOther.tid);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"knob 4250 49000000 inferred", "task.runnable 1000000 inferred"}));
}

// Who let its handle go and came back for another is a victim as well, not the holder.
TEST(Locked, AHandleThatEndedBeforeTheWaitDidNotCauseIt) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(20), ms(60));
  events.wait(kFio, ms(20), ms(60), ms(60)).stack(LOCKED_STACK).woken_by(kJbd);
  events.commit(7, kJbd, {0, ms(9), ms(10), ms(60), ms(61), ms(62), ms(63), ms(64)});
  events.wait(kJbd, ms(10), ms(60), ms(60))
      .stack(JBD_HANDLES_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD);
  events.handle(kFio, 7, 1, ms(8), ms(19));
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].causes.at(0).causes.at(0).text,
            "the handle that held commit 7 back was not seen");
  EXPECT_EQ(roots_of(stall.roots), (Lines{"unexplained 40000000 guess"}));
}

// A worker's own device is not known: its journal is that of the thread that woke it.
TEST(Locked, AWorkersJournalIsItsWakers) {
  const TaskId worker{900, "kworker/u4:1"};
  Events events;
  events.call(worker, wire::CALL_KWORKER, ms(10), ms(60));
  events.wait(worker, ms(10), ms(60), ms(60)).dev(kDecoy).stack(LOCKED_STACK).woken_by(kJbd);
  events.commit(7, kJbd, {0, ms(9), ms(10), ms(60), ms(61), ms(62), ms(63), ms(64)});
  model::Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(roots_of(only_stall(trace).roots), (Lines{"task.cpu 300 50000000 measured"}));
}

TEST(Locked, WithoutTheCommitIsUnexplained) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(LOCKED_STACK).starting_handle(9, 1);
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"unexplained 50000000 guess"}));
  EXPECT_EQ(stall.parts[0].causes[0].text, "transaction 9 was locked; its commit was not seen");
}

TEST(Locked, StillLockedWhenTheWindowCloses) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(20), ms(100), wire::CALL_UNFINISHED);
  events.wait(kFio, ms(20), 0, ms(100)).stack(LOCKED_STACK).flags(wire::WAIT_STILL_ASLEEP);
  events.commit(7, kJbd, {0, ms(9), ms(10), 0, 0, 0, 0, 0}).flags = wire::COMMIT_UNFINISHED;
  events.handle(kOther, 7, 1, ms(8), ms(100), wire::HANDLE_UNFINISHED);
  events.wait(kOther, ms(10), 0, ms(100))
      .stack(TAG_STACK)
      .flags(wire::WAIT_STILL_ASLEEP | wire::WAIT_HANDLE_OPEN);
  events.flush(ms(5), ms(6), 0).flags = wire::FLUSH_UNFINISHED;
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_TRUE(stall.unfinished);
  EXPECT_EQ(stall.cut, Cut::kEnd);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"device.flush loop0 80000000 inferred"}));
}

TEST(Credits, WaitsForTheCommitsInProgress) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(LOCKED_STACK)
      .starting_handle(8, 0)
      .woken_by(kJbd);
  events.commit(7, kJbd, {0, ms(1), ms(2), ms(3), ms(4), ms(20), ms(50), ms(51)});
  events.wait(kJbd, ms(20), ms(50), ms(50))
      .stack(JBD_IO_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .request(2, ~0ULL, ms(20), ms(21), ms(50));
  events.commit(8, kJbd, {0, ms(51), ms(52), ms(60), ms(61), ms(62), ms(63), ms(64)});
  Events::member(events.flush(ms(20), ms(21), ms(50)), kJbd, ms(20), 7, true);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kJournalCredits);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.flush loop0 29000000 inferred", "task.cpu 300 20000000 inferred",
                   "device.queue loop0 1000000 inferred"}));
}

// One thread commits one after another: an fsync of transaction 12 that comes while 11 is being
// written waits for the rest of 11 and for all of 12.
TEST(Commit, WaitsForTheRestOfTheOneBeforeAndForItsOwn) {
  Events events;
  events.call(kFio, wire::CALL_FSYNC, ms(100), ms(200)).sync_tid = 12;
  events.wait(kFio, ms(100), ms(199), ms(200))
      .stack(COMMIT_STACK)
      .in_call(ms(100))
      .target(12)
      .woken_by(kJbd)
      .ran_before(kHog);
  events.commit(11, kJbd, {ms(50), ms(51), ms(52), ms(53), ms(54), ms(60), ms(129), ms(130)});
  events.commit(12, kJbd, {0, ms(130), ms(131), ms(141), ms(142), ms(160), ms(198), ms(199)});
  // 11: its record from 60 to 128, of which the flush 62 to 128.
  events.wait(kJbd, ms(60), ms(128), ms(128))
      .stack(JBD_IO_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .request(2, ~0ULL, ms(60), ms(62), ms(128));
  Events::member(events.flush(ms(60), ms(62), ms(128)), kJbd, ms(60), 11, true);
  // 12: a late handle until 141, blocks written from 142 to 158, record from 160 to 195.
  events.wait(kJbd, ms(131), ms(141), ms(141))
      .stack(JBD_HANDLES_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .woken_by(kOther);
  events.handle(kOther, 12, 2, ms(120), ms(141));
  events.call(kOther, wire::CALL_WRITE, ms(115), ms(142), wire::CALL_WANTED);
  events.wait(kJbd, ms(143), ms(158), ms(158))
      .stack(JBD_IO_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .request(1, 2104, ms(142), ms(145), ms(158));
  events.wait(kJbd, ms(160), ms(195), ms(195))
      .stack(JBD_IO_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .request(2, ~0ULL, ms(160), ms(161), ms(195));
  Events::member(events.flush(ms(160), ms(161), ms(195)), kJbd, ms(160), 12, true);

  model::Trace trace = events.trace(ms(0), ms(300));
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts.size(), 2U);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kJournalCommit);
  std::vector<std::string> texts;
  for (const Cause& cause : stall.parts[0].causes) {
    EXPECT_EQ(cause.kind, CauseKind::kCommit);
    EXPECT_EQ(cause.sure, Sure::kMeasured) << cause.text;
    texts.push_back(cause.text);
  }
  EXPECT_EQ(texts, (Lines{"commit 11, commit record: waited 29.0 ms for a flush of loop0",
                          "commit 11, finishing: ran for 1.00 ms",
                          "commit 12, before it was locked: ran for 1.00 ms",
                          "commit 12 was locked for 10.0 ms, waiting for 1 open handle",
                          "commit 12, ordered data: ran for 1.00 ms",
                          "commit 12, journal blocks: waited 18.0 ms for a write of loop0",
                          "commit 12, commit record: waited 38.0 ms for a flush of loop0",
                          "commit 12, finishing: ran for 1.00 ms"}));
  EXPECT_TRUE(has_evidence(stall.parts[0].causes[7], "woken by jbd2/loop0-8[300]"));
  EXPECT_TRUE(has_evidence(stall.parts[0].causes[7], "after it ended commit 12"));
  // jbd2 ran: 128-129, 129-130, 130-131, 141-142, 142-143, 158-160, 195-198, 198-199 = 11 ms.
  // flush: 100-128 and 161-195 = 62 ms. write: 145-158 = 13 ms; its queue 143-145, the second
  // flush's 160-161 = 3 ms. The handle's task ran 131-141 = 10 ms.
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.flush loop0 62000000 measured", "device.write loop0 13000000 measured",
                   "task.cpu 300 11000000 measured", "task.cpu 4250 10000000 measured",
                   "device.queue loop0 3000000 measured", "task.runnable 99 1000000 measured"}));
}

// Without FUA a commit record takes two flushes with the record's write between them.
TEST(Commit, ARecordWithoutFuaTakesTwoFlushes) {
  Events events;
  events.call(kFio, wire::CALL_FSYNC, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(COMMIT_STACK).target(5).woken_by(kJbd);
  events.commit(5, kJbd, {ms(10), ms(10), ms(10), ms(10), ms(10), ms(10), ms(60), ms(60)});
  events.wait(kJbd, ms(10), ms(60), ms(60))
      .stack(JBD_IO_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .request(2, ~0ULL, ms(10), ms(35), ms(60));
  Events::member(events.flush(ms(10), ms(12), ms(30)), kJbd, ms(10), 5, true);
  Events::member(events.flush(ms(10), ms(35), ms(60)), kJbd, ms(10), 5, true);
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  // [10,12) queue, [12,30) flush, [30,35) the record, [35,60) flush.
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.flush loop0 43000000 measured", "device.write loop0 5000000 measured",
                   "device.queue loop0 2000000 measured"}));
}

TEST(Commit, FallsBackOnTheCommitThatEndedTheWait) {
  Events events;
  events.call(kFio, wire::CALL_FSYNC, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(COMMIT_STACK).woken_by(kJbd);
  events.commit(5, kJbd, {ms(12), ms(12), ms(12), ms(13), ms(13), ms(14), ms(59), ms(59)});
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  const std::vector<Cause>& causes = stall.parts[0].causes;
  EXPECT_EQ(causes.back().root.kind, RootKind::kTaskCpu);  // the wake-up
  EXPECT_EQ(causes[causes.size() - 2].sure, Sure::kMeasured);
  EXPECT_TRUE(has_evidence(causes[causes.size() - 2], "1.00 ms after it ended commit 5"));
  // Two milliseconds before the commit began are too long for a wake-up.
  EXPECT_EQ(causes.front().root.kind, RootKind::kUnexplained);
}

TEST(Commit, ALostCommitIsUnexplainedAndNotTheIdleThread) {
  Events events;
  events.commit(4, kJbd, {ms(1), ms(1), ms(1), ms(2), ms(2), ms(2), ms(3), ms(3)});
  events.call(kFio, wire::CALL_FSYNC, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(COMMIT_STACK).target(5).woken_by(kJbd);
  model::Trace trace = events.trace();
  EXPECT_EQ(roots_of(only_stall(trace).roots), (Lines{"unexplained 50000000 guess"}));
}

TEST(Buffer, ItsHomeBlockBeingWrittenIsNotACommits) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(BUFFER_LOCK_STACK)
      .request(1, 64, ms(5), ms(20), ms(60));
  events.commit(5, kJbd, {ms(1), ms(1), ms(1), ms(2), ms(2), ms(2), ms(70), ms(70)});
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kJournalBuffer);
  EXPECT_EQ(stall.parts[0].causes[0].kind, CauseKind::kRequest);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"device.write loop0 40000000 measured",
                                          "device.queue loop0 10000000 measured"}));
}

TEST(Batch, IsAKnob) {
  Events events;
  events.call(kFio, wire::CALL_MKDIR, ms(10), ms(25));
  events.wait(kFio, ms(10), ms(25), ms(25)).stack(BATCH_STACK).woken_by(kHog, wire::WAKER_HARDIRQ);
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kJournalBatch);
  EXPECT_EQ(stall.parts[0].causes[0].kind, CauseKind::kKnob);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"knob 4242 15000000 measured"}));
}

TEST(Cycle, PrintsBothEdgesAndStops) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(0xa0, wire::LCB_WRITE, 11)
      .owner(kOther)
      .woken_by(kOther);
  events.wait(kOther, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(0xb0, wire::LCB_WRITE, 12)
      .owner(kFio)
      .woken_by(kFio);
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"unexplained 50000000 guess"}));
  const Cause& cycle = stall.parts[0].causes.at(0).causes.at(0).causes.at(0);
  EXPECT_EQ(cycle.text, "a cycle: fio[4242] waits for fio[4250], which waits for fio[4242]");
  EXPECT_TRUE(has_evidence(cycle, "fio[4242] waits for fio[4250]"));
  EXPECT_TRUE(has_evidence(cycle, "fio[4250] waits for fio[4242]"));
}

// jbd2 sends the first journal blocks before it waits for ordered data: that wait is data's still.
TEST(Commit, DataIsWaitedForAfterTheFirstJournalBlocks) {
  Events events;
  events.call(kFio, wire::CALL_FSYNC, ms(10), ms(100));
  events.wait(kFio, ms(10), ms(100), ms(100)).stack(COMMIT_STACK).in_call(ms(10)).dev(kPart);
  auto& commit = events.commit(7, kJbd, {0, ms(5), ms(6), ms(7), ms(8), ms(90), ms(99), ms(100)});
  commit.data_bytes = 3 << 20;
  commit.data_ino = 13;
  commit.data_ino_bytes = 2 << 20;
  commit.data_inodes = 2;
  events.wait(kJbd, ms(9), ms(70), ms(70))
      .stack({"io_schedule", "folio_wait_bit_common", "folio_wait_writeback",
              "__filemap_fdatawait_range", "jbd2_journal_finish_inode_data_buffers",
              "jbd2_journal_commit_transaction", "kjournald2"})
      .flags(wire::WAIT_JOURNAL_THREAD)
      .request(1, 800, ms(8), ms(8), ms(70));
  auto& owner = events.call(kOther, wire::CALL_WRITE, ms(1), ms(4), wire::CALL_WANTED);
  owner.ino = 13;
  set_path(owner, {"d1", "/"});
  model::Trace trace = events.trace(ms(0), ms(200));
  Stall stall = only_stall(trace);
  const Cause& data = stall.parts[0].causes.at(0);
  EXPECT_EQ(data.text, "commit 7, ordered data: waited 60.0 ms for a write of loop0");
  EXPECT_TRUE(
      has_evidence(data, "3 MiB in 2 files, the most 2 MiB of /mnt/d1 (inode 13), by fio[4250]"))
      << fmt::format("{}", fmt::join(data.evidence, "; "));
  EXPECT_EQ(stall.parts[0].causes.at(1).text.substr(0, 24), "commit 7, journal blocks");
}

// Whoever waits pays for everybody's metadata: who dirtied more than all others is the owner.
TEST(Commit, WritingTheLogIsWhoseMetadataItWrites) {
  Events events;
  events.call(kFio, wire::CALL_FSYNC, ms(10), ms(100));
  events.wait(kFio, ms(10), ms(100), ms(100)).stack(COMMIT_STACK).in_call(ms(10)).dev(kPart);
  events.commit(7, kJbd, {0, ms(10), ms(10), ms(10), ms(10), ms(90), ms(99), ms(100)});
  events.dirtied(kFio, 7, 2, 12, "mine");
  events.dirtied(kOther, 7, 30, 13, "theirs");
  model::Trace trace = events.trace(ms(0), ms(200));
  Culprits gathered(trace);
  std::vector<Stall> stalls =
      explain_all(trace, 0, [&](const Stall& stall) { gathered.add(stall); });
  ASSERT_EQ(stalls.size(), 1U);
  const Cause& log = stalls[0].parts[0].causes.at(0);
  EXPECT_EQ(log.owner.tid, kOther.tid);
  EXPECT_EQ(log.path, "/mnt/theirs");
  EXPECT_TRUE(log.text.starts_with("commit 7, journal blocks (30 of 32 dirtied by fio[4250]): "))
      << log.text;
  EXPECT_TRUE(has_evidence(
      log, "metadata: 32 blocks: 30 by fio[4250] (/mnt/theirs), 2 by fio[4242] (/mnt/mine)"))
      << fmt::format("{}", fmt::join(log.evidence, "; "));
  std::vector<CulpritSum> culprits = std::move(gathered).take();
  ASSERT_FALSE(culprits.empty());
  EXPECT_EQ(culprits[0].task.tid, kOther.tid);
  EXPECT_EQ(culprits[0].what, "dirtied most of the metadata that a commit had to write");
  EXPECT_EQ(culprits[0].others_ns, 80 * kMs);  // not the record's time
}

}  // namespace
}  // namespace stalltrace::blame

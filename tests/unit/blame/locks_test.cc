#include "tests/unit/blame/checks.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)
using kernel::WaitClass;
using Lines = std::vector<std::string>;

constexpr uint64_t kLock = 0xffff888000001000;

TEST(Lock, HeldByWhomItWasOwnedAndGivenUp) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  auto& holder = events.call(kOther, wire::CALL_WRITE, ms(5), ms(61), wire::CALL_WANTED);
  holder.ino = 1311;
  set_path(holder, {"chunk-017", "/"});
  events.wait(kOther, ms(12), ms(52), ms(53))
      .stack(DIO_STACK)
      .request(1, 800, ms(12), ms(12), ms(52))
      .ran_before(kHog);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].wait_class, WaitClass::kLockInode);
  const Cause& held = stall.parts[0].causes.at(0);
  EXPECT_EQ(held.kind, CauseKind::kHolder);
  EXPECT_EQ(held.sure, Sure::kMeasured);
  EXPECT_EQ(held.text,
            "the lock was held by fio[4250] (write), itself waiting 40.0 ms in block.write");
  EXPECT_TRUE(has_evidence(held, "the lock of inode 1311, /mnt/chunk-017, waited for to write"));
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.write loop0 40000000 measured", "task.cpu 4250 9000000 measured",
                   "task.runnable 99 1000000 measured"}));
}

// With PREEMPT_RT the stack is that of any lock; the address is the inode's.
TEST(Lock, IsTheInodesByItsAddress) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack({"schedule", "rt_mutex_schedule", "rt_mutex_slowlock_block",
              "__rt_mutex_slowlock_locked", "ext4_file_write_iter", "aio_write", "io_submit_one"})
      .lock(kLock, wire::LCB_READ, 1311)
      .owner(kOther)
      .woken_by(kOther);
  EXPECT_EQ(only_stall(events.trace(ms(0), ms(100))).parts[0].wait_class, WaitClass::kLockInode);
  events.waits.back().lock_ino = 0;
  EXPECT_EQ(only_stall(events.trace(ms(0), ms(100))).parts[0].wait_class, WaitClass::kLockOther);
}

// A reader waits although readers hold the lock: a writer is queued ahead of it, and knows more.
TEST(Lock, OfNobodySeenIsToldByAQueuedWriter) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_READ_STACK)
      .lock(kLock, wire::LCB_READ, 1311)
      .woken_by(kThird);
  events.call(kThird, wire::CALL_WRITE, ms(9), ms(61), wire::CALL_WANTED);
  events.wait(kThird, ms(9), ms(59), ms(59))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .readers()
      .woken_by(kOther);
  events.call(kOther, wire::CALL_IO_SUBMIT, ms(8), ms(60), wire::CALL_WANTED);
  events.wait(kOther, ms(9), ms(59), ms(59))
      .stack(DIO_STACK)
      .in_call(ms(8))
      .dev(kPart)
      .request(1, 800, ms(9), ms(9), ms(59));
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].causes.at(0).task.tid, kOther.tid);
  EXPECT_EQ(roots_of(stall.roots).at(0), "device.write loop0 49000000 inferred");
}

TEST(Lock, HeldByOneAfterAnother) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kThird);
  // The third waited as well and got it at 30.
  events.wait(kThird, ms(8), ms(30), ms(30))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  events.call(kThird, wire::CALL_WRITE, ms(7), ms(61), wire::CALL_WANTED);
  events.call(kOther, wire::CALL_WRITE, ms(7), ms(31), wire::CALL_WANTED);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts[0].causes.size(), 2U);
  EXPECT_EQ(stall.parts[0].causes[0].task.tid, kOther.tid);
  EXPECT_EQ(stall.parts[0].causes[0].ns, 20 * kMs);
  EXPECT_EQ(stall.parts[0].causes[1].task.tid, kThird.tid);
  EXPECT_EQ(stall.parts[0].causes[1].sure, Sure::kMeasured);
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"task.cpu 4251 30000000 measured", "task.cpu 4250 20000000 inferred"}));
}

// Who waits for a lock does not hold it, whatever it did when the other's wait began: else three
// that take turns would all wait for each other.
TEST(Lock, IsNotHeldByOneThatWaitsForIt) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  events.wait(kOther, ms(30), ms(58), ms(58))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kThird)
      .woken_by(kThird);
  events.call(kThird, wire::CALL_WRITE, ms(7), ms(61), wire::CALL_WANTED);
  events.call(kOther, wire::CALL_WRITE, ms(7), ms(61), wire::CALL_WANTED);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  const Causes& causes = stall.parts[0].causes;
  ASSERT_EQ(causes.size(), 3U);
  EXPECT_EQ(causes[0].task.tid, kOther.tid);
  EXPECT_EQ(causes[0].ns, 20 * kMs);
  EXPECT_EQ(causes[1].task.tid, kThird.tid);
  EXPECT_EQ(causes[1].ns, 28 * kMs);
  EXPECT_EQ(causes[2].task.tid, kOther.tid);
  EXPECT_EQ(causes[2].ns, 2 * kMs);
}

// That the same task had it at the beginning and at the end does not mean that it had it
// throughout.
TEST(Lock, HeldByOneAgainAfterAnother) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  events.wait(kThird, ms(8), ms(12), ms(12))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  events.call(kThird, wire::CALL_WRITE, ms(7), ms(58), wire::CALL_WANTED);
  events.call(kOther, wire::CALL_WRITE, ms(58), ms(61), wire::CALL_WANTED);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts[0].causes.size(), 3U);
  EXPECT_EQ(stall.parts[0].causes[0].task.tid, kOther.tid);
  EXPECT_EQ(stall.parts[0].causes[1].task.tid, kThird.tid);
  EXPECT_EQ(stall.parts[0].causes[1].ns, 46 * kMs);
  EXPECT_EQ(stall.parts[0].causes[2].task.tid, kOther.tid);
}

// Who gives the file position up at the end may have had it for an lseek only, and who wrote before
// has written again. The writer's call after that is what kept it.
TEST(Lock, OfTheFilePositionIsTheNextWritersAgain) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(10), ms(60)).ino = 1311;
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack({"fdget_pos", "ksys_write"})
      .lock(kLock, wire::LCB_MUTEX, 0)
      .owner(kOther)
      .woken_by(kHog);
  events.waits.back().ino = 1311;
  events.call(kOther, wire::CALL_WRITE, ms(5), ms(20), wire::CALL_WANTED).ino = 1311;
  events.call(kOther, wire::CALL_WRITE, ms(20), ms(59), wire::CALL_WANTED).ino = 1311;
  events.wait(kOther, ms(21), ms(58), ms(58))
      .stack(WRITEBACK_STACK)
      .request(1, 800, ms(21), ms(21), ms(58));
  events.request(1, 800, ms(21), ms(21), ms(58));
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(roots_of(stall.roots).at(0), "device.write loop0 37000000 guess");
}

// A waiter that was woken and sleeps for the lock again has not had it.
TEST(Lock, IsNotTakenByWhoSleepsForItAgain) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  events.wait(kThird, ms(8), ms(30), ms(30))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  events.wait(kThird, ms(34), ms(70), ms(70))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .flags(wire::WAIT_LOCK_AGAIN)
      .woken_by(kFio);
  events.call(kOther, wire::CALL_WRITE, ms(7), ms(61), wire::CALL_WANTED);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  ASSERT_EQ(stall.parts[0].causes.size(), 1U);
  EXPECT_EQ(stall.parts[0].causes[0].task.tid, kOther.tid);
}

TEST(Lock, WithTheWakerOnlyIsInferred) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60)).stack(INODE_WRITE_STACK).woken_by(kOther);
  events.wait(kOther, ms(10), ms(60), ms(60)).stack(BATCH_STACK);
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].causes.at(0).sure, Sure::kInferred);
  EXPECT_EQ(roots_of(stall.roots), (Lines{"knob 4250 50000000 inferred"}));
}

TEST(Lock, OfReadersNamesNoStaleTask) {
  Events events;
  events.call(kFio, wire::CALL_TRUNCATE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .readers()
      .owner(kHog)  // whoever read last: says nothing
      .woken_by(kOther);
  events.wait(kOther, ms(20), ms(50), ms(50))
      .stack(DIO_STACK)
      .request(1, 800, ms(20), ms(20), ms(50));
  model::Trace trace = events.trace(ms(0), ms(100));
  Stall stall = only_stall(trace);
  const Cause& held = stall.parts[0].causes.at(0);
  EXPECT_EQ(held.sure, Sure::kInferred);
  EXPECT_TRUE(held.text.starts_with("readers held the lock; the last to leave was fio[4250]"));
  EXPECT_EQ(roots_of(stall.roots),
            (Lines{"device.write loop0 30000000 inferred", "readers 20000000 inferred"}));
}

TEST(Lock, OfReadersThatWereNotSeenIsReaders) {
  Events events;
  events.call(kFio, wire::CALL_TRUNCATE, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .readers();
  model::Trace trace = events.trace();
  EXPECT_EQ(roots_of(only_stall(trace).roots), (Lines{"readers 50000000 inferred"}));
}

TEST(Lock, WhoseHolderWasNotWatchedIsUnexplained) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  model::Trace trace = events.trace();
  Stall stall = only_stall(trace);
  EXPECT_EQ(stall.parts[0].causes.at(0).causes.at(0).text,
            "what fio[4250] did then was not recorded");
  EXPECT_EQ(roots_of(stall.roots), (Lines{"unexplained 50000000 guess"}));
}

TEST(Lock, LeadsThroughItsHolderToTheJournal) {
  Events events;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(60));
  events.wait(kFio, ms(10), ms(60), ms(60))
      .stack(INODE_WRITE_STACK)
      .lock(kLock, wire::LCB_WRITE, 1311)
      .owner(kOther)
      .woken_by(kOther);
  events.wait(kOther, ms(9), ms(59), ms(60)).stack(LOCKED_STACK).woken_by(kJbd).ran_before(kHog);
  events.commit(7, kJbd, {0, ms(8), ms(9), ms(59), ms(60), ms(61), ms(62), ms(63)});
  events.wait(kJbd, ms(9), ms(59), ms(59))
      .stack(JBD_HANDLES_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD)
      .woken_by(kThird);
  events.handle(kThird, 7, 2, ms(7), ms(59));
  events.wait(kThird, ms(8), ms(58), ms(59)).stack(TAG_STACK).request(1, 8, ms(1), ms(2), ms(58));
  events.flush(ms(3), ms(4), ms(57));
  model::Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(roots_of(only_stall(trace).roots),
            (Lines{"device.flush loop0 47000000 measured", "device.write loop0 1000000 measured",
                   "task.runnable 1000000 measured", "task.runnable 99 1000000 measured"}));
}

}  // namespace
}  // namespace stalltrace::blame

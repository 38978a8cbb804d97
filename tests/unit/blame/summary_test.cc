#include "userspace/blame/summary.h"

#include "tests/unit/blame/checks.h"
#include "userspace/blame/culprits.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)
using kernel::WaitClass;
using Lines = std::vector<std::string>;

TEST(Summary, AddsUpWaitsRootsAndCulprits) {
  Events events;
  for (const TaskId& victim : {kFio, kThird}) {
    events.call(victim, wire::CALL_WRITE, ms(10), ms(60));
    events.wait(victim, ms(10), ms(50), ms(60))
        .stack(INODE_WRITE_STACK)
        .lock(0xa0, wire::LCB_WRITE, 1311)
        .owner(kOther)
        .woken_by(kOther)
        .ran_before(kHog);
  }
  auto& holder = events.call(kOther, wire::CALL_FSYNC, ms(5), ms(51), wire::CALL_WANTED);
  holder.ino = 1311;
  set_path(holder, {"f", "/"});
  events.wait(kOther, ms(10), ms(50), ms(50)).stack(FLUSH_STACK);
  Events::member(events.flush(ms(10), ms(10), ms(50)), kOther, ms(10));
  model::Trace trace = events.trace(ms(0), ms(100));
  Culprits gathered(trace);
  std::vector<Stall> stalls =
      explain_all(trace, 0, [&](const Stall& stall) { gathered.add(stall); });
  ASSERT_EQ(stalls.size(), 2U);
  std::vector<CulpritSum> culprits = std::move(gathered).take();
  Summary summary = summarize(trace, stalls);

  ASSERT_EQ(summary.waits.size(), 2U);
  EXPECT_EQ(summary.waits[0].wait_class, WaitClass::kLockInode);
  EXPECT_EQ(summary.waits[0].dev, kDisk);
  EXPECT_EQ(summary.waits[0].ns, 80 * kMs);
  EXPECT_EQ(summary.waits[0].stalls, 2U);
  EXPECT_EQ(summary.waits[1].wait_class, WaitClass::kCpuWait);
  EXPECT_EQ(summary.waits[1].ns, 20 * kMs);

  ASSERT_EQ(summary.roots.size(), 2U);
  EXPECT_EQ(summary.roots[0].kind, RootKind::kDeviceFlush);
  EXPECT_EQ(summary.roots[0].dev, kDisk);
  EXPECT_EQ(summary.roots[0].ns, 80 * kMs);
  EXPECT_EQ(summary.roots[0].stalls, 2U);

  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].task.tid, kOther.tid);
  EXPECT_EQ(culprits[0].what, "held a lock");
  EXPECT_EQ(culprits[0].path, "/mnt/f");
  EXPECT_EQ(culprits[0].others_ns, 80 * kMs);
  EXPECT_EQ(culprits[0].stalls, 2U);

  ASSERT_EQ(summary.locks.size(), 1U);
  const LockSum& lock = summary.locks[0];
  EXPECT_EQ(lock.ino, 1311U);
  EXPECT_EQ(lock.dev, kDisk);
  EXPECT_EQ(lock.path, "/mnt/f");
  EXPECT_TRUE(lock.write);
  EXPECT_EQ(lock.waits, 2U);
  EXPECT_EQ(lock.ns, 80 * kMs);
  EXPECT_EQ(lock.max_ns, 40 * kMs);
  ASSERT_EQ(lock.holders.size(), 1U);
  EXPECT_EQ(lock.holders[0].doing, "fsync, itself waiting 40.0 ms in block.flush");
  EXPECT_EQ(lock.holders[0].ns, 80 * kMs);
}

TEST(Summary, CommitPhasesAddUpToTheTotal) {
  Events events;
  events.commit(1, kJbd, {ms(1), ms(2), ms(4), ms(14), ms(15), ms(35), ms(75), ms(76)});
  // The journal thread's last sleep for handles tells where that phase ended.
  events.wait(kJbd, ms(4), ms(12), ms(13))
      .stack(JBD_HANDLES_STACK)
      .flags(wire::WAIT_JOURNAL_THREAD);
  events.commit(2, kJbd, {0, 0, 0, 0, 0, 0, 0, ms(80)}).flags = wire::COMMIT_CUT_START;
  events.commit(3, kJbd, {0, ms(90), 0, 0, 0, 0, 0, 0}).flags = wire::COMMIT_UNFINISHED;
  model::Trace trace = events.trace(ms(0), ms(100));
  Summary summary = summarize(trace, {});
  ASSERT_EQ(summary.commits.size(), 1U);
  const CommitSum& sum = summary.commits[0];
  EXPECT_EQ(sum.dev, kDisk);
  EXPECT_EQ(sum.fs_dev, kPart);
  EXPECT_EQ(sum.count, 2U);  // that which was cut counts, its phases do not
  EXPECT_EQ(sum.phases_ns.at("commit.checkpoint").max_ns, 1 * kMs);
  EXPECT_EQ(sum.phases_ns.at("commit.handles").max_ns, 8 * kMs);
  EXPECT_EQ(sum.phases_ns.at("commit.data").max_ns, 1 * kMs);
  EXPECT_EQ(sum.phases_ns.at("commit.log").max_ns, 20 * kMs);
  EXPECT_EQ(sum.phases_ns.at("commit.record").max_ns, 40 * kMs);
  EXPECT_EQ(sum.phases_ns.at("commit.run").max_ns, 5 * kMs);
  EXPECT_EQ(sum.phases_ns.at("total").max_ns, 75 * kMs);
  EXPECT_EQ(sum.phases_ns.at("total").count, 1U);
}

TEST(Summary, CountsTheSyncsThatShareACommit) {
  Events events;
  events.commit(7, kJbd, {0, ms(10), ms(11), ms(12), ms(13), ms(14), ms(19), ms(20)});
  events.commit(8, kJbd, {0, ms(30), ms(31), ms(32), ms(33), ms(34), ms(39), ms(40)});
  events.sync(kFio, ms(9), ms(21), 7, wire::SYNC_COMMIT_WOKE);
  events.sync(kOther, ms(10), ms(22), 7, wire::SYNC_COMMIT_WOKE);
  events.sync(kThird, ms(12), ms(13), 7);  // found it committed, or did not need it
  model::Trace trace = events.trace(ms(0), ms(100));
  Summary summary = summarize(trace, {});
  ASSERT_EQ(summary.commits.size(), 1U);
  EXPECT_EQ(summary.commits[0].syncs.count, 2U);
  EXPECT_DOUBLE_EQ(summary.commits[0].syncs.mean_ns, 1.0);
  EXPECT_EQ(summary.commits[0].syncs.max_ns, 2U);
}

TEST(Summary, CountsFlushesAndTheirCallers) {
  Events events;
  auto& shared = events.flush(ms(10), ms(15), ms(35));
  Events::member(shared, kFio, ms(10));
  Events::member(shared, kOther, ms(12));
  Events::member(events.flush(ms(40), ms(40), ms(50)), kFio, ms(40));
  events.flush(ms(60), ms(61), 0).flags = wire::FLUSH_UNFINISHED;
  model::Trace trace = events.trace(ms(0), ms(100));
  Summary summary = summarize(trace, {});
  ASSERT_EQ(summary.flushes.size(), 1U);
  EXPECT_EQ(summary.flushes[0].count, 2U);
  EXPECT_DOUBLE_EQ(summary.flushes[0].callers.mean_ns, 1.5);
  EXPECT_EQ(summary.flushes[0].queue_ns.max_ns, 5 * kMs);
  EXPECT_EQ(summary.flushes[0].device_ns.max_ns, 20 * kMs);
}

TEST(Summary, SplitsAsynchronousRequests) {
  Events events;
  // Submitted slowly: 10 ms for the journal, 2 ms of running; then queued, behind a flush.
  events.async(kFio, ms(10), ms(22), ms(25), ms(80), ms(80) + 5 * kUs).user_id = 42;
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(23));
  events.wait(kFio, ms(10), ms(20), ms(20)).stack(BATCH_STACK);
  events.flush(ms(20), ms(20), ms(75));
  events.async(kFio, ms(90), 0, 0, 0, 0).flags = wire::ASYNC_UNFINISHED | wire::ASYNC_URING;
  model::Trace trace = events.trace(ms(0), ms(100));
  Summary summary = summarize(trace, explain_all(trace));
  ASSERT_EQ(summary.asyncs.size(), 2U);
  const AsyncSum& sum = summary.asyncs[0];
  EXPECT_FALSE(sum.uring);
  EXPECT_EQ(sum.user_id, 42U);
  EXPECT_EQ(sum.ns, 70 * kMs + 5 * kUs);
  EXPECT_TRUE(sum.split);
  EXPECT_EQ(sum.submit_ns, 12 * kMs);
  EXPECT_EQ(sum.queue_ns, 3 * kMs);
  EXPECT_EQ(sum.device_ns, 55 * kMs);
  EXPECT_EQ(sum.complete_ns, 5 * kUs);
  EXPECT_EQ(roots_of(sum.roots),
            (Lines{"device.flush loop0 53000000 measured", "knob 4242 10000000 measured",
                   "device.write loop0 5000000 measured", "self 4242 2000000 measured",
                   "unexplained 5000 guess"}));
  EXPECT_TRUE(summary.asyncs[1].uring);
  EXPECT_TRUE(summary.asyncs[1].unfinished);
  EXPECT_FALSE(summary.asyncs[1].split);
  EXPECT_EQ(summary.asyncs[1].ns, 10 * kMs);
}

TEST(Summary, FollowsARawDevicesWriteIntoTheFlushBehindItsData) {
  Events events;
  events.async(kFio, ms(10), ms(10), ms(10), ms(50), ms(50));
  events.call(kFio, wire::CALL_IO_SUBMIT, ms(10), ms(11));
  // One that does not hold up data: the write is done at 12 ms, its flush has to wait for it.
  auto& ahead = events.flush(ms(5), ms(5), ms(30));
  ahead.overtaken_ns = ms(12);
  ahead.overtaken = 1;
  Events::member(ahead, kOther, ms(5));
  auto& own = events.flush(ms(12), ms(30), ms(50));
  Events::member(own, kFio, ms(12), 0, true);
  model::Trace trace = events.trace(ms(0), ms(100));
  Summary summary = summarize(trace, explain_all(trace));
  ASSERT_EQ(summary.asyncs.size(), 1U);
  EXPECT_EQ(roots_of(summary.asyncs[0].roots), (Lines{"device.flush loop0 40000000 measured"}));
}

TEST(Summary, CountsStallsThatFoldedShortSleeps) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(0), ms(100)).short_blocked_ns = 20 * kMs;
  events.call(kOther, wire::CALL_WRITE, ms(0), ms(100)).short_blocked_ns = 5 * kMs;
  events.wait(kThird, ms(9), ms(8), ms(7));
  model::Trace trace = events.trace();
  Summary summary = summarize(trace, explain_all(trace));
  EXPECT_EQ(summary.folded_stalls, 1U);
  EXPECT_EQ(summary.odd_events, 1U);
}

// An extent that a worker converts when the data has come, and what that worker waits for.
TEST(Summary, WhatEndsAnAsyncRequestIsFollowed) {
  Events events;
  events.async(kFio, ms(10), ms(10), ms(10), ms(50), ms(90)).completer = kOther.wire();
  events.request(1, 800, ms(10), ms(10), ms(50));
  events.wait(kOther, ms(55), ms(85), ms(86)).stack(COMMIT_STACK).woken_by(kJbd);
  events.commit(7, kJbd, {0, ms(55), ms(55), ms(55), ms(55), ms(55), ms(84), ms(85)});
  Events::member(events.flush(ms(55), ms(55), ms(84)), kJbd, ms(55), 7, true);
  events.wait(kJbd, ms(55), ms(84), ms(84)).stack(JBD_IO_STACK).flags(wire::WAIT_JOURNAL_THREAD);
  Summary summary = summarize(events.trace(ms(0), ms(100)), {});
  ASSERT_EQ(summary.asyncs.size(), 1U);
  uint64_t unexplained_ns = 0, flush_ns = 0;
  for (const Root& root : summary.asyncs[0].roots) {
    if (root.kind == RootKind::kUnexplained) unexplained_ns += root.ns;
    if (root.kind == RootKind::kDeviceFlush) flush_ns += root.ns;
  }
  EXPECT_EQ(unexplained_ns, 0U);
  EXPECT_GE(flush_ns, 29 * kMs);
}

}  // namespace
}  // namespace stalltrace::blame

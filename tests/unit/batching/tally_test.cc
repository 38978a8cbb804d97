#include "userspace/batching/tally.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/model/builder.h"
#include "userspace/batching/figures.h"

namespace stalltrace::batching {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)

constexpr TaskId kThread{80, "jbd2/loop0-8"};
constexpr TaskId kOne{101, "one"};
constexpr TaskId kTwo{102, "two"};
constexpr TaskId kMkfs{103, "mkfs"};

// Two syncs share commit 5, whose record takes two flushes; a third needs only a flush.
Events two_share_a_commit() {
  Events events;
  auto& commit =
      events.commit(5, kThread, {ms(10), ms(10), ms(11), ms(12), ms(13), ms(20), ms(44), ms(45)});
  commit.requester = kOne.wire();
  commit.average_ns = 30 * kMs;
  events.sync(kOne, ms(9), ms(46), 5, wire::SYNC_COMMIT_WOKE);
  events.sync(kTwo, ms(12), ms(46), 5, wire::SYNC_COMMIT_WOKE);
  Events::member(events.flush(ms(20), ms(20), ms(30)), kThread, ms(20), 5, true);
  Events::member(events.flush(ms(31), ms(31), ms(41)), kThread, ms(31), 5, true);
  events.sync(kOne, ms(60), ms(72), 5).flush_ns = ms(61);
  Events::member(events.flush(ms(61), ms(61), ms(71)), kOne, ms(61));
  return events;
}

TEST(Tally, CountsEachSyncOnceUnderWhatItNeeded) {
  Events events = two_share_a_commit();
  events.sync(kTwo, ms(80), ms(81), 5);
  events.sync(kTwo, ms(82), ms(84), 6, wire::SYNC_FAST_COMMIT);
  events.sync(kTwo, ms(85), ms(95), 5, wire::SYNC_COMMIT_WOKE).flush_ns = ms(90);
  Tally tally = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  EXPECT_EQ(tally.syncs.with_commit, 3U);
  EXPECT_EQ(tally.syncs.own_flush, 1U);
  EXPECT_EQ(tally.syncs.fast_commit, 1U);
  EXPECT_EQ(tally.syncs.flush_only, 1U);
  EXPECT_EQ(tally.syncs.nothing_to_do, 1U);
  EXPECT_EQ(tally.syncs.all(), 6U);
}

TEST(Tally, AnotherFileSystemsSyncsAreNotOurs) {
  Events events = two_share_a_commit();
  events.sync(kTwo, ms(80), ms(81), 5, wire::SYNC_COMMIT_WOKE).dev = kDecoy;
  Tally tally = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  EXPECT_EQ(tally.syncs.all(), 3U);
}

TEST(Tally, SharesOutWhatACommitWroteAmongThoseWhoDirtiedIt) {
  constexpr TaskId kWorker{104, "kworker/u4:1"};
  Events events = two_share_a_commit();
  events.commits.back().data_bytes = 8192;
  events.commits.back().data_ino = 70;
  events.commits.back().data_inodes = 1;
  events.syncs[0].ino = 60;
  events.syncs[0].data_bytes = 4096;
  events.syncs[1].ino = 70;
  events.dirtied(kOne, 5, 3, 60, "one.dat");
  events.dirtied(kTwo, 5, 4, 70, "two.dat");
  events.dirtied(kOne, 5, 2);                    // in two events, as one who works on two disks
  events.dirtied(kWorker, 5, 6, 60, "one.dat");  // writes one.dat back
  events.dirtied(kTwo, 6, 50);                   // of a transaction that was not committed
  Tally tally = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  EXPECT_EQ(tally.paid.syncs, 2U);  // the third waited for no commit
  EXPECT_EQ(tally.paid.own_blocks, (3U + 2U + 6U) + 4U);
  EXPECT_EQ(tally.paid.others_blocks, 4U + (3U + 2U + 6U));
  EXPECT_EQ(tally.paid.own_bytes, 4096U + 8192U);
  EXPECT_EQ(tally.paid.others_bytes, 8192U);
  ASSERT_EQ(tally.dirtiers.size(), 3U);
  EXPECT_EQ(tally.dirtiers[0].task.tid, kWorker.tid);
  EXPECT_EQ(tally.dirtiers[1].task.tid, kOne.tid);
  EXPECT_EQ(tally.dirtiers[1].blocks, 5U);
  EXPECT_EQ(tally.dirtiers[1].path, "/mnt/one.dat");
  EXPECT_EQ(tally.dirtiers[2].path, "/mnt/two.dat");
  Tally twice = tally;
  twice += tally;
  ASSERT_EQ(twice.dirtiers.size(), 3U);
  EXPECT_EQ(twice.dirtiers[0].blocks, 12U);
  EXPECT_EQ(twice.dirtiers[0].commits, 2U);
}

TEST(Tally, TellsFlushesByWhatAskedForThem) {
  Events events = two_share_a_commit();
  // The log's tail is moved on: a bare flush of the journal thread, before the record.
  Events::member(events.flush(ms(14), ms(14), ms(15)), kThread, ms(14), 5, false);
  Events::member(events.flush(ms(75), ms(75), ms(76)), kMkfs, ms(75));
  // A commit's and a stranger's request in one flush: it is the commit's.
  auto& shared = events.flush(ms(77), ms(77), ms(78));
  Events::member(shared, kMkfs, ms(77));
  Events::member(shared, kThread, ms(77), 5, true);
  events.wait(kTwo, ms(86), ms(89), ms(89))
      .stack({"submit_bio_wait", "blkdev_issue_flush", "jbd2_cleanup_journal_tail",
              "__jbd2_log_wait_for_space", "add_transaction_credits"});
  Events::member(events.flush(ms(86), ms(87), ms(88)), kTwo, ms(86));
  Tally tally = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  auto count = [&](FlushOrigin origin) { return tally.flushes[static_cast<size_t>(origin)]; };
  EXPECT_EQ(count(FlushOrigin::kCommit), 3U);
  EXPECT_EQ(count(FlushOrigin::kSync), 1U);
  EXPECT_EQ(count(FlushOrigin::kLogTail), 1U);
  EXPECT_EQ(count(FlushOrigin::kCheckpoint), 1U);
  EXPECT_EQ(count(FlushOrigin::kForeign), 1U);
  EXPECT_EQ(count(FlushOrigin::kTimer), 0U);
  EXPECT_EQ(tally.flushes_for_syncs(), 4U);
}

TEST(Tally, ATimersCommitThatNobodyWaitsForIsLeftOut) {
  Events events;
  events.commit(6, kThread, {ms(10), ms(10), ms(11), ms(12), ms(13), ms(20), ms(29), ms(30)});
  Events::member(events.flush(ms(20), ms(20), ms(28)), kThread, ms(20), 6, true);
  Tally alone = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  EXPECT_EQ(alone.commits, 0U);
  EXPECT_EQ(alone.timer_commits, 1U);
  EXPECT_EQ(alone.flushes[static_cast<size_t>(FlushOrigin::kTimer)], 1U);
  events.sync(kOne, ms(15), ms(31), 6, wire::SYNC_COMMIT_WOKE);
  Tally waited_for = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  EXPECT_EQ(waited_for.commits, 1U);
  EXPECT_EQ(waited_for.flushes[static_cast<size_t>(FlushOrigin::kCommit)], 1U);
}

// A handle stopped after the transaction's time was up asks for its commit, and goes on.
TEST(Tally, ACommitThatATaskAsksForOutsideASyncIsNobodysUnlessOneWaits) {
  Events events;
  auto& commit =
      events.commit(6, kThread, {ms(10), ms(10), ms(11), ms(12), ms(13), ms(20), ms(29), ms(30)});
  commit.requester = kTwo.wire();
  Events::member(events.flush(ms(20), ms(20), ms(28)), kThread, ms(20), 6, true);
  Tally by_a_sync = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  EXPECT_EQ(by_a_sync.commits, 1U);
  commit.flags |= wire::COMMIT_OUTSIDE_SYNC;
  Tally alone = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  EXPECT_EQ(alone.commits, 0U);
  EXPECT_EQ(alone.timer_commits, 1U);
  EXPECT_EQ(alone.flushes[static_cast<size_t>(FlushOrigin::kTimer)], 1U);
  events.sync(kOne, ms(15), ms(31), 6, wire::SYNC_COMMIT_WOKE);
  Tally waited_for = tally_of(events.trace(ms(0), ms(100)), kPart, {kDisk});
  EXPECT_EQ(waited_for.commits, 1U);
  EXPECT_EQ(waited_for.flushes[static_cast<size_t>(FlushOrigin::kCommit)], 1U);
}

TEST(Tally, IdleIsWhereASyncWaitsAndNoFlushIsUnderWay) {
  Tally tally = tally_of(two_share_a_commit().trace(ms(0), ms(100)), kPart, {kDisk});
  // 9..20, 30..31, 41..46 of the two; 60..61, 71..72 of the third
  EXPECT_EQ(tally.idle_ns, (std::vector<uint64_t>{11 * kMs, 1 * kMs, 5 * kMs, 1 * kMs, 1 * kMs}));
}

TEST(SyncParts, AddUpToTheSync) {
  Events events;
  events.commit(5, kThread, {ms(5), ms(5), ms(6), ms(7), ms(8), ms(10), ms(19), ms(20)});
  events.commit(6, kThread, {ms(20), ms(21), ms(22), ms(23), ms(24), ms(30), ms(44), ms(45)});
  auto& sync = events.sync(kOne, ms(10), ms(60), 6, wire::SYNC_COMMIT_WOKE);
  sync.flush_ns = ms(46);
  Events::member(events.flush(ms(46), ms(50), ms(59)), kOne, ms(46));
  model::Trace trace = events.trace(ms(0), ms(100));
  SyncTimes parts = parts_of(trace, trace.syncs()[0]);
  auto part = [&](SyncPart which) { return parts[static_cast<size_t>(which)] / kMs; };
  EXPECT_EQ(part(SyncPart::kCommitBefore), 10U);  // 10..20
  EXPECT_EQ(part(SyncPart::kOwnCommit), 25U);     // 20..45, from its request on
  EXPECT_EQ(part(SyncPart::kFlushInFlight), 4U);  // 46..50
  EXPECT_EQ(part(SyncPart::kOwnFlush), 9U);       // 50..59
  EXPECT_EQ(part(SyncPart::kOther), 2U);          // 45..46, 59..60
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), uint64_t{0}), 50 * kMs);
}

TEST(SyncParts, TellHowTheCommitWasMet) {
  Events events;
  events.commit(5, kThread, {ms(5), ms(5), ms(6), ms(7), ms(8), ms(10), ms(19), ms(20)});
  events.commit(6, kThread, {ms(30), ms(30), ms(32), ms(33), ms(34), ms(35), ms(44), ms(45)});
  events.sync(kOne, ms(10), ms(46), 6, wire::SYNC_COMMIT_WOKE);  // while 5 is committed
  events.sync(kTwo, ms(25), ms(47), 6, wire::SYNC_COMMIT_WOKE);  // between the two
  events.sync(kMkfs, ms(40), ms(48), 6, wire::SYNC_COMMIT_WOKE);
  events.sync(kMkfs, ms(60), ms(61), 6);
  model::Trace trace = events.trace(ms(0), ms(100));
  std::vector<std::optional<Joined>> joined;
  for (const model::Sync& sync : trace.syncs()) joined.push_back(joined_by(trace, sync));
  EXPECT_EQ(joined, (std::vector<std::optional<Joined>>{Joined::kNext, Joined::kRunning,
                                                        Joined::kCommitting, std::nullopt}));
}

TEST(Figures, TheRateIsTheProductOfItsFactors) {
  Tally tally = tally_of(two_share_a_commit().trace(ms(0), ms(100)), kPart, {kDisk});
  tally.ns = 100 * kMs;
  Rates rates = rates_of(tally);
  EXPECT_DOUBLE_EQ(rates.syncs_per_s.value(), 30);
  EXPECT_DOUBLE_EQ(rates.flushes_per_s.value(), 30);
  EXPECT_DOUBLE_EQ(rates.syncs_per_commit.value(), 1.5);         // 3 for a commit and a flush
  EXPECT_DOUBLE_EQ(rates.commits_per_flush.value(), 2.0 / 3.0);  // the record took two
  EXPECT_DOUBLE_EQ(*rates.syncs_per_commit * *rates.commits_per_flush * *rates.flushes_per_s,
                   *rates.syncs_per_s);
}

TEST(Figures, TheGainIsTheProductOfItsFactors) {
  Tally one;
  one.ns = kSecond;
  one.syncs.with_commit = one.commits = 25;
  one.flushes[0] = 50;
  Tally eight = one;
  eight.syncs.with_commit = 100;
  eight.flushes[0] = 40;
  Gain gain = gain_of(eight, one);
  ASSERT_TRUE(gain.factors);
  EXPECT_DOUBLE_EQ(gain.of_syncs.value(), 4);
  EXPECT_DOUBLE_EQ(gain.factors->commit_sharing, 4);
  EXPECT_DOUBLE_EQ(gain.factors->flush_sharing, 1.25);
  EXPECT_DOUBLE_EQ(gain.factors->flush_rate, 0.8);
}

TEST(Figures, AFactorThatDoesNotApplyIsSaid) {
  Tally none;
  none.ns = kSecond;
  none.syncs.with_commit = none.commits = 25;
  Gain gain = gain_of(none, none);
  EXPECT_FALSE(gain.factors);
  EXPECT_NE(gain.missing.find("no flush"), std::string::npos) << gain.missing;
}

TEST(Figures, WithoutAFlushTheGainIsSharingTimesCommits) {
  Tally one;
  one.ns = kSecond;
  one.syncs.with_commit = one.commits = 600;
  Tally eight;
  eight.ns = kSecond;
  eight.syncs.with_commit = 2000;
  eight.commits = 800;
  Gain gain = gain_of(eight, one);
  ASSERT_TRUE(gain.without_flush);
  EXPECT_DOUBLE_EQ(gain.without_flush->commit_sharing, 2.5);
  EXPECT_DOUBLE_EQ(gain.without_flush->commit_rate, 800.0 / 600);
  EXPECT_DOUBLE_EQ(gain.without_flush->commit_sharing * gain.without_flush->commit_rate,
                   gain.of_syncs.value());
}

// A figure of which a part was not seen would be wrong, not small.
TEST(Figures, WhatWasNotSeenIsNoFigure) {
  struct Case {
    const char* hook;
    bool syncs, requests, flushes, idle;  // known
  };
  for (const Case& one : {Case{"ext4_sync_file_enter", false, false, true, false},
                          Case{"ext4_sync_fs", false, false, true, false},
                          Case{"jbd2_end_commit", true, false, true, true},
                          Case{"block_bio_queue", true, false, false, true},
                          Case{"block_rq_complete", true, true, false, false}}) {
    Tally tally = tally_of(two_share_a_commit().trace(ms(0), ms(100)), kPart, {kDisk});
    tally.ns = 100 * kMs;
    tally.unseen = unseen_without({{one.hook, "it is off"}});
    Rates rates = rates_of(tally);
    EXPECT_EQ(rates.syncs_per_s.has_value(), one.syncs) << one.hook;
    EXPECT_EQ(rates.syncs_per_commit.has_value(), one.requests) << one.hook;
    EXPECT_EQ(rates.flushes_per_s.has_value(), one.flushes) << one.hook;
    EXPECT_EQ(rates.commits_per_flush.has_value(), one.requests && one.flushes) << one.hook;
    EXPECT_EQ(idle_share(tally).has_value(), one.idle) << one.hook;
    Gain gain = gain_of(tally, tally);
    EXPECT_FALSE(gain.factors) << one.hook;
    EXPECT_NE(gain.missing.find(one.hook), std::string::npos) << gain.missing;
  }
  EXPECT_TRUE(unseen_without({{"contention_begin", "it is off"}}).reasons.empty());
}

}  // namespace
}  // namespace stalltrace::batching

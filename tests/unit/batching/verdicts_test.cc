#include "userspace/batching/verdicts.h"

#include <gtest/gtest.h>

namespace stalltrace::batching {
namespace {

Tally loop_of(uint64_t syncs, uint64_t commits, uint64_t flushes) {
  Tally tally;
  tally.ns = 1'000'000'000;
  tally.files = syncs;  // each file is synced once
  tally.syncs.with_commit = syncs;
  tally.commits = commits;
  tally.flushes[0] = flushes;
  return tally;
}

const Verdict* about(const std::vector<Verdict>& verdicts, const std::string& what) {
  for (const Verdict& verdict : verdicts) {
    if (verdict.about == what) return &verdict;
  }
  return nullptr;
}

TEST(Verdicts, NameWhatTheGainComesFrom) {
  std::vector<Rung> rungs{{.device = "",
                           .threads = 1,
                           .setting = "",
                           .reference = "",
                           .sync = "fsync",
                           .knobs = {},
                           .bounds = {},
                           .loops = {loop_of(25, 25, 50), loop_of(25, 25, 50)}},
                          {.device = "",
                           .threads = 8,
                           .setting = "",
                           .reference = "",
                           .sync = "fsync",
                           .knobs = {},
                           .bounds = {},
                           .loops = {loop_of(100, 25, 50), loop_of(100, 25, 50)}}};
  const auto verdicts = verdicts_of(rungs);
  const Verdict* gain = about(verdicts, "gain of 8 threads");
  ASSERT_NE(gain, nullptr);
  EXPECT_DOUBLE_EQ(gain->effect.ratio, 4);
  EXPECT_NE(gain->text.find("x4.00 by shared commits, x1.00 by shared flushes"), std::string::npos)
      << gain->text;
}

TEST(Verdicts, NoEffectIsAVerdict) {
  std::vector<Rung> rungs;
  for (const char* setting : {"max_batch_time=0", "max_batch_time=15000"}) {
    rungs.push_back(
        {.device = "",
         .threads = 4,
         .setting = setting,
         .reference = "max_batch_time=0",
         .sync = "fsync",
         .knobs = {},
         .bounds = {},
         .loops = {loop_of(100, 50, 100), loop_of(101, 50, 100), loop_of(99, 50, 100)}});
  }
  const auto verdicts = verdicts_of(rungs);
  const Verdict* knob = about(verdicts, "max_batch_time=15000, 4 threads");
  ASSERT_NE(knob, nullptr);
  EXPECT_NE(knob->text.find("no effect"), std::string::npos) << knob->text;
  EXPECT_EQ(about(verdicts, "max_batch_time=0, 4 threads"), nullptr);
}

TEST(Verdicts, WhereNoFlushReachesTheDeviceThereIsNoneToWin) {
  Rung one{.device = "ssd-plp",
           .threads = 1,
           .setting = "",
           .reference = "",
           .sync = "fsync",
           .knobs = {},
           .bounds = {},
           .loops = {loop_of(600, 600, 0), loop_of(610, 610, 0)}};
  Rung eight = one;
  eight.threads = 8;
  eight.loops = {loop_of(1800, 900, 0), loop_of(1830, 915, 0)};
  const auto verdicts = verdicts_of({one, eight});
  const Verdict* device = about(verdicts, "batching on ssd-plp");
  ASSERT_NE(device, nullptr);
  EXPECT_NE(device->text.find("no flush to share"), std::string::npos) << device->text;
  EXPECT_DOUBLE_EQ(device->effect.ratio, 1);
  const Verdict* software = about(verdicts, "commits shared on ssd-plp");
  ASSERT_NE(software, nullptr);
  EXPECT_DOUBLE_EQ(software->effect.ratio, 2);
  ASSERT_TRUE(software->effect.low);
  EXPECT_NEAR(*software->effect.low, 2, 1e-6);
}

TEST(Verdicts, WhatWasNotSeenHasNone) {
  Rung one{.device = "",
           .threads = 1,
           .setting = "",
           .reference = "",
           .sync = "fsync",
           .knobs = {},
           .bounds = {},
           .loops = {loop_of(25, 25, 50)}};
  one.loops.front().unseen = unseen_without({{"ext4_sync_file_enter", "it is off"}});
  Rung eight = one;
  eight.threads = 8;
  eight.loops.front().files = 100;
  const auto verdicts = verdicts_of({one, eight});
  const Verdict* gain = about(verdicts, "gain of 8 threads");
  ASSERT_NE(gain, nullptr);
  EXPECT_DOUBLE_EQ(gain->effect.ratio, 4);  // files are the load's own count
  EXPECT_NE(gain->text.find("not seen: syncs of files"), std::string::npos) << gain->text;
  EXPECT_EQ(about(verdicts, "time lost to waiting, 8 threads"), nullptr);
}

}  // namespace
}  // namespace stalltrace::batching

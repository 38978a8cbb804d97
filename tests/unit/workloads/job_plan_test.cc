#include "workloads/job_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "workloads/job_pace.h"
#include "workloads/skewed_order.h"

namespace stalltrace::workloads {
namespace {

JobSpec job_of(Pattern pattern, uint64_t size, uint64_t block) {
  JobSpec job;
  job.pattern = pattern;
  job.size_bytes = size;
  job.block_bytes = block;
  job.time_based = false;
  job.jobs = 1;
  return job;
}

std::vector<PlannedIo> all_of(const JobSpec& job, const std::vector<JobFile>& files,
                              size_t most = 1'000'000) {
  JobPlan plan(job, files, 7);
  std::vector<PlannedIo> all;
  while (all.size() < most && !plan.done()) {
    if (plan.at_pass_end()) plan.begin_pass();
    all.push_back(plan.next(plan.draw_write()));
  }
  return all;
}

TEST(JobPlan, SequentialCoversItsRegionOnce) {
  JobSpec job = job_of(Pattern::kWrite, 1 << 20, 65536);
  std::vector<PlannedIo> all = all_of(job, {{"f", 4096, 1 << 20}});
  ASSERT_EQ(all.size(), 16U);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].offset, 4096 + i * 65536);
    EXPECT_TRUE(all[i].write);
  }
}

TEST(JobPlan, RandomVisitsEachBlockOncePerPass) {
  JobSpec job = job_of(Pattern::kRandWrite, 1 << 20, 4096);
  job.loops = 2;
  std::vector<PlannedIo> all = all_of(job, {{"f", 0, 1 << 20}});
  ASSERT_EQ(all.size(), 512U);
  std::map<uint64_t, int> seen;
  for (const PlannedIo& io : all) ++seen[io.offset];
  EXPECT_EQ(seen.size(), 256U);
  for (const auto& [offset, count] : seen) EXPECT_EQ(count, 2);
}

TEST(JobPlan, IoSizeSaysHowMuchIsDone) {
  JobSpec job = job_of(Pattern::kWrite, 1 << 20, 65536);
  job.io_bytes = 3 << 19;
  EXPECT_EQ(all_of(job, {{"f", 0, 1 << 20}}).size(), 24U);
  job.io_bytes = 1 << 18;
  EXPECT_EQ(all_of(job, {{"f", 0, 1 << 20}}).size(), 4U);
}

TEST(JobPlan, FilesInTurn) {
  JobSpec job = job_of(Pattern::kRead, 3 << 18, 65536);
  std::vector<JobFile> files{{"a", 0, 1 << 18}, {"b", 0, 1 << 18}, {"c", 0, 1 << 18}};
  std::vector<PlannedIo> all = all_of(job, files);
  ASSERT_EQ(all.size(), 12U);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].file, i % 3);
    EXPECT_EQ(all[i].offset, i / 3 * 65536);
  }
  job.file_run = 2;
  all = all_of(job, files);
  EXPECT_EQ(all[1].file, 0U);
  EXPECT_EQ(all[2].file, 1U);
  job.file_order = FileOrder::kSequential;
  all = all_of(job, files);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].file, i / 4);
  job.file_order = FileOrder::kRandom;
  std::map<unsigned, int> counts;
  for (const PlannedIo& io : all_of(job, files)) ++counts[io.file];
  EXPECT_EQ(counts, (std::map<unsigned, int>{{0, 4}, {1, 4}, {2, 4}}));
}

TEST(JobPlan, FilesOfDifferentSizesAreAllDone) {
  JobSpec job = job_of(Pattern::kRandRead, 7 << 16, 65536);
  std::vector<JobFile> files{{"a", 0, 1 << 16}, {"b", 0, 4 << 16}, {"c", 0, 2 << 16}};
  std::map<unsigned, int> counts;
  for (const PlannedIo& io : all_of(job, files)) ++counts[io.file];
  EXPECT_EQ(counts, (std::map<unsigned, int>{{0, 1}, {1, 4}, {2, 2}}));
}

TEST(JobPlan, MixedIsMixedAsAsked) {
  JobSpec job = job_of(Pattern::kRandReadWrite, 1 << 20, 4096);
  job.time_based = true;
  job.read_percent = 70;
  double reads = 0;
  for (const PlannedIo& io : all_of(job, {{"f", 0, 1 << 20}}, 100'000)) reads += io.write ? 0 : 1;
  EXPECT_NEAR(reads / 100'000, 0.7, 0.01);
}

TEST(JobPlan, SplitSizesHaveTheirShares) {
  JobSpec job = job_of(Pattern::kRandWrite, 64 << 20, 4096);
  job.time_based = true;
  job.blocks[1] = {.min_bytes = 4096,
                   .max_bytes = 65536,
                   .split = {{.bytes = 4096, .percent = 60}, {.bytes = 65536, .percent = 40}}};
  double small = 0;
  for (const PlannedIo& io : all_of(job, {{"f", 0, 64 << 20}}, 100'000)) {
    EXPECT_EQ(io.offset % 4096, 0U);
    EXPECT_LE(io.offset + io.bytes, 64U << 20U);
    small += io.bytes == 4096 ? 1 : 0;
  }
  EXPECT_NEAR(small / 100'000, 0.6, 0.01);
}

TEST(JobPlan, RangesAreMultiplesOfTheirLeast) {
  JobSpec job = job_of(Pattern::kRandRead, 1 << 20, 4096);
  job.time_based = true;
  job.blocks[0] = {.min_bytes = 4096, .max_bytes = 16384, .split = {}};
  std::set<uint32_t> sizes;
  for (const PlannedIo& io : all_of(job, {{"f", 0, 1 << 20}}, 10'000)) sizes.insert(io.bytes);
  EXPECT_EQ(sizes, (std::set<uint32_t>{4096, 8192, 12288, 16384}));
}

TEST(JobPlan, PartlyRandomGoesOnBehindTheLast) {
  JobSpec job = job_of(Pattern::kRandRead, 64 << 20, 4096);
  job.time_based = true;
  job.random_percent = 20;
  std::vector<PlannedIo> all = all_of(job, {{"f", 0, 64 << 20}}, 50'000);
  double behind = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    behind += all[i].offset == all[i - 1].offset + 4096 ? 1 : 0;
  }
  EXPECT_NEAR(behind / 50'000, 0.8, 0.01);
}

// Expected shares from the distributions' definitions, not from the generator's method.
TEST(SkewedOrder, ZipfPrefersAsItsDefinitionSays) {
  constexpr uint64_t kBlocks = 1000;
  for (double theta : {0.6, 1.2}) {
    SkewedOrder order(Skew::kZipf, theta, kBlocks, 3);
    constexpr int kDraws = 400'000;
    std::vector<double> counts(kBlocks);
    for (int i = 0; i < kDraws; ++i) counts[order.rank()] += 1;
    double zeta = 0;
    for (uint64_t i = 1; i <= kBlocks; ++i) zeta += std::pow(i, -theta);
    double drawn = 0;
    double expected = 0;
    for (uint64_t i = 0; i < kBlocks; ++i) {
      drawn += counts[i] / kDraws;
      expected += std::pow(i + 1, -theta) / zeta;
      // The generator is an approximation between the first two ranks and the last.
      if (i == 0 || i == 1 || i == 9 || i == 99 || i == 499) {
        EXPECT_NEAR(drawn, expected, 0.035) << theta << " up to " << i;
      }
    }
  }
}

TEST(SkewedOrder, ParetoIsTheRuleOfShares) {
  // h: that share of the blocks gets 1 - h of the draws.
  SkewedOrder order(Skew::kPareto, 0.2, 10'000, 3);
  double in = 0;
  for (int i = 0; i < 200'000; ++i) in += order.rank() < 2000 ? 1 : 0;
  EXPECT_NEAR(in / 200'000, 0.8, 0.01);
}

TEST(SkewedOrder, NormalHasItsDeviation) {
  SkewedOrder order(Skew::kNormal, 10, 10'000, 3);
  double in = 0;
  for (int i = 0; i < 200'000; ++i) {
    uint64_t place = order.rank();
    in += place >= 4000 && place < 6000 ? 1 : 0;
  }
  EXPECT_NEAR(in / 200'000, 0.6827, 0.01);
}

TEST(SkewedOrder, StaysInside) {
  for (Skew skew : {Skew::kZipf, Skew::kPareto, Skew::kNormal}) {
    for (uint64_t blocks : {1, 2, 3, 1000}) {
      SkewedOrder order(skew, 0.9, blocks, 5);
      for (int i = 0; i < 1000; ++i) EXPECT_LT(order.next(), blocks);
    }
  }
}

TEST(JobPace, KeepsItsRates) {
  JobSpec job = job_of(Pattern::kRandReadWrite, 1 << 20, 4096);
  job.rate_bytes[1] = 4'096'000;
  job.rate_ios[0] = 500;
  JobPace pace(job, 1);
  pace.begin(1000);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(pace.issued(true, 4096));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(pace.issued(false, 4096));
  EXPECT_EQ(pace.due_ns(true), 1000 + 100'000'000U);
  EXPECT_EQ(pace.due_ns(false), 1000 + 200'000'000U);
  job.rate_poisson = true;
  JobPace poisson(job, 1);
  poisson.begin(0);
  for (int i = 0; i < 100'000; ++i) poisson.issued(true, 4096);
  EXPECT_NEAR(static_cast<double>(poisson.due_ns(true)) / 1e11, 1, 0.02);
}

TEST(JobPace, PausesAfterItsBlocks) {
  JobSpec job = job_of(Pattern::kRandWrite, 1 << 20, 4096);
  job.think_ns = 1000;
  job.think_blocks = 3;
  JobPace pace(job, 1);
  int pauses = 0;
  for (int i = 0; i < 9; ++i) pauses += pace.issued(true, 4096) ? 1 : 0;
  EXPECT_EQ(pauses, 3);
}

}  // namespace
}  // namespace stalltrace::workloads

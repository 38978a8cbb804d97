#include "workloads/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace stalltrace::workloads {
namespace {

// Nearest rank, from the sorted samples themselves.
uint64_t exact(const std::vector<uint64_t>& sorted, double q) {
  auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

void expect_within_one_percent(uint64_t actual, uint64_t expected, const char* what) {
  EXPECT_LE(std::abs(static_cast<double>(actual) - static_cast<double>(expected)),
            0.01 * static_cast<double>(expected))
      << what << ": " << actual << " for " << expected;
}

TEST(LatencyHistogram, PercentilesAreWithinOnePercentOfTheSamples) {
  std::mt19937_64 random(7);
  // From nanoseconds to a minute, as latencies are: log-uniform.
  std::uniform_real_distribution<double> exponent(0, std::log(60e9));
  for (int round = 0; round < 20; ++round) {
    LatencyHistogram histogram;
    std::vector<uint64_t> samples;
    double sum = 0;
    for (int i = 0; i < 5000; ++i) {
      auto ns = static_cast<uint64_t>(std::exp(exponent(random)));
      samples.push_back(ns);
      sum += static_cast<double>(ns);
      histogram.add(ns);
    }
    std::sort(samples.begin(), samples.end());
    Distribution dist = histogram.distribution();
    EXPECT_EQ(dist.count, samples.size());
    EXPECT_NEAR(dist.mean_ns, sum / 5000, sum / 5000 * 1e-9);
    expect_within_one_percent(dist.p50_ns, exact(samples, 0.5), "p50");
    expect_within_one_percent(dist.p90_ns, exact(samples, 0.9), "p90");
    expect_within_one_percent(dist.p99_ns, exact(samples, 0.99), "p99");
    expect_within_one_percent(dist.p999_ns, exact(samples, 0.999), "p999");
    EXPECT_EQ(dist.max_ns, samples.back());
  }
}

TEST(LatencyHistogram, EveryValueIsWithinOnePercent) {
  for (uint64_t base = 1; base < (uint64_t{1} << 41U); base *= 2) {
    for (uint64_t value : {base, base + base / 3, base + base / 2, 2 * base - 1}) {
      LatencyHistogram histogram;
      // The middle of three is a bucket's middle, neither the minimum nor the exact maximum.
      histogram.add(0);
      histogram.add(value);
      histogram.add(UINT64_MAX);
      expect_within_one_percent(histogram.distribution().p50_ns, value, "value");
    }
  }
}

TEST(LatencyHistogram, SmallAndHugeValuesAreExactAtTheEnds) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.distribution().count, 0U);
  histogram.add(0);
  EXPECT_EQ(histogram.distribution().max_ns, 0U);
  uint64_t two_hours = 7'200'000'000'000;
  histogram.add(two_hours);
  EXPECT_EQ(histogram.distribution().max_ns, two_hours);
  EXPECT_EQ(histogram.distribution().p50_ns, 0U);
}

TEST(LatencyHistogram, OneSampleIsEveryPercentile) {
  LatencyHistogram histogram;
  histogram.add(123'456'789);
  Distribution dist = histogram.distribution();
  EXPECT_EQ(dist.p50_ns, 123'456'789U);
  EXPECT_EQ(dist.p999_ns, 123'456'789U);
  EXPECT_EQ(dist.mean_ns, 123'456'789.0);
}

TEST(LatencyHistogram, MergedIsTheSameAsAddedTogether) {
  LatencyHistogram both;
  LatencyHistogram low;
  LatencyHistogram high;
  for (uint64_t i = 1; i <= 1000; ++i) {
    both.add(i * 1000);
    (i <= 300 ? low : high).add(i * 1000);
  }
  low.merge(high);
  EXPECT_EQ(to_json(low.distribution()), to_json(both.distribution()));
}

TEST(Distribution, JsonIsInMicroseconds) {
  nlohmann::json json = to_json({.count = 3,
                                 .mean_ns = 1234567.4,
                                 .p50_ns = 1001,
                                 .p90_ns = 2000,
                                 .p99_ns = 3000,
                                 .p999_ns = 4000,
                                 .max_ns = 1'500'000'001});
  EXPECT_EQ(json.at("count"), 3);
  EXPECT_DOUBLE_EQ(json.at("mean"), 1234.567);
  EXPECT_DOUBLE_EQ(json.at("p50"), 1.001);
  EXPECT_DOUBLE_EQ(json.at("max"), 1500000.001);
  EXPECT_EQ(json.size(), 7U);
}

TEST(LatencyHistogram, DeviationIsExact) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.deviation_ns(), 0);
  // Far from zero and close together: what sums of squares in double get wrong.
  for (uint64_t ns : {2, 4, 4, 4, 5, 5, 7, 9}) histogram.add(1'000'000'000'000 + ns);
  EXPECT_NEAR(histogram.deviation_ns(), std::sqrt(32.0 / 7), 1e-3);
  EXPECT_NEAR(histogram.mean_ns(), 1e12 + 5, 1e-3);
}

TEST(LatencyHistogram, CountsBetween) {
  LatencyHistogram histogram;
  for (uint64_t ns : {10, 100, 1000, 2000, 4000, 100'000}) histogram.add(ns);
  EXPECT_EQ(histogram.count_between(0, 1000), 2U);
  EXPECT_EQ(histogram.count_between(1000, 4000), 2U);
  EXPECT_EQ(histogram.count_between(4000, 1'000'000), 2U);
}

}  // namespace
}  // namespace stalltrace::workloads

#include "userspace/model/dist.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

namespace stalltrace::model {
namespace {

// As the BPF side counts, spelled out without bit tricks.
size_t reference_bucket(uint64_t ns) {
  if (ns < 16) return ns;
  size_t exponent = 0;
  for (uint64_t rest = ns; rest > 1; rest /= 2) ++exponent;
  uint64_t top_five_bits = ns;
  for (size_t i = 4; i < exponent; ++i) top_five_bits /= 2;
  return (exponent - 3) * 16 + top_five_bits % 16;
}

constexpr uint64_t kBeyond = uint64_t{1} << 43;  // the first value of bucket 640, if there were one

TEST(Dist, BucketsAreThoseOfTheKernelSide) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    uint64_t ns = (random() >> random() % 64) % kBeyond;
    EXPECT_EQ(bucket_of(ns), reference_bucket(ns)) << ns;
  }
  EXPECT_EQ(bucket_of(0), 0U);
  EXPECT_EQ(bucket_of(15), 15U);
  EXPECT_EQ(bucket_of(16), 16U);
  EXPECT_EQ(bucket_of(31), 31U);
  EXPECT_EQ(bucket_of(32), 32U);
  EXPECT_EQ(bucket_of(33), 32U);
  EXPECT_EQ(bucket_of(kBeyond - 1), 639U);
  EXPECT_EQ(bucket_of(kBeyond), 639U);
  EXPECT_EQ(bucket_of(UINT64_MAX), 639U);
}

TEST(Dist, BucketsTileTheNumbers) {
  EXPECT_EQ(bucket_low_ns(0), 0U);
  for (size_t i = 0; i + 1 < wire::WIRE_HIST_BUCKETS; ++i) {
    EXPECT_EQ(bucket_end_ns(i), bucket_low_ns(i + 1));
    EXPECT_LT(bucket_low_ns(i), bucket_end_ns(i));
    EXPECT_EQ(bucket_of(bucket_low_ns(i)), i);
    EXPECT_EQ(bucket_of(bucket_end_ns(i) - 1), i);
    EXPECT_EQ(bucket_of(bucket_mid_ns(i)), i);
  }
  EXPECT_EQ(bucket_of(bucket_mid_ns(639)), 639U);
}

TEST(Dist, TheMiddleIsOffByThreePercentAtMost) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    uint64_t ns = (random() >> random() % 64) % kBeyond;
    auto middle = static_cast<double>(bucket_mid_ns(bucket_of(ns)));
    EXPECT_NEAR(middle, static_cast<double>(ns), static_cast<double>(ns) / 32) << ns;
  }
}

TEST(Dist, OfSamplesIsExact) {
  std::vector<uint64_t> samples(1000);
  std::iota(samples.begin(), samples.end(), 1);
  std::shuffle(samples.begin(), samples.end(), std::mt19937(3));
  Dist dist = dist_of_samples(samples);
  EXPECT_EQ(dist.count, 1000U);
  EXPECT_DOUBLE_EQ(dist.mean_ns, 500.5);
  EXPECT_EQ(dist.p50_ns, 500U);
  EXPECT_EQ(dist.p90_ns, 900U);
  EXPECT_EQ(dist.p99_ns, 990U);
  EXPECT_EQ(dist.p999_ns, 999U);
  EXPECT_EQ(dist.max_ns, 1000U);
}

TEST(Dist, OfFewSamplesIsOneOfThem) {
  EXPECT_EQ(dist_of_samples({}).count, 0U);
  Dist one = dist_of_samples({7});
  EXPECT_EQ(one.p50_ns, 7U);
  EXPECT_EQ(one.p999_ns, 7U);
  EXPECT_EQ(one.max_ns, 7U);
  Dist two = dist_of_samples({100, 1});
  EXPECT_EQ(two.p50_ns, 1U);
  EXPECT_EQ(two.p90_ns, 100U);
}

struct Histogram {
  std::unique_ptr<wire::wire_hist> hist = std::make_unique<wire::wire_hist>();
  void add(uint64_t ns) {
    ++hist->count;
    hist->sum_ns += ns;
    hist->max_ns = std::max(hist->max_ns, ns);
    ++hist->bucket[reference_bucket(ns)];
  }
};

TEST(Dist, OfAHistogramIsNearTheSamples) {
  std::mt19937_64 random(4);
  std::lognormal_distribution<double> lognormal(12, 2);
  std::vector<uint64_t> samples;
  Histogram histogram;
  for (int i = 0; i < 50000; ++i) {
    samples.push_back(static_cast<uint64_t>(lognormal(random)));
    histogram.add(samples.back());
  }
  Dist exact = dist_of_samples(samples);
  Dist dist = dist_of(*histogram.hist);
  EXPECT_EQ(dist.count, exact.count);
  EXPECT_EQ(dist.max_ns, exact.max_ns);
  EXPECT_NEAR(dist.mean_ns, exact.mean_ns, exact.mean_ns * 1e-9);
  auto near = [](uint64_t a, uint64_t b) {
    EXPECT_NEAR(static_cast<double>(a), static_cast<double>(b), static_cast<double>(b) / 32 + 1);
  };
  near(dist.p50_ns, exact.p50_ns);
  near(dist.p90_ns, exact.p90_ns);
  near(dist.p99_ns, exact.p99_ns);
  near(dist.p999_ns, exact.p999_ns);
}

TEST(Dist, HistogramsOfSeveralCpusAreOne) {
  Histogram together;
  std::vector<wire::wire_hist> apart(4, wire::wire_hist{});
  for (uint64_t i = 0; i < 4000; ++i) {
    uint64_t ns = i * i * 1000;
    together.add(ns);
    wire::wire_hist& one = apart[i % 4];
    ++one.count;
    one.sum_ns += ns;
    one.max_ns = std::max(one.max_ns, ns);
    ++one.bucket[reference_bucket(ns)];
  }
  Dist a = dist_of(*together.hist);
  Dist b = dist_of(std::span<const wire::wire_hist>(apart));
  EXPECT_EQ(a.count, b.count);
  EXPECT_DOUBLE_EQ(a.mean_ns, b.mean_ns);
  EXPECT_EQ(a.p50_ns, b.p50_ns);
  EXPECT_EQ(a.p999_ns, b.p999_ns);
  EXPECT_EQ(a.max_ns, b.max_ns);
}

TEST(Dist, AHistogramsQuantilesNeverPassItsMax) {
  Histogram histogram;
  histogram.add(1 << 20);  // the low end of its bucket
  Dist dist = dist_of(*histogram.hist);
  EXPECT_EQ(dist.p50_ns, 1U << 20);
  EXPECT_EQ(dist.p999_ns, 1U << 20);
  EXPECT_EQ(dist_of(wire::wire_hist{}).count, 0U);
}

TEST(Dist, AGrowthIsOfWhatCameBetween) {
  Histogram early, late, between;
  for (uint64_t ns : {100U, 5000U, 900'000U}) {
    early.add(ns);
    late.add(ns);
  }
  for (uint64_t ns : {200U, 7000U, 7100U}) {
    late.add(ns);
    between.add(ns);
  }
  Dist grown = dist_of(growth_of(*early.hist, *late.hist));
  Dist known = dist_of(*between.hist);
  EXPECT_EQ(grown.count, 3U);
  EXPECT_DOUBLE_EQ(grown.mean_ns, known.mean_ns);
  EXPECT_EQ(grown.p50_ns, known.p50_ns);
  // The largest of all came before: of those between, its bucket is known.
  EXPECT_GE(grown.max_ns, 7100U);
  EXPECT_LT(grown.max_ns, 7100U * 17 / 16);
  late.add(2'000'000);
  EXPECT_EQ(growth_of(*early.hist, *late.hist).max_ns, 2'000'000U);
  EXPECT_EQ(growth_of(*late.hist, *late.hist).count, 0U);
}

TEST(Dist, ACountWithoutBucketsIsNoTrap) {
  wire::wire_hist hist{};
  hist.count = 2;
  hist.sum_ns = 30;
  hist.max_ns = 20;
  Dist dist = dist_of(hist);
  EXPECT_LE(dist.p999_ns, 20U);
}

}  // namespace
}  // namespace stalltrace::model

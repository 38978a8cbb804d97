#include "workloads/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stalltrace::workloads {
namespace {

double to_us(double ns) {
  return std::round(ns) / 1000.0;
}

}  // namespace

nlohmann::json to_json(const Distribution& distribution) {
  auto us = [](uint64_t ns) { return static_cast<double>(ns) / 1000.0; };
  return {{"count", distribution.count},    {"mean", to_us(distribution.mean_ns)},
          {"p50", us(distribution.p50_ns)}, {"p90", us(distribution.p90_ns)},
          {"p99", us(distribution.p99_ns)}, {"p999", us(distribution.p999_ns)},
          {"max", us(distribution.max_ns)}};
}

size_t LatencyHistogram::bucket_of(uint64_t ns) {
  if (ns < kSub) return ns;
  auto exponent = static_cast<unsigned>(std::bit_width(ns)) - 1;
  if (exponent >= kMaxBits) return kBuckets - 1;
  size_t sub = (ns >> (exponent - kSubBits)) - kSub;
  return (exponent - kSubBits + 1) * kSub + sub;
}

uint64_t LatencyHistogram::middle_of(size_t bucket) {
  if (bucket < kSub) return bucket;
  size_t shift = bucket / kSub - 1;
  uint64_t lower = (kSub + bucket % kSub) << shift;
  return lower + ((uint64_t{1} << shift) / 2);
}

void LatencyHistogram::add(uint64_t ns) {
  ++buckets_[bucket_of(ns)];
  ++count_;
  sum_ns_ += ns;
  __extension__ using Wide = unsigned __int128;
  squares_ += Wide{ns} * ns;
  min_ns_ = std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
  squares_ += other.squares_;
  min_ns_ = std::min(min_ns_, other.min_ns_);
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

double LatencyHistogram::mean_ns() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(count_);
}

double LatencyHistogram::deviation_ns() const {
  if (count_ < 2) return 0;
  // The difference of two numbers that are much larger than it: in whole numbers where they fit.
  __extension__ using Wide = unsigned __int128;
  Wide squares = 0;
  long double scaled = 0;  // n * (n - 1) times the variance
  if (__builtin_mul_overflow(squares_, Wide{count_}, &squares)) {
    auto sum = static_cast<long double>(sum_ns_);
    scaled = static_cast<long double>(squares_) * static_cast<long double>(count_) - sum * sum;
  } else {
    scaled = static_cast<long double>(squares - Wide{sum_ns_} * sum_ns_);
  }
  auto n = static_cast<long double>(count_);
  return std::sqrt(static_cast<double>(std::max(0.0L, scaled / n / (n - 1))));
}

uint64_t LatencyHistogram::count_between(uint64_t from_ns, uint64_t to_ns) const {
  uint64_t count = 0;
  for (size_t i = bucket_of(from_ns); i < bucket_of(to_ns); ++i) count += buckets_[i];
  return count;
}

uint64_t LatencyHistogram::quantile(double q) const {
  if (count_ == 0) return 0;
  auto rank = static_cast<uint64_t>(std::ceil(q * static_cast<double>(count_)));
  rank = std::clamp<uint64_t>(rank, 1, count_);
  // The last rank is known exactly, and the last bucket has no middle.
  if (rank == count_) return max_ns_;
  uint64_t seen = 0;
  for (size_t i = 0; i + 1 < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::clamp(middle_of(i), min_ns_, max_ns_);
  }
  return max_ns_;
}

std::vector<std::pair<uint64_t, uint64_t>> LatencyHistogram::counts() const {
  std::vector<std::pair<uint64_t, uint64_t>> result;
  for (size_t i = 0; i < kBuckets; ++i) {
    if (buckets_[i] == 0) continue;
    uint64_t middle_ns = i + 1 < kBuckets ? middle_of(i) : max_ns_;
    result.emplace_back(std::clamp(middle_ns, min_ns_, max_ns_), buckets_[i]);
  }
  return result;
}

Distribution LatencyHistogram::distribution() const {
  if (count_ == 0) return {};
  return {.count = count_,
          .mean_ns = mean_ns(),
          .p50_ns = quantile(0.5),
          .p90_ns = quantile(0.9),
          .p99_ns = quantile(0.99),
          .p999_ns = quantile(0.999),
          .max_ns = max_ns_};
}

}  // namespace stalltrace::workloads

#include "userspace/model/dist.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

namespace stalltrace::model {
namespace {

constexpr unsigned kSubBits = 4;
static_assert(wire::WIRE_HIST_SUB == 1 << kSubBits);

// Number of the sample that is the quantile, from 1: the smallest with at least `per_mille` of all
// at or below it. Integers, so that 0.999 of 1000 is 999 on every machine.
uint64_t rank_of(uint64_t count, uint64_t per_mille) {
  uint64_t whole = count / 1000 * per_mille;
  uint64_t rest = (count % 1000 * per_mille + 999) / 1000;
  return std::max<uint64_t>(whole + rest, 1);
}

template <typename ValueAt>
void set_quantiles(Dist& dist, ValueAt value_at) {
  dist.p50_ns = value_at(500);
  dist.p90_ns = value_at(900);
  dist.p99_ns = value_at(990);
  dist.p999_ns = value_at(999);
}

}  // namespace

size_t bucket_of(uint64_t ns) {
  if (ns < wire::WIRE_HIST_SUB) return ns;
  unsigned exponent = std::bit_width(ns) - 1;
  size_t sub = (ns >> (exponent - kSubBits)) & (wire::WIRE_HIST_SUB - 1);
  size_t index = (exponent - kSubBits + 1) * size_t{wire::WIRE_HIST_SUB} + sub;
  return std::min<size_t>(index, wire::WIRE_HIST_BUCKETS - 1);
}

uint64_t bucket_low_ns(size_t index) {
  if (index < wire::WIRE_HIST_SUB) return index;
  size_t shift = index / wire::WIRE_HIST_SUB - 1;
  return (wire::WIRE_HIST_SUB + index % wire::WIRE_HIST_SUB) << shift;
}

uint64_t bucket_end_ns(size_t index) {
  if (index + 1 >= wire::WIRE_HIST_BUCKETS) return UINT64_MAX;
  return bucket_low_ns(index + 1);
}

uint64_t bucket_mid_ns(size_t index) {
  uint64_t low = bucket_low_ns(index);
  return low + (bucket_low_ns(index + 1) - low) / 2;
}

Dist dist_of(const wire::wire_hist& hist) {
  return dist_of(std::span<const wire::wire_hist>(&hist, 1));
}

Dist dist_of(std::span<const wire::wire_hist> hists) {
  Dist dist;
  double sum = 0;
  std::array<uint64_t, wire::WIRE_HIST_BUCKETS> buckets{};
  for (const wire::wire_hist& hist : hists) {
    dist.count += hist.count;
    sum += static_cast<double>(hist.sum_ns);
    dist.max_ns = std::max(dist.max_ns, hist.max_ns);
    for (size_t i = 0; i < buckets.size(); ++i) buckets.at(i) += hist.bucket[i];
  }
  if (dist.count == 0) return {};
  dist.mean_ns = sum / static_cast<double>(dist.count);
  // A histogram is read while it is written: its buckets may hold a few more than its count.
  uint64_t filled = std::accumulate(buckets.begin(), buckets.end(), uint64_t{0});
  set_quantiles(dist, [&](uint64_t per_mille) {
    uint64_t left = rank_of(filled, per_mille);
    for (size_t i = 0; i < buckets.size(); ++i) {
      if (left <= buckets.at(i)) return std::min(bucket_mid_ns(i), dist.max_ns);
      left -= buckets.at(i);
    }
    return std::min(static_cast<uint64_t>(std::llround(dist.mean_ns)), dist.max_ns);
  });
  return dist;
}

Dist dist_of_samples(std::vector<uint64_t> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  Dist dist;
  dist.count = samples.size();
  dist.max_ns = samples.back();
  long double sum = 0;
  for (uint64_t sample : samples) sum += static_cast<long double>(sample);
  dist.mean_ns = static_cast<double>(sum / static_cast<long double>(samples.size()));
  set_quantiles(
      dist, [&](uint64_t per_mille) { return samples.at(rank_of(samples.size(), per_mille) - 1); });
  return dist;
}

wire::wire_hist growth_of(const wire::wire_hist& from, const wire::wire_hist& to) {
  wire::wire_hist growth{};
  growth.count = to.count - from.count;
  growth.sum_ns = to.sum_ns - from.sum_ns;
  growth.over = to.over - from.over;
  growth.over_ns = to.over_ns - from.over_ns;
  size_t highest = 0;
  for (size_t i = 0; i < wire::WIRE_HIST_BUCKETS; ++i) {
    growth.bucket[i] = to.bucket[i] - from.bucket[i];
    if (growth.bucket[i] != 0) highest = i;
  }
  if (growth.count == 0) return growth;
  bool is_new = to.max_ns != from.max_ns;
  growth.max_ns = is_new ? to.max_ns : std::min(to.max_ns, bucket_end_ns(highest) - 1);
  return growth;
}

}  // namespace stalltrace::model

// Distributions from the kernel side's log-linear histograms and from plain samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpf/wire.h"

namespace stalltrace::model {

// Nanoseconds; quantiles from a histogram carry its error, count, mean and max are exact.
struct Dist {
  uint64_t count = 0;
  double mean_ns = 0;
  uint64_t p50_ns = 0, p90_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
};

// Index of the bucket that counts `ns`. The BPF programs compute the same: below WIRE_HIST_SUB the
// value itself, above it WIRE_HIST_SUB buckets per power of two; the last bucket takes the rest.
size_t bucket_of(uint64_t ns);

// Smallest value of a bucket, and one past its largest. `index` < WIRE_HIST_BUCKETS.
uint64_t bucket_low_ns(size_t index);
uint64_t bucket_end_ns(size_t index);

// What stands for the values of a bucket: off by 1/32 at most.
uint64_t bucket_mid_ns(size_t index);

// Count, mean and max are exact; quantiles are a bucket's middle, never over the max.
Dist dist_of(const wire::wire_hist& hist);

// What was counted between two moments. The largest is that of the highest bucket that grew, unless
// it is a new one.
wire::wire_hist growth_of(const wire::wire_hist& from, const wire::wire_hist& to);

// The same over several histograms (one per CPU).
Dist dist_of(std::span<const wire::wire_hist> hists);

// Exact; quantiles are samples (nearest rank). The unit is that of the samples.
Dist dist_of_samples(std::vector<uint64_t> samples);

}  // namespace stalltrace::model

// Latencies of a run: recorded without allocation, summed up as the report's {dist}.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace stalltrace::workloads {

// Percentiles are nearest-rank: the smallest value that at least this share does not exceed.
struct Distribution {
  uint64_t count = 0;
  double mean_ns = 0;
  uint64_t p50_ns = 0;
  uint64_t p90_ns = 0;
  uint64_t p99_ns = 0;
  uint64_t p999_ns = 0;
  uint64_t max_ns = 0;
};

// {"count","mean","p50","p90","p99","p999","max"}, times in microseconds with three decimals.
nlohmann::json to_json(const Distribution& distribution);

// Log-linear: 64 buckets per power of two, so a percentile is off by at most 1/128 (0.8 %).
// Count, mean and maximum are exact. Values of 2^42 ns (73 minutes) and more share one bucket.
class LatencyHistogram {
 public:
  void add(uint64_t ns);
  void merge(const LatencyHistogram& other);
  void clear() { *this = {}; }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] uint64_t min_ns() const { return count_ > 0 ? min_ns_ : 0; }
  [[nodiscard]] uint64_t max_ns() const { return max_ns_; }
  [[nodiscard]] double mean_ns() const;
  // Of the values themselves, exact but for rounding.
  [[nodiscard]] double deviation_ns() const;
  // Nearest rank, `q` in 0 to 1; 0 without values.
  [[nodiscard]] uint64_t quantile(double q) const;
  // How many values are at least `from_ns` and below `to_ns`, to a bucket.
  [[nodiscard]] uint64_t count_between(uint64_t from_ns, uint64_t to_ns) const;
  [[nodiscard]] Distribution distribution() const;
  // A value that stands for each bucket that is not empty, and how often.
  [[nodiscard]] std::vector<std::pair<uint64_t, uint64_t>> counts() const;

 private:
  static constexpr unsigned kSubBits = 6;
  static constexpr unsigned kMaxBits = 42;
  static constexpr size_t kSub = size_t{1} << kSubBits;
  static constexpr size_t kBuckets = (kMaxBits - kSubBits + 1) * kSub + 1;

  static size_t bucket_of(uint64_t ns);
  static uint64_t middle_of(size_t bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
  __extension__ unsigned __int128 squares_ = 0;
  uint64_t min_ns_ = UINT64_MAX;
  uint64_t max_ns_ = 0;
};

}  // namespace stalltrace::workloads

#include "workloads/skewed_order.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stalltrace::workloads {
namespace {

// The sum of 1/i^theta up to n. Beyond what is worth adding up one by one, the integral with half
// of its ends (Euler and Maclaurin) is off by less than 1e-10.
double zeta_sum(uint64_t n, double theta) {
  constexpr uint64_t kExact = 10'000;
  double sum = 0;
  uint64_t exact = std::min(n, kExact);
  for (uint64_t i = 1; i <= exact; ++i) sum += std::pow(static_cast<double>(i), -theta);
  if (n == exact) return sum;
  auto from = static_cast<double>(exact);
  auto to = static_cast<double>(n);
  auto integral = (std::pow(to, 1 - theta) - std::pow(from, 1 - theta)) / (1 - theta);
  return sum + integral + (std::pow(to, -theta) - std::pow(from, -theta)) / 2;
}

}  // namespace

SkewedOrder::SkewedOrder(Skew skew, double by, uint64_t blocks, uint64_t seed)
    : skew_(skew), by_(by), blocks_(blocks), scatter_(mix_bits(seed)), random_(seed + 1) {
  if (skew != Skew::kZipf) return;
  // J. Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994.
  zeta_ = zeta_sum(blocks, by);
  alpha_ = 1 / (1 - by);
  auto n = static_cast<double>(blocks);
  eta_ = blocks > 2 ? (1 - std::pow(2 / n, 1 - by)) / (1 - zeta_sum(2, by) / zeta_) : 0;
}

uint64_t SkewedOrder::zipf() {
  double u = random_.unit();
  double scaled = u * zeta_;
  if (scaled < 1 || blocks_ == 1) return 0;
  if (scaled < 1 + std::pow(0.5, by_) || blocks_ == 2) return 1;
  return static_cast<uint64_t>(static_cast<double>(blocks_) *
                               std::pow(eta_ * u - eta_ + 1, alpha_));
}

uint64_t SkewedOrder::normal() {
  auto n = static_cast<double>(blocks_);
  double deviation = std::max(1.0, std::min(n / 2, n * by_ / 100));
  while (true) {
    double radius = std::sqrt(-2 * std::log(1 - random_.unit()));
    double place = n / 2 + deviation * radius * std::cos(2 * std::numbers::pi * random_.unit());
    if (place >= 0 && place < n) return static_cast<uint64_t>(place);
  }
}

uint64_t SkewedOrder::rank() {
  uint64_t rank = 0;
  switch (skew_) {
    case Skew::kNone:
      return random_.below(blocks_);
    case Skew::kZipf:
      rank = zipf();
      break;
    case Skew::kPareto:
      rank = static_cast<uint64_t>(static_cast<double>(blocks_) *
                                   std::pow(random_.unit(), std::log(by_) / std::log(1 - by_)));
      break;
    case Skew::kNormal:
      rank = normal();
      break;
  }
  return std::min(rank, blocks_ - 1);
}

uint64_t SkewedOrder::next() {
  // Popular blocks are not neighbours: fio hashes them likewise.
  return mix_bits(rank() ^ scatter_) % blocks_;
}

}  // namespace stalltrace::workloads

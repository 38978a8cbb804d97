#include "userspace/batching/effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace stalltrace::batching {
namespace {

struct Sample {
  double count = 0, mean = 0, variance = 0;
};

Sample sample_of(const std::vector<double>& values) {
  Sample sample;
  sample.count = static_cast<double>(values.size());
  if (values.empty()) return sample;
  sample.mean = std::accumulate(values.begin(), values.end(), 0.0) / sample.count;
  for (double value : values) sample.variance += (value - sample.mean) * (value - sample.mean);
  if (values.size() > 1) sample.variance /= sample.count - 1;
  return sample;
}

// All `comparisons` intervals hold together with 95 %.
double quantile(size_t freedom, size_t comparisons) {
  return students_t(freedom, 1 - 0.05 / static_cast<double>(std::max<size_t>(comparisons, 1)));
}

Effect around(double mean, double half) {
  return {.ratio = std::exp(mean), .low = std::exp(mean - half), .high = std::exp(mean + half)};
}

std::vector<double> logs_of(const std::vector<double>& values) {
  std::vector<double> logs;
  for (double value : values) {
    if (value > 0) logs.push_back(std::log(value));
  }
  return logs;
}

// How much of the distribution lies within -t to t: a finite sum (Abramowitz and Stegun, 26.7.3
// and 26.7.4).
double within_of(size_t freedom, double t) {
  double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  double cosine = std::cos(angle);
  bool odd = freedom % 2 == 1;
  double term = odd ? cosine : 1;
  double sum = freedom == 1 ? 0 : term;
  for (size_t k = odd ? 3 : 2; k + 1 < freedom; k += 2) {
    term *= cosine * cosine * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return odd ? (angle + std::sin(angle) * sum) * 2 / std::numbers::pi : std::sin(angle) * sum;
}

}  // namespace

double students_t(size_t freedom, double within) {
  double low = 0, high = 1;
  while (within_of(freedom, high) < within) high *= 2;
  for (int halving = 0; halving < 60; ++halving) {
    double middle = (low + high) / 2;
    (within_of(freedom, middle) < within ? low : high) = middle;
  }
  return high;
}

Effect effect_of(const std::vector<double>& run, const std::vector<double>& reference,
                 size_t comparisons) {
  std::vector<double> ratios;
  for (size_t i = 0; i < run.size() && i < reference.size(); ++i) {
    if (run[i] > 0 && reference[i] > 0) ratios.push_back(run[i] / reference[i]);
  }
  if (ratios.empty()) return {};
  Sample sample = sample_of(logs_of(ratios));
  if (ratios.size() < 2) return {.ratio = std::exp(sample.mean), .low = {}, .high = {}};
  return around(sample.mean, quantile(ratios.size() - 1, comparisons) *
                                 std::sqrt(sample.variance / sample.count));
}

Effect unpaired_effect_of(const std::vector<double>& run, const std::vector<double>& reference,
                          size_t comparisons) {
  Sample ours = sample_of(logs_of(run));
  Sample theirs = sample_of(logs_of(reference));
  if (ours.count == 0 || theirs.count == 0) return {};
  double mean = ours.mean - theirs.mean;
  if (ours.count < 2 || theirs.count < 2) return {.ratio = std::exp(mean), .low = {}, .high = {}};
  double our_part = ours.variance / ours.count;
  double their_part = theirs.variance / theirs.count;
  double both = our_part + their_part;
  if (both <= 0) return around(mean, 0);
  double freedom =
      both * both /
      (our_part * our_part / (ours.count - 1) + their_part * their_part / (theirs.count - 1));
  // Rounded down: rather too wide than too narrow.
  auto whole = static_cast<size_t>(std::max(freedom, 1.0));
  return around(mean, quantile(whole, comparisons) * std::sqrt(both));
}

Finding finding_of(const Effect& effect) {
  constexpr double kNothing = 0.05;
  double low = effect.low.value_or(effect.ratio);
  double high = effect.high.value_or(effect.ratio);
  if (low > 1 - kNothing && high < 1 + kNothing) return Finding::kNone;
  if (low > 1) return Finding::kMore;
  if (high < 1) return Finding::kLess;
  return Finding::kUnclear;
}

std::string interval_text(const Effect& effect, size_t comparisons) {
  if (!effect.low) return "one loop only: no interval";
  return fmt::format("95 % interval {}{:.3g} to {:.3g}",
                     comparisons > 1 ? fmt::format("of all {} comparisons ", comparisons) : "",
                     *effect.low, *effect.high);
}

}  // namespace stalltrace::batching

// The ratio of two runs, and how surely it is known from their loops.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace stalltrace::batching {

struct Effect {
  double ratio = 1;
  std::optional<double> low, high;  // 95 % interval; nothing with a single loop
};

// Student's t on the logarithms of the pairs' ratios: the same loop of both ran one after the
// other, so what drifts between loops cancels. `run` and `reference`: one value per loop, above 0,
// as many of each. `comparisons`: how many the interval is to hold for together (Bonferroni). Of
// twenty comparisons at 95 % each, one would be found to have an effect that is none.
Effect effect_of(const std::vector<double>& run, const std::vector<double>& reference,
                 size_t comparisons = 1);

// Likewise of loops that were no pairs, on another machine or another day (Welch).
Effect unpaired_effect_of(const std::vector<double>& run, const std::vector<double>& reference,
                          size_t comparisons = 1);

enum class Finding {
  kMore,     // the whole interval is above 1
  kLess,     // below
  kNone,     // within 5 % of 1: no effect
  kUnclear,  // includes 1 and reaches further: more loops would tell
};
Finding finding_of(const Effect& effect);

// "95 % interval 0.98 to 1.02", "95 % interval of all 4 comparisons 0.97 to 1.03".
std::string interval_text(const Effect& effect, size_t comparisons = 1);

// t with which Student's distribution of `freedom` degrees lies within -t to t with the
// probability `within`.
double students_t(size_t freedom, double within);

}  // namespace stalltrace::batching

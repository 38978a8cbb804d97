// What the loops of a run allow to be said, and how surely.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "userspace/batching/tally.h"
#include "userspace/kernel/knobs.h"

namespace stalltrace::batching {

// A ratio with its 95 % interval. Loops are pairs: the same loop of both runs ran one after the
// other, so what drifted between the loops cancels.
struct Effect {
  double ratio = 1;
  std::optional<double> low, high;  // nothing with a single loop
};
// Student's t on the logarithms of the pairs' ratios. `run` and `reference`: one value per loop,
// above 0, as many of each.
Effect effect_of(const std::vector<double>& run, const std::vector<double>& reference);

enum class Finding {
  kMore,     // the whole interval is above 1
  kLess,     // below
  kNone,     // within 5 % of 1: no effect
  kUnclear,  // includes 1 and reaches further: more loops would tell
};
Finding finding_of(const Effect& effect);

struct Verdict {
  std::string about;  // "gain of 8 threads", "max_batch_time=0, 4 threads", ...
  std::string text;
  Effect effect;
};

// One rung of the ladder: the loops of one thread count under one setting.
struct Rung {
  std::string device;  // "" where there is only one
  unsigned threads = 1;
  std::string setting;         // what differs between the rungs: "" or "group max_batch_time=0"
  std::string reference;       // the setting to compare with
  std::string sync = "fsync";  // how files were put on disk
  std::map<std::string, std::string> knobs;  // those turned, with their values
  kernel::BatchBounds bounds;                // of the batching sleep
  std::vector<Tally> loops;

  [[nodiscard]] Tally sum() const;
  // Another rung of the same ladder: only the number of threads differs.
  [[nodiscard]] bool same_ladder(const Rung& other) const {
    return device == other.device && setting == other.setting;
  }
};

// The first of the ladder that `rung` belongs to: what its gain is against.
const Rung& first_rung(const std::vector<Rung>& rungs, const Rung& rung);

// On the gain of threads within each setting, and on each setting against its reference.
std::vector<Verdict> verdicts_of(const std::vector<Rung>& rungs);

}  // namespace stalltrace::batching

// What the loops of a run allow to be said, and how surely.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "userspace/batching/effect.h"
#include "userspace/batching/tally.h"
#include "userspace/kernel/knobs.h"

namespace stalltrace::batching {

struct Verdict {
  std::string about;  // "gain of 8 threads", "max_batch_time=0, 4 threads", ...
  std::string text;
  Effect effect;
  size_t comparisons = 1;  // that the effect's interval holds for together
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
  // Of each loop. What counts is the work that was put on disk: one sync may be for the files of
  // many.
  [[nodiscard]] std::vector<double> files_per_s() const;
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

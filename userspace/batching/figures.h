// The figures of a run from its tally, and the gain of one run over another as the product of its
// factors.
#pragma once

#include <optional>
#include <string>

#include "userspace/batching/tally.h"

namespace stalltrace::batching {

// syncs/s = syncs per commit x commits per flush x flushes/s, where a "commit" stands for a
// request: a commit, or a flush that a sync call asked for without one.
// What was not seen is not there.
struct Rates {
  double files_per_s = 0;
  std::optional<double> syncs_per_s;
  std::optional<double> requests_per_s;
  std::optional<double> flushes_per_s;      // for commits and syncs
  std::optional<double> syncs_per_commit;   // nothing: no request was made
  std::optional<double> commits_per_flush;  // nothing: no flush was made
};
Rates rates_of(const Tally& tally);

struct Factors {
  double commit_sharing = 1;
  double flush_sharing = 1;
  double flush_rate = 1;
};
// Where no flush is made: commits shared, and how many are made a second.
struct SoftwareFactors {
  double commit_sharing = 1;
  double commit_rate = 1;
};
struct Gain {
  std::optional<double> of_syncs;                // syncs/s against the reference
  std::optional<Factors> factors;                // their product is of_syncs
  std::optional<SoftwareFactors> without_flush;  // likewise: the device executed none
  std::string missing;                           // which factor does not apply, and why
};
Gain gain_of(const Tally& run, const Tally& reference);

// Where the same threads would stand if one thing cost nothing. Syncs per second.
struct Ceilings {
  // The time in which a sync waits and a flush is under way taken out: nothing else changes.
  std::optional<double> free_flushes;
  // Every request served all the threads, at the rate at which requests were made.
  std::optional<double> perfect_sharing;
};
Ceilings ceilings_of(const Tally& run, unsigned threads);

// Share of the run in which a sync waited and no flush was under way, where both were seen.
std::optional<double> idle_share(const Tally& tally);

}  // namespace stalltrace::batching

#include "userspace/batching/figures.h"

#include <numeric>

namespace stalltrace::batching {
namespace {

double per_s(uint64_t count, uint64_t ns) {
  return ns > 0 ? static_cast<double>(count) * 1e9 / static_cast<double>(ns) : 0;
}

std::optional<double> ratio(uint64_t count, uint64_t of) {
  if (of == 0) return std::nullopt;
  return static_cast<double>(count) / static_cast<double>(of);
}

uint64_t sum(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

}  // namespace

Rates rates_of(const Tally& tally) {
  const Unseen& unseen = tally.unseen;
  Rates rates;
  rates.files_per_s = per_s(tally.files, tally.ns);
  if (!unseen.syncs) rates.syncs_per_s = per_s(tally.syncs.all(), tally.ns);
  if (!unseen.flushes && !unseen.requests) {
    rates.flushes_per_s = per_s(tally.flushes_for_syncs(), tally.ns);
  }
  // A request may be a sync's own flush: it takes all three to count them.
  if (unseen.syncs || unseen.commits || unseen.requests) return rates;
  rates.requests_per_s = per_s(tally.requests(), tally.ns);
  rates.syncs_per_commit = ratio(tally.syncs.all(), tally.requests());
  if (!unseen.flushes) rates.commits_per_flush = ratio(tally.requests(), tally.flushes_for_syncs());
  return rates;
}

Gain gain_of(const Tally& run, const Tally& reference) {
  Gain gain;
  Rates ours = rates_of(run);
  Rates theirs = rates_of(reference);
  if (theirs.syncs_per_s.value_or(0) > 0) gain.of_syncs = *ours.syncs_per_s / *theirs.syncs_per_s;
  if (run.unseen.factors()) {
    gain.missing = "not seen: " + run.unseen.reasons.front();
  } else if (run.syncs.all() == 0 || reference.syncs.all() == 0) {
    gain.missing = "no sync call was made";
  } else if (!ours.syncs_per_commit || !theirs.syncs_per_commit) {
    gain.missing = "no commit and no flush was asked for: nothing was shared";
  } else if (!ours.commits_per_flush || !theirs.commits_per_flush) {
    gain.missing = "the device executed no flush (no volatile write cache, or barriers are off)";
    gain.without_flush = {.commit_sharing = *ours.syncs_per_commit / *theirs.syncs_per_commit,
                          .commit_rate = *ours.requests_per_s / *theirs.requests_per_s};
  } else {
    gain.factors = {.commit_sharing = *ours.syncs_per_commit / *theirs.syncs_per_commit,
                    .flush_sharing = *ours.commits_per_flush / *theirs.commits_per_flush,
                    .flush_rate = *ours.flushes_per_s / *theirs.flushes_per_s};
  }
  return gain;
}

Ceilings ceilings_of(const Tally& run, unsigned threads) {
  Ceilings ceilings;
  uint64_t flushing_ns = sum(run.flush_ns);
  if (!run.unseen.syncs && flushing_ns > 0 && flushing_ns < run.ns) {
    ceilings.free_flushes = per_s(run.syncs.all(), run.ns - flushing_ns);
  }
  Rates rates = rates_of(run);
  if (rates.requests_per_s.value_or(0) > 0) {
    ceilings.perfect_sharing = threads * *rates.requests_per_s;
  }
  return ceilings;
}

std::optional<double> idle_share(const Tally& tally) {
  if (tally.ns == 0 || tally.unseen.idle()) return std::nullopt;
  return static_cast<double>(sum(tally.idle_ns)) / static_cast<double>(tally.ns);
}

}  // namespace stalltrace::batching

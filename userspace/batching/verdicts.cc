#include "userspace/batching/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "userspace/base/units.h"
#include "userspace/batching/figures.h"

namespace stalltrace::batching {
namespace {

std::vector<double> commit_sharing(const Rung& rung) {
  std::vector<double> shares;
  for (const Tally& loop : rung.loops) {
    shares.push_back(rates_of(loop).syncs_per_commit.value_or(0));
  }
  return shares;
}

// How many files a sync call is for, against the reference.
double files_per_sync(const Tally& run, const Tally& reference) {
  auto of = [](const Tally& tally) {
    return static_cast<double>(tally.files) /
           static_cast<double>(std::max<uint64_t>(tally.syncs.all(), 1));
  };
  return of(reference) > 0 ? of(run) / of(reference) : 1;
}

// "" where each file has a sync call of its own, as in the reference.
std::string files_per_sync_text(const Rung& rung, const Rung& reference) {
  if (rung.sum().unseen.syncs) return "";
  double per_sync = files_per_sync(rung.sum(), reference.sum());
  if (per_sync >= 0.95 && per_sync <= 1.05) return "";
  return fmt::format("x{:.2f} by files per sync call, ", per_sync);
}

std::string threads_text(unsigned threads) {
  return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
}

std::string under(const Rung& rung) {
  return (rung.setting.empty() ? "" : " with " + rung.setting) +
         (rung.device.empty() ? "" : " on " + rung.device);
}

Verdict gain_verdict(const Rung& rung, const Rung& first) {
  Verdict verdict;
  verdict.about = fmt::format("gain of {}{}", threads_text(rung.threads), under(rung));
  verdict.effect = effect_of(rung.files_per_s(), first.files_per_s());
  Gain gain = gain_of(rung.sum(), first.sum());
  double times = verdict.effect.ratio;
  std::string because =
      gain.factors
          ? fmt::format(
                "x{:.2f} by shared commits, x{:.2f} by shared flushes, x{:.2f} by "
                "the rate of flushes",
                gain.factors->commit_sharing, gain.factors->flush_sharing, gain.factors->flush_rate)
      : gain.without_flush
          ? fmt::format("x{:.2f} by shared commits, x{:.2f} by commits a second; no flush to share",
                        gain.without_flush->commit_sharing, gain.without_flush->commit_rate)
          : gain.missing;
  because = files_per_sync_text(rung, first) + because;
  switch (finding_of(verdict.effect)) {
    case Finding::kMore:
      verdict.text =
          fmt::format("{} threads put {:.2f} times as many files on disk a second as {}: {} ({})",
                      rung.threads, times, first.threads, because, interval_text(verdict.effect));
      break;
    case Finding::kLess:
      verdict.text = fmt::format(
          "{} threads put only {:.2f} times as many files on disk a second as {}: {} ({})",
          rung.threads, times, first.threads, because, interval_text(verdict.effect));
      break;
    case Finding::kNone:
      verdict.text =
          fmt::format("{} threads put as many files on disk a second as {}: nothing is gained ({})",
                      rung.threads, first.threads, interval_text(verdict.effect));
      break;
    case Finding::kUnclear:
      verdict.text = fmt::format(
          "{} threads put {:.2f} times as many files on disk a second as {}, but the loops "
          "differ too much to be sure ({}): more loops (-L) would tell",
          rung.threads, times, first.threads, interval_text(verdict.effect));
      break;
  }
  return verdict;
}

Verdict waiting_verdict(const Rung& rung) {
  Verdict verdict;
  verdict.about =
      fmt::format("time lost to waiting, {}{}", threads_text(rung.threads), under(rung));
  verdict.effect.ratio = idle_share(rung.sum()).value_or(0);
  verdict.text = fmt::format("{:.1f} % of the time a sync waited and the device executed no flush",
                             100 * verdict.effect.ratio);
  return verdict;
}

std::string mean_time(const std::vector<uint64_t>& values) {
  if (values.empty()) return "0 s";
  return format_time(std::accumulate(values.begin(), values.end(), uint64_t{0}) / values.size());
}

// `comparisons`: how many are made like this one.
Verdict knob_verdict(const Rung& rung, const Rung& reference, size_t comparisons) {
  Verdict verdict;
  verdict.comparisons = comparisons;
  verdict.about = fmt::format("{}, {}{}", rung.setting, threads_text(rung.threads),
                              rung.device.empty() ? "" : " on " + rung.device);
  verdict.effect = effect_of(rung.files_per_s(), reference.files_per_s(), comparisons);
  std::string interval = interval_text(verdict.effect, comparisons);
  std::string what = "against " + reference.setting;
  switch (finding_of(verdict.effect)) {
    case Finding::kMore:
    case Finding::kLess:
      verdict.text = fmt::format("{}: {:.2f} times as many files a second ({})", what,
                                 verdict.effect.ratio, interval);
      break;
    case Finding::kNone:
      verdict.text = fmt::format("{}: no effect ({})", what, interval);
      break;
    case Finding::kUnclear:
      verdict.text = fmt::format("{}: no effect that these loops could show ({})", what, interval);
      break;
  }
  Tally ours = rung.sum();
  Tally theirs = reference.sum();
  if (!ours.unseen.syncs && (!ours.batch_wait_ns.empty() || !theirs.batch_wait_ns.empty())) {
    verdict.text += fmt::format("; {} calls slept {} for others to join (before: {}, {})",
                                ours.batch_wait_ns.size(), mean_time(ours.batch_wait_ns),
                                theirs.batch_wait_ns.size(), mean_time(theirs.batch_wait_ns));
    if (!ours.unseen.commits && !ours.unseen.handles) {
      verdict.text += fmt::format(", commits waited {} for open handles (before: {})",
                                  mean_time(ours.handles_ns), mean_time(theirs.handles_ns));
    }
  }
  return verdict;
}

const Rung& best_of(const std::vector<const Rung*>& ladder) {
  const Rung* best = ladder.back();
  double most = 0;
  for (const Rung* rung : ladder) {
    double times = effect_of(rung->files_per_s(), ladder.front()->files_per_s()).ratio;
    if (times > most) {
      most = times;
      best = rung;
    }
  }
  return *best;
}

std::string more_files(const Rung& best, const Rung& first, const Effect& effect) {
  return fmt::format("{} put {:.1f} times as many files on disk a second as {}",
                     threads_text(best.threads), effect.ratio, threads_text(first.threads));
}

constexpr const char* kNoGain = "more threads do not put more files on disk a second";

// The whole ladder in one sentence: from its first rung to its best.
Verdict ladder_verdict(const Rung& best, const Rung& first) {
  Verdict verdict;
  verdict.about = "batching" + under(first);
  verdict.effect = effect_of(best.files_per_s(), first.files_per_s());
  Gain gain = gain_of(best.sum(), first.sum());
  double shared = gain.factors ? gain.factors->commit_sharing * gain.factors->flush_sharing *
                                     files_per_sync(best.sum(), first.sum())
                               : 1;
  std::string times = more_files(best, first, verdict.effect);
  if (finding_of(verdict.effect) != Finding::kMore) {
    verdict.text =
        fmt::format("there is none to win: {} ({})", kNoGain, interval_text(verdict.effect));
  } else if (!gain.factors) {
    verdict.text = fmt::format("{} ({}); by what is not known: {}", times,
                               interval_text(verdict.effect), gain.missing);
  } else if (shared > 1.1) {
    verdict.text = fmt::format("it wins on this device: {}, x{:.2f} of it by sharing ({})", times,
                               shared, interval_text(verdict.effect));
  } else {
    verdict.text =
        fmt::format("{}, but not by sharing (x{:.2f}): the device takes more at once ({})", times,
                    shared, interval_text(verdict.effect));
  }
  return verdict;
}

// Where no flush reaches the device there is none to share; what threads still share is software.
std::vector<Verdict> flushless_verdicts(const Rung& best, const Rung& first, const Gain& gain) {
  Verdict device;
  device.about = "batching" + under(first);
  device.text = "no flush to share, so there is none to win from the device: " + gain.missing;
  Verdict software;
  software.about = "commits shared" + under(first);
  software.effect = effect_of(commit_sharing(best), commit_sharing(first));
  Effect rate = effect_of(best.files_per_s(), first.files_per_s());
  std::string times = finding_of(rate) == Finding::kMore ? more_files(best, first, rate) : kNoGain;
  software.text = fmt::format(
      "{} ({}): {}x{:.2f} by shared commits ({}), x{:.2f} by commits a second. A commit takes {} "
      "there, of writes, wake-ups and CPUs",
      times, interval_text(rate), files_per_sync_text(best, first), software.effect.ratio,
      interval_text(software.effect), gain.without_flush->commit_rate,
      mean_time(first.sum().commit_ns));
  return {device, software};
}

// Nothing for a setting that is itself what others are compared with.
const Rung* reference_of(const std::vector<Rung>& rungs, const Rung& rung) {
  if (rung.setting == rung.reference) return nullptr;
  for (const Rung& other : rungs) {
    if (other.device == rung.device && other.threads == rung.threads &&
        other.setting == rung.reference) {
      return &other;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<double> Rung::files_per_s() const {
  std::vector<double> rates;
  for (const Tally& loop : loops) rates.push_back(rates_of(loop).files_per_s);
  return rates;
}

Tally Rung::sum() const {
  Tally all;
  for (const Tally& loop : loops) all += loop;
  return all;
}

const Rung& first_rung(const std::vector<Rung>& rungs, const Rung& rung) {
  return *std::find_if(rungs.begin(), rungs.end(),
                       [&](const Rung& other) { return other.same_ladder(rung); });
}

std::vector<Verdict> verdicts_of(const std::vector<Rung>& rungs) {
  std::vector<Verdict> verdicts;
  for (const Rung& rung : rungs) {
    if (&first_rung(rungs, rung) != &rung) continue;
    std::vector<const Rung*> ladder;
    for (const Rung& other : rungs) {
      if (other.same_ladder(rung)) ladder.push_back(&other);
    }
    if (ladder.size() < 2) continue;
    const Rung& best = best_of(ladder);
    Gain gain = gain_of(best.sum(), rung.sum());
    if (gain.without_flush) {
      for (Verdict& one : flushless_verdicts(best, rung, gain)) verdicts.push_back(std::move(one));
    } else {
      verdicts.push_back(ladder_verdict(best, rung));
    }
  }
  auto comparisons =
      static_cast<size_t>(std::count_if(rungs.begin(), rungs.end(), [&](const Rung& rung) {
        return reference_of(rungs, rung) != nullptr;
      }));
  for (const Rung& rung : rungs) {
    const Rung& first = first_rung(rungs, rung);
    if (&first != &rung) verdicts.push_back(gain_verdict(rung, first));
    if (idle_share(rung.sum())) verdicts.push_back(waiting_verdict(rung));
    const Rung* reference = reference_of(rungs, rung);
    if (reference != nullptr) verdicts.push_back(knob_verdict(rung, *reference, comparisons));
  }
  return verdicts;
}

}  // namespace stalltrace::batching

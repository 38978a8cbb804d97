#include "userspace/report/beside.h"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/base/units.h"
#include "userspace/batching/figures.h"
#include "userspace/report/batch.h"

namespace stalltrace::report {
namespace {

std::string host_text(const BatchHost& host) {
  return fmt::format("{}, {} CPU{}{}", host.arch, host.cpus, host.cpus == 1 ? "" : "s",
                     host.cpu.empty() ? "" : ", " + host.cpu);
}

std::string load_text(const BatchLoad& load) {
  return fmt::format("{} files of {}", load.files, format_size(load.file_bytes));
}

// How many of its runs ran here, too.
size_t counterparts(const BatchReport& report, const OtherBatch& other) {
  return static_cast<size_t>(
      std::count_if(other.runs.begin(), other.runs.end(),
                    [&](const OtherRun& run) { return counterpart_of(report, run) != nullptr; }));
}

std::string host_note(const BatchReport& report, const OtherBatch& other) {
  if (other.host.cpu.empty()) {
    return fmt::format(
        "Linux {} on {}: whether it is the same kind of host is not told, so its ratios to ours "
        "may "
        "be the host's",
        other.host.kernel, host_text(other.host));
  }
  if (same_host(other.host, report.host)) {
    return fmt::format("Linux {} on the same kind of host ({})", other.host.kernel,
                       host_text(other.host));
  }
  return fmt::format(
      "Linux {} on another host ({}; here {}): its ratios to ours are the hosts' as much as the "
      "kernels'",
      other.host.kernel, host_text(other.host), host_text(report.host));
}

std::string finding_text(const batching::Effect& effect) {
  switch (batching::finding_of(effect)) {
    case batching::Finding::kMore:
    case batching::Finding::kLess:
      break;
    case batching::Finding::kNone:
      return "as many files a second as here";
    case batching::Finding::kUnclear:
      if (effect.low) return "no difference that these loops could show";
      break;
  }
  return fmt::format("{:.2f} times as many files a second as here", effect.ratio);
}

}  // namespace

bool same_host(const BatchHost& a, const BatchHost& b) {
  return !a.cpu.empty() && a.arch == b.arch && a.cpus == b.cpus && a.cpu == b.cpu;
}

const batching::Rung* counterpart_of(const BatchReport& report, const OtherRun& run) {
  auto found =
      std::find_if(report.rungs.begin(), report.rungs.end(), [&](const batching::Rung& ours) {
        return ours.device == run.device && ours.sync == run.sync && ours.knobs == run.knobs &&
               ours.threads == run.threads && !ours.loops.empty();
      });
  return found == report.rungs.end() ? nullptr : &*found;
}

std::optional<batching::Effect> effect_beside(const BatchReport& report, const OtherRun& run,
                                              size_t comparisons) {
  const batching::Rung* ours = counterpart_of(report, run);
  if (ours == nullptr) return std::nullopt;
  // As in the tables: over all the loops.
  double rate = batching::rates_of(ours->sum()).files_per_s;
  batching::Effect effect =
      batching::unpaired_effect_of(run.loops, ours->files_per_s(), comparisons);
  if (run.loops.empty() && rate > 0) effect.ratio = run.files_per_s / rate;
  return effect;
}

size_t comparisons_beside(const BatchReport& report) {
  size_t count = 0;
  for (const OtherBatch& other : report.beside) count += counterparts(report, other);
  return count;
}

std::string label_of(const BatchReport& report, const OtherBatch& other) {
  auto alike =
      std::count_if(report.beside.begin(), report.beside.end(),
                    [&](const OtherBatch& one) { return one.host.kernel == other.host.kernel; });
  if (alike == 1 && other.host.kernel != report.host.kernel) return other.host.kernel;
  return fmt::format("{} ({})", other.host.kernel,
                     other.file.substr(other.file.find_last_of('/') + 1));
}

std::vector<std::string> notes_beside(const BatchReport& report, const OtherBatch& other) {
  std::vector<std::string> notes{host_note(report, other)};
  if (other.load && (other.load->files != report.load.files ||
                     other.load->file_bytes != report.load.file_bytes)) {
    notes.push_back(fmt::format("its threads wrote {} each; here {}", load_text(*other.load),
                                load_text(report.load)));
  } else if (!other.load) {
    notes.push_back("its work: " + other.work);
  }
  if (other.version != report.version) {
    notes.push_back(fmt::format("stalltrace {} made it; here {}", other.version, report.version));
  }
  if (counterparts(report, other) == 0) {
    notes.emplace_back(
        "none of its runs is compared: none ran on the same kind of device in the same mode with "
        "as "
        "many threads as one here");
  }
  for (std::string& note : notes) note = fmt::format("beside {}: {}", other.file, note);
  return notes;
}

std::vector<batching::Verdict> verdicts_beside(const BatchReport& report) {
  size_t comparisons = comparisons_beside(report);
  std::vector<batching::Verdict> verdicts;
  for (const OtherBatch& other : report.beside) {
    for (const OtherRun& run : other.runs) {
      std::optional<batching::Effect> effect = effect_beside(report, run, comparisons);
      if (!effect) continue;
      std::string interval = run.loops.empty()
                                 ? "its loops are not told: no interval"
                                 : batching::interval_text(*effect, comparisons) + ", no pairs";
      verdicts.push_back({.about = fmt::format("Linux {}, {} thread{}{}{}", label_of(report, other),
                                               run.threads, run.threads == 1 ? "" : "s",
                                               run.setting.empty() ? "" : " with " + run.setting,
                                               run.device.empty() ? "" : " on " + run.device),
                          .text = fmt::format("{} ({})", finding_text(*effect), interval),
                          .effect = *effect,
                          .comparisons = comparisons});
    }
  }
  return verdicts;
}

}  // namespace stalltrace::report

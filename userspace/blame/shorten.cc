#include "userspace/blame/shorten.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"

namespace stalltrace::blame {
namespace {

CauseKind kind_for(RootKind root) {
  switch (root) {
    case RootKind::kDeviceFlush:
      return CauseKind::kFlush;
    case RootKind::kDeviceWrite:
    case RootKind::kDeviceRead:
    case RootKind::kDeviceQueue:
    case RootKind::kDeviceHung:
      return CauseKind::kRequest;
    case RootKind::kReaders:
      return CauseKind::kHolder;
    case RootKind::kKnob:
      return CauseKind::kKnob;
    default:
      return CauseKind::kTask;
  }
}

void gather_lengths(const Causes& causes, std::vector<uint64_t>& lengths_ns) {
  for (const Cause& cause : causes) {
    lengths_ns.push_back(cause.ns);
    gather_lengths(cause.causes, lengths_ns);
  }
}

size_t links_of(const Causes& causes) {
  size_t links = causes.size();
  for (const Cause& cause : causes) links += links_of(cause.causes);
  return links;
}

// Those of at least `least_ns` are kept; a link is never shorter than what lies inside it.
Causes without_short(Causes causes, uint64_t least_ns, const model::Trace& trace) {
  Causes kept;
  auto is_kept = [&](const Cause& cause) { return cause.ns >= least_ns; };
  for (auto at = causes.begin(); at != causes.end();) {
    if (is_kept(*at)) {
      at->causes = without_short(std::move(at->causes), least_ns, trace);
      kept.push_back(std::move(*at++));
      continue;
    }
    auto end = std::find_if(at, causes.end(), is_kept);
    Causes run(std::make_move_iterator(at), std::make_move_iterator(end));
    at = end;
    Causes sums = sums_of(run, [&](const Root& root) {
      return fmt::format("several waited in short turns for {}", phrase_of(root, trace));
    });
    Causes& shorter = sums.size() < links_of(run) ? sums : run;
    std::move(shorter.begin(), shorter.end(), std::back_inserter(kept));
  }
  return kept;
}

}  // namespace

Causes sums_of(const Causes& run, const std::function<std::string(const Root&)>& text_of_root) {
  std::vector<Root> roots;
  collect_roots(run, Sure::kMeasured, roots);
  Causes sums;
  uint64_t start_ns = run.empty() ? 0 : run.front().start_ns;
  for (Root& root : merge_roots(std::move(roots))) {
    Cause sum;
    sum.kind = kind_for(root.kind);
    sum.dev = root.dev;
    sum.task = root.task;
    sum.start_ns = start_ns;
    sum.ns = root.ns;
    sum.sure = root.sure;
    sum.text = text_of_root(root);
    sum.evidence.push_back(fmt::format("{} short turns in one stretch, summed up", run.size()));
    sum.turns = static_cast<uint32_t>(run.size());
    sum.root = std::move(root);
    start_ns += sum.ns;
    sums.push_back(std::move(sum));
  }
  return sums;
}

void shorten(Stall& stall, const model::Trace& trace, size_t most) {
  std::vector<uint64_t> lengths_ns;
  for (const Part& part : stall.parts) gather_lengths(part.causes, lengths_ns);
  if (lengths_ns.size() <= most) return;
  auto last_kept = lengths_ns.begin() + static_cast<ptrdiff_t>(most);
  std::nth_element(lengths_ns.begin(), last_kept, lengths_ns.end(), std::greater<>());
  for (Part& part : stall.parts) {
    part.causes = without_short(std::move(part.causes), *last_kept + 1, trace);
  }
}

}  // namespace stalltrace::blame

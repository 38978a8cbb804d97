#include <algorithm>
#include <numeric>

#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::blame {
namespace {

using kernel::WaitClass;

constexpr uint64_t kTwoTicksNs = 8'000'000;  // at CONFIG_HZ=250

Part plain(WaitClass wait_class, Span span, RootKind kind, const TaskName& task, Sure sure) {
  Part part;
  part.wait_class = wait_class;
  part.start_ns = span.start_ns;
  part.ns = span.ns();
  part.root = {kind, 0, task, span.ns(), sure};
  return part;
}

// Takes up to `ns` from the ends of the largest gaps.
std::vector<Span> carve(std::vector<Span>& gaps, uint64_t ns) {
  std::vector<size_t> order(gaps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return gaps[a].ns() > gaps[b].ns(); });
  std::vector<Span> taken;
  for (size_t i : order) {
    uint64_t some = std::min(ns, gaps[i].ns());
    if (some == 0) break;
    taken.push_back({gaps[i].end_ns - some, gaps[i].end_ns});
    gaps[i].end_ns -= some;
    ns -= some;
  }
  return taken;
}

uint64_t total(const std::vector<Span>& spans) {
  return std::accumulate(spans.begin(), spans.end(), uint64_t{0},
                         [](uint64_t sum, Span span) { return sum + span.ns(); });
}

}  // namespace

Part Explainer::waiting_part(const model::Wait& wait, Span span, const Trail& trail) {
  Part part = plain(class_of(wait), span, RootKind::kUnexplained, {}, Sure::kGuess);
  for (std::string_view frame : kernel::meaningful(trace_.frames(wait))) {
    part.stack.emplace_back(frame);
  }
  // Its stack says all that is known.
  if (part.wait_class != WaitClass::kOther) part.causes = explain_wait(wait, span, trail);
  return part;
}

std::vector<Part> Explainer::parts_of(const model::Call& call, uint64_t& folded_ns) {
  std::vector<Part> parts;
  std::vector<Span> gaps;
  TaskName self = task_name(call.event.task);
  Trail trail{nullptr, self, 0, call.event.dev};
  uint64_t at_ns = call.span.start_ns;
  for (const model::Wait& wait : trace_.waits_of(call.tid(), call.span)) {
    Span whole = wait.whole().clip(call.span);
    gaps.push_back({at_ns, whole.start_ns});
    at_ns = whole.end_ns;
    Span blocked = wait.blocked().clip(call.span);
    if (!blocked.empty()) parts.push_back(waiting_part(wait, blocked, trail));
    Span ready = wait.runnable().clip(call.span);
    if (!ready.empty()) {
      parts.push_back(plain(WaitClass::kCpuWait, ready, RootKind::kTaskRunnable,
                            ran_meanwhile(wait, ready), Sure::kMeasured));
      if (wait.has(wire::WAIT_QUOTA)) parts.back().causes = one(runnable(wait, ready));
    }
  }
  gaps.push_back({at_ns, call.span.end_ns});

  // Sleeps too short to be sent are known by their sum only: they stand at the ends of the largest
  // gaps, so that the sums are right though the places are not.
  std::vector<Span> slept = carve(gaps, call.event.short_blocked_ns);
  std::vector<Span> waited = carve(gaps, call.event.short_runnable_ns);
  folded_ns = total(slept) + total(waited);
  // The kernel's own account of the CPU is known to a tick at both ends. What it does not cover was
  // spent off the CPU, unseen (some tasks' switches fire no hook).
  std::vector<Span> unseen;
  if (call.event.ran_ns != 0 && total(gaps) > call.event.ran_ns + kTwoTicksNs) {
    unseen = carve(gaps, total(gaps) - call.event.ran_ns);
  }
  for (Span span : unseen) {
    parts.push_back(plain(WaitClass::kOther, span, RootKind::kUnexplained, {}, Sure::kGuess));
  }
  for (Span span : slept) {
    parts.push_back(plain(WaitClass::kOther, span, RootKind::kUnexplained, {}, Sure::kGuess));
  }
  for (Span span : waited) {
    parts.push_back(plain(WaitClass::kCpuWait, span, RootKind::kTaskRunnable, {}, Sure::kMeasured));
  }
  for (Span gap : gaps) {
    if (gap.empty()) continue;
    parts.push_back(plain(WaitClass::kCpuRun, gap, RootKind::kSelf, self, Sure::kMeasured));
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.start_ns < b.start_ns; });
  return parts;
}

}  // namespace stalltrace::blame

#include "userspace/blame/explain.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "userspace/blame/explainer.h"
#include "userspace/blame/shorten.h"
#include "userspace/blame/text.h"

namespace stalltrace::blame {
namespace {

// An ordered key of what makes two roots the same.
std::tuple<RootKind, uint32_t, uint32_t> key_of(const Root& root) {
  return {root.kind, root.dev, root.task.tid};
}

}  // namespace

void collect_roots(const Causes& causes, Sure above, std::vector<Root>& roots) {
  for (const Cause& cause : causes) {
    Sure sure = std::max(above, cause.sure);
    if (!cause.causes.empty()) {
      collect_roots(cause.causes, sure, roots);
    } else {
      roots.push_back(cause.root);
      roots.back().sure = std::max(sure, cause.root.sure);
    }
  }
}

std::vector<Root> merge_roots(std::vector<Root> roots) {
  struct Sum {
    Root root;
    std::array<uint64_t, 3> by_sure{};
  };
  std::map<std::tuple<RootKind, uint32_t, uint32_t>, Sum> sums;
  for (Root& root : roots) {
    Sum& sum = sums[key_of(root)];
    sum.by_sure[static_cast<size_t>(root.sure)] += root.ns;
    uint64_t ns = sum.root.ns + root.ns;
    sum.root = std::move(root);
    sum.root.ns = ns;
  }
  std::vector<Root> merged;
  for (auto& [key, sum] : sums) {
    // As sure as most of its time.
    const auto* most = std::max_element(sum.by_sure.begin(), sum.by_sure.end());
    sum.root.sure = static_cast<Sure>(most - sum.by_sure.begin());
    merged.push_back(std::move(sum.root));
  }
  std::stable_sort(merged.begin(), merged.end(),
                   [](const Root& a, const Root& b) { return a.ns > b.ns; });
  return merged;
}

Explainer::Explainer(const model::Trace& trace)
    : trace_(trace), classes_(trace.waits().size(), kUnknownClass) {
  for (const model::Wait& wait : trace.waits()) {
    if (wait.has(wire::WAIT_IDLE)) workers_.insert(wait.task.tid);
  }
}

Stall Explainer::explain(const model::Call& call) {
  Stall stall;
  stall.kind = static_cast<wire::wire_call_kind>(call.event.call);
  stall.task = task_name(call.event.task);
  stall.home = {.cgroup_id = call.event.cgroup,
                .cgroup = {},
                .inner_pid = call.event.inner_pid,
                .inner_tid = call.event.inner_tid,
                .mnt_ns = call.event.mnt_ns,
                .path_in_fs = model::Trace::path_in_fs(call.event),
                .inner_path = {}};
  stall.fs_dev = call.event.dev;
  stall.dev = trace_.disk_of(call.event.dev);
  stall.ino = call.event.ino;
  stall.path = trace_.path_of(call);
  stall.user_id = call.event.user_id;
  stall.start_ns = call.span.start_ns;
  stall.ns = call.span.ns();
  stall.cut = call.cut_start ? Cut::kStart : call.cut_end ? Cut::kEnd : Cut::kNone;
  stall.unfinished = call.unfinished();
  stall.parts = parts_of(call, stall.folded_ns);
  std::vector<Root> roots;
  for (const Part& part : stall.parts) {
    if (part.causes.empty()) {
      roots.push_back(part.root);
    } else {
      collect_roots(part.causes, Sure::kMeasured, roots);
    }
  }
  stall.roots = merge_roots(std::move(roots));
  return stall;
}

Stall explain(const model::Trace& trace, const model::Call& call) {
  return Explainer(trace).explain(call);
}

std::vector<Stall> explain_calls(const model::Trace& trace,
                                 const std::function<bool(const model::Call&)>& is_wanted,
                                 const std::function<void(const Stall&)>& look) {
  Explainer explainer(trace);
  std::vector<Stall> stalls;
  for (const model::Call& call : trace.calls()) {
    if (call.wanted_only() || call.event.call == wire::CALL_NONE || !is_wanted(call)) continue;
    stalls.push_back(explainer.explain(call));
    stalls.back().id = stalls.size();
    if (look) look(stalls.back());
    shorten(stalls.back(), trace);
  }
  return stalls;
}

std::vector<Stall> explain_all(const model::Trace& trace, uint64_t threshold_ns,
                               const std::function<void(const Stall&)>& look) {
  return explain_calls(
      trace, [=](const model::Call& call) { return call.span.ns() >= threshold_ns; }, look);
}

}  // namespace stalltrace::blame

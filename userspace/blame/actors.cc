#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/shorten.h"
#include "userspace/blame/text.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::blame {
namespace {

// Shorter waits for a CPU may lie between two slices that were too short to be sent.
constexpr uint64_t kShortWaitNs = 5'000'000;

// From so many links on, runs of short ones are summed up by root.
constexpr size_t kManyCauses = 64;
constexpr size_t kShortestRun = 4;
constexpr uint64_t kShortShare = 100;  // of the whole

}  // namespace

Cause Explainer::runnable(const model::Wait& wait, Span span) const {
  TaskName task = task_name(wait.task);
  TaskName ran = ran_meanwhile(wait, span);
  Cause cause;
  cause.kind = CauseKind::kTask;
  cause.id = std::to_string(task.tid);
  cause.task = task;
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.text = ran.tid != 0
                   ? fmt::format("{} waited for a CPU, where {} ran", text_of(task), text_of(ran))
                   : fmt::format("{} waited for a CPU", text_of(task));
  if (wait.has(wire::WAIT_QUOTA)) {
    cause.text = fmt::format("{} was ready to run, but the CPU quota of its cgroup was used up",
                             text_of(task));
    cause.evidence.emplace_back(
        "the scheduler counts its cgroup as stopped by the quota (cpu.max) for most of that time");
    cause.evidence.push_back(ran.tid != 0 ? fmt::format("{} ran on its CPU meanwhile", text_of(ran))
                                          : "no other task had its CPU for most of that time");
  }
  cause.root = {RootKind::kTaskRunnable, 0, ran, span.ns(), Sure::kMeasured};
  return cause;
}

TaskName Explainer::ran_instead_of(const TaskName& task, Span span) const {
  const model::Wait* longest = nullptr;
  auto waited_ns = [&](const model::Wait& wait) { return wait.runnable().clip(span).ns(); };
  for (const model::Wait& wait : trace_.waits_of(task.tid, span)) {
    if (longest == nullptr || waited_ns(wait) > waited_ns(*longest)) longest = &wait;
  }
  return longest != nullptr && waited_ns(*longest) > 0 ? ran_meanwhile(*longest, span) : TaskName{};
}

TaskName Explainer::ran_meanwhile(const model::Wait& wait, Span span) const {
  Span waited = wait.runnable().clip(span);
  std::map<uint32_t, uint64_t> had_ns;
  const wire::wire_task* most = &wait.ran_before;
  uint64_t most_ns = 0, known_ns = 0;
  for (const model::Slice* slice : trace_.slices(wait.cpu, waited)) {
    if (slice->task.tid == wait.task.tid) continue;
    uint64_t ns = slice->span.clip(waited).ns();
    known_ns += ns;
    uint64_t& sum = had_ns[slice->task.tid];
    sum += ns;
    if (sum > most_ns) {
      most_ns = sum;
      most = &slice->task;
    }
  }
  if (known_ns * 2 >= waited.ns()) return task_name(*most);
  // Many short slices: for a short wait the last one stands for all, else nobody does.
  return waited.ns() < kShortWaitNs ? task_name(wait.ran_before) : TaskName{};
}

Cause Explainer::running(const TaskName& task, Span span, Sure sure) const {
  Cause cause;
  cause.kind = CauseKind::kTask;
  cause.id = std::to_string(task.tid);
  cause.task = task;
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.text = fmt::format("{} was running", text_of(task));
  cause.sure = sure;
  cause.root = {RootKind::kTaskCpu, 0, task, span.ns(), sure};
  return cause;
}

Cause Explainer::unexplained(Span span, std::string text, CauseKind kind) const {
  Cause cause;
  cause.kind = kind;
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.text = std::move(text);
  cause.sure = Sure::kGuess;
  cause.root = {RootKind::kUnexplained, 0, {}, span.ns(), Sure::kGuess};
  return cause;
}

// `task` is further up on the trail: something below it waits for it again.
Cause Explainer::cycle(const TaskName& task, Span span, const Trail& trail) const {
  const Trail* next = &trail;
  while (next->above != nullptr && next->above->task.tid != task.tid) next = next->above;
  Cause cause = unexplained(span, fmt::format("a cycle: {} waits for {}, which waits for {}",
                                              text_of(task), text_of(next->task), text_of(task)));
  cause.id = std::to_string(task.tid);
  cause.task = task;
  for (const Trail* at = &trail; at->above != nullptr && at->task.tid != task.tid; at = at->above) {
    cause.evidence.push_back(
        fmt::format("{} waits for {}", text_of(at->above->task), text_of(at->task)));
  }
  cause.evidence.push_back(fmt::format("{} waits for {}", text_of(trail.task), text_of(task)));
  return cause;
}

// ": do_get_write_access < ext4_dirty_inode", "" without a stack.
const std::string& Explainer::where(const model::Wait& wait) {
  auto [known, is_new] = wheres_.try_emplace(wait.stack);
  if (is_new) {
    for (std::string_view frame : kernel::meaningful(trace_.frames(wait), 4)) {
      known->second += known->second.empty() ? ": " : " < ";
      known->second += frame;
    }
  }
  return known->second;
}

// Were the task's sleeps recorded then? If so, a time without one is time on a CPU. A journal
// thread's are while it commits; between commits it is idle, and that is not recorded.
bool Explainer::is_watched(const TaskName& task, Span span) const {
  if (uint32_t dev = trace_.journal_of(task.tid); dev != 0) {
    return !trace_.commits(dev, span).empty();
  }
  // A worker's last idle time is sent with whatever it did for others.
  return !trace_.waits_of(task.tid, span).empty() || trace_.has_calls(task.tid, span) ||
         workers_.contains(task.tid);
}

Causes Explainer::timeline(const TaskName& task, Span span, const Trail& trail) {
  if (span.empty()) return {};
  if (task.tid == 0) return one(unexplained(span, "nobody was seen"));
  if (trail.find(task.tid) != nullptr) return one(cycle(task, span, trail));
  if (trail.depth >= kMaxDepth) {
    return one(
        unexplained(span, fmt::format("{}: the chain is too long to follow", text_of(task))));
  }
  Trail here{&trail, task, trail.depth + 1, trail.dev};
  Tiling tiling(span);
  for (const model::Wait& wait : trace_.waits_of(task.tid, span)) {
    tiling.put(wait.blocked(), [&](Span piece) {
      Causes causes = explain_wait(wait, piece, here);
      causes.front().evidence.insert(causes.front().evidence.begin(),
                                     fmt::format("{} slept in {}{}", text_of(task),
                                                 kernel::name_of(class_of(wait)), where(wait)));
      return causes;
    });
    tiling.put(wait.runnable(), [&](Span piece) { return runnable(wait, piece); });
  }
  bool watched = is_watched(task, span);
  if (uint32_t dev = trace_.journal_of(task.tid); dev != 0) {
    for (const model::Commit* commit : trace_.commits(dev, span)) {
      tiling.put(commit->span(), [&](Span piece) { return running(task, piece, Sure::kMeasured); });
    }
    watched = false;
  }
  tiling.fill([&](Span gap) {
    if (watched) return running(task, gap, Sure::kMeasured);
    if (gap.ns() <= kSmallGapNs) return running(task, gap, Sure::kGuess);
    Cause cause = unexplained(gap, fmt::format("what {} did then was not recorded", text_of(task)));
    cause.task = task;
    return cause;
  });
  return fold_short(task, span, std::move(tiling).take());
}

// A task that slept a thousand times for a moment gets a line per root, not a thousand: the sums
// stay exact, the places inside the run do not.
Causes Explainer::fold_short(const TaskName& task, Span span, Causes causes) const {
  if (causes.size() < kManyCauses) return causes;
  auto is_short = [&](const Cause& cause) {
    return cause.causes.empty() && cause.ns < span.ns() / kShortShare;
  };
  Causes folded;
  for (auto at = causes.begin(); at != causes.end();) {
    auto end = std::find_if_not(at, causes.end(), is_short);
    if (end - at < static_cast<ptrdiff_t>(kShortestRun)) {
      if (end == at) ++end;
      std::move(at, end, std::back_inserter(folded));
      at = end;
      continue;
    }
    Causes run(std::make_move_iterator(at), std::make_move_iterator(end));
    Causes sums = sums_of(run, [&](const Root& root) {
      return root.kind == RootKind::kTaskCpu && root.task.tid == task.tid
                 ? fmt::format("{} ran between short waits", text_of(task))
                 : fmt::format("{} waited in short turns for {}", text_of(task),
                               phrase_of(root, trace_));
    });
    for (Cause& sum : sums) {
      if (sum.root.kind == RootKind::kTaskRunnable) sum.task = task;
      folded.push_back(std::move(sum));
    }
    at = end;
  }
  return folded;
}

std::string Explainer::doing(const TaskName& task, Span span) {
  std::map<kernel::WaitClass, uint64_t> spent;
  uint64_t seen_ns = 0;
  for (const model::Wait& wait : trace_.waits_of(task.tid, span)) {
    if (!wait.has(wire::WAIT_IDLE)) spent[class_of(wait)] += wait.blocked().clip(span).ns();
    spent[kernel::WaitClass::kCpuWait] += wait.runnable().clip(span).ns();
    seen_ns += wait.whole().clip(span).ns();
  }
  if (seen_ns == 0 && !is_watched(task, span)) return {};
  spent[kernel::WaitClass::kCpuRun] = span.ns() - seen_ns;
  auto most = spent.begin();
  for (auto at = spent.begin(); at != spent.end(); ++at) {
    if (at->second > most->second) most = at;
  }
  std::string time = format_time(most->second);
  if (most->first == kernel::WaitClass::kCpuRun) return fmt::format("running for {}", time);
  if (most->first == kernel::WaitClass::kCpuWait) {
    return fmt::format("waiting {} for a CPU", time);
  }
  return fmt::format("itself waiting {} in {}", time, kernel::name_of(most->first));
}

}  // namespace stalltrace::blame

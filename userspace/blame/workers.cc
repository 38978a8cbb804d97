// Kernel threads that work for a file system: workers of workqueues, which are given their work,
// and threads that pause on purpose between their rounds.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::blame {
namespace {

struct Pause {
  std::string_view function;  // sleeps there itself, for a time
  std::string_view what_for;
};
constexpr Pause kPauses[] = {
    // fs/xfs/xfs_trans_ail.c: 10 to 50 ms
    {"xfsaild", "between two rounds of writing back what the XFS log holds"},
};

}  // namespace

std::string_view Explainer::pause_of(const model::Wait& wait) const {
  std::span<const std::string_view> frames = trace_.frames(wait);
  if (wait.waker_context == wire::WAKER_TASK) return {};  // not by its own timer
  std::vector<std::string_view> telling = kernel::meaningful(frames, 1);
  if (telling.empty()) return {};
  const auto* pause = std::find_if(std::begin(kPauses), std::end(kPauses), [&](const Pause& known) {
    return known.function == telling.front();
  });
  return pause != std::end(kPauses) ? pause->what_for : std::string_view();
}

// It leaves the device time to complete what it has: while there is such, that is what lasts.
Causes Explainer::explain_pause(const model::Wait& wait, Span span, const Trail& trail) {
  Tiling tiling(span);
  put_device(tiling, device_wait(wait, false, trail.dev));
  tiling.fill([&](Span gap) {
    TaskName task = task_name(wait.task);
    if (!trace_.sees_devices()) {
      return unexplained(gap, fmt::format("{} paused; what the device had to do then was not seen",
                                          text_of(task)));
    }
    Cause cause = fixed_root(wait, gap, RootKind::kKnob,
                             fmt::format("{} paused on purpose, {}, for {}", text_of(task),
                                         pause_of(wait), format_time(wait.blocked().ns())));
    cause.id = std::to_string(task.tid);
    cause.root.task = task;
    return cause;
  });
  return std::move(tiling).take();
}

const model::Wait* Explainer::last_idle(uint32_t tid, uint64_t before_ns) const {
  if (!workers_.contains(tid)) return nullptr;
  std::span<const model::Wait> all = trace_.waits_of(tid);
  auto at = std::partition_point(
      all.begin(), all.end(), [&](const model::Wait& wait) { return wait.waking_ns <= before_ns; });
  while (at != all.begin()) {
    if ((--at)->has(wire::WAIT_IDLE)) return &*at;
  }
  return nullptr;
}

Causes Explainer::work_of(const TaskName& task, Span span, uint64_t at_ns, const Trail& trail) {
  const model::Wait* idle = last_idle(task.tid, at_ns);
  bool follow = idle != nullptr && idle->waking_ns > span.start_ns &&
                trail.find(task.tid) == nullptr && trail.depth < kMaxDepth;
  if (!follow) return timeline(task, span, trail);
  Tiling tiling(span);
  Trail here{&trail, task, trail.depth + 1, trail.dev};
  tiling.put({span.start_ns, idle->waking_ns},
             [&](Span piece) { return explain_idle(*idle, piece, here); });
  tiling.fill([&](Span gap) { return timeline(task, gap, trail); });
  return std::move(tiling).take();
}

Causes Explainer::explain_idle(const model::Wait& wait, Span span, const Trail& trail) {
  // Who gave it this work may have waited for what it did before: that is no cycle.
  bool mine = trail.above != nullptr && trail.task.tid == wait.task.tid;
  Trail giver = mine ? Trail{trail.above->above, trail.above->task, trail.depth, trail.dev} : trail;
  Tiling tiling(span);
  put_device(tiling, device_wait(wait, false, trail.dev));
  tiling.fill([&](Span gap) { return explain_waker(wait, gap, giver); });
  Causes causes = std::move(tiling).take();
  causes.front().evidence.insert(
      causes.front().evidence.begin(),
      fmt::format("{} was given its work only then", text_of(task_name(wait.task))));
  return causes;
}

// A flush is handed to the driver by kblockd: who asked for it is its first member.
Explainer::Sender Explainer::sender_of(const wire::wire_request_times& request) const {
  if ((request.op & kOpMask) == kOpFlush) {
    for (const model::Flush* flush :
         trace_.flushes(request.disk, {request.issue_ns, request.issue_ns + 1})) {
      if (flush->device.start_ns != request.issue_ns || flush->members().empty()) continue;
      const wire::wire_flush_member& member = flush->members().front();
      return {task_name(member.task), member.queued_ns};
    }
    return {};
  }
  std::span<const model::Wait> known = trace_.waits_of(request.submitter);
  if (known.empty()) return {};
  return {task_name(known.front().task),
          request.start_ns != 0 ? request.start_ns : request.issue_ns};
}

// The device had completed the request, and the interrupt that ends its bios had not come to the
// one that was waited for: woken later than that, the kernel side names a request only in the same
// softirq (bpf/waits.bpf.h).
Cause Explainer::ending_request(const model::Wait& wait, Span span) const {
  Cause cause = running(task_name(wait.waker), span, Sure::kMeasured);
  cause.text = fmt::format(
      "a {} had completed; the interrupt on top of {} was still ending it "
      "and what completed with it",
      request_text(wait.waker_request), text_of(task_name(wait.waker)));
  return cause;
}

Causes Explainer::before_request(const model::Wait& wait, Span span, const Trail& trail) {
  if (span.start_ns >= wait.waker_request.complete_ns &&
      wait.waker_context == wire::WAKER_SOFTIRQ) {
    return one(ending_request(wait, span));
  }
  Sender sender = sender_of(wait.waker_request);
  bool before = span.end_ns <= sender.sent_ns;
  if (!before || sender.task.tid == 0 || sender.task.tid == wait.task.tid) {
    Cause cause = unexplained(
        span,
        fmt::format("what {} waited for {} was not seen", text_of(task_name(wait.task)),
                    before ? "before a request was sent" : "besides a request that completed"));
    cause.evidence.push_back(woken_by(wait));
    return one(std::move(cause));
  }
  Cause cause;
  cause.kind = CauseKind::kTask;
  cause.id = std::to_string(sender.task.tid);
  cause.task = sender.task;
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.sure = Sure::kInferred;
  cause.evidence.push_back(woken_by(wait));
  cause.text = fmt::format("{} had yet to send the {}", text_of(sender.task),
                           request_text(wait.waker_request));
  cause.causes = work_of(sender.task, span, sender.sent_ns, trail);
  return one(std::move(cause));
}

}  // namespace stalltrace::blame

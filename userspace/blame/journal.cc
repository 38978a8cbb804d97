#include <fmt/format.h>

#include <algorithm>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::blame {
namespace {

using model::Commit;
using model::Phase;

// Between what ends a commit's phase and the wake-up of the last who waited for it.
constexpr uint64_t kHerdNs = 5'000'000;
constexpr size_t kOthersListed = 5;

struct PhaseGroup {
  Phase first;
  Phase last;
  std::string_view name;
};
constexpr PhaseGroup kGroups[] = {
    {Phase::kPre, Phase::kPre, "before it began"},
    {Phase::kRunning, Phase::kRunning, "before it was locked"},
    {Phase::kLocked, Phase::kLocked, "locked"},
    {Phase::kData, Phase::kData, "ordered data"},
    {Phase::kLog, Phase::kLog, "journal blocks"},
    {Phase::kRecord, Phase::kRecord, "commit record"},
    {Phase::kFinish, Phase::kFinish, "finishing"},
};

// jbd2 compares transaction numbers so (include/linux/jbd2.h, tid_geq): they wrap.
bool not_after(uint32_t tid, uint32_t target) {
  return static_cast<int32_t>(target - tid) >= 0;
}

}  // namespace

uint32_t Explainer::journal_dev(const model::Wait& wait) const {
  if (uint32_t own = trace_.journal_of(wait.task.tid); own != 0) return own;
  if (wait.waker_context == wire::WAKER_TASK) {
    if (uint32_t wakers = trace_.journal_of(wait.waker.tid); wakers != 0) return wakers;
  }
  if (wait.dev != 0 && !trace_.commits(wait.dev).empty()) return wait.dev;
  const model::Call* call = trace_.call_of(wait);
  if (call != nullptr) return call->event.dev;
  // A worker outside of any call: the journal on the disk whose request ended the wait.
  if (wait.has(wire::WAIT_WAKER_REQUEST)) {
    for (uint32_t dev : trace_.journals()) {
      if (is_on(dev, wait.waker_request.disk)) return dev;
    }
  }
  return wait.dev;
}

TaskName Explainer::journal_thread(uint32_t dev, Span near) const {
  std::span<const Commit> all = trace_.commits(dev);
  auto after = std::partition_point(all.begin(), all.end(), [&](const Commit& commit) {
    return commit.span().start_ns < near.end_ns;
  });
  if (after != all.begin()) --after;
  return after == all.end() ? TaskName{} : task_name(after->event.thread);
}

const Commit* Explainer::commit_during(const model::Wait& wait) const {
  std::vector<const Commit*> commits =
      trace_.commits(journal_dev(wait), {wait.out_ns, wait.out_ns + 1});
  return commits.empty() ? nullptr : commits.back();
}

uint64_t Explainer::data_end_ns(const Commit& commit) {
  uint64_t end_ns = commit.phase(Phase::kData).end_ns;
  for (const model::Wait& wait :
       trace_.waits_of(commit.event.thread.tid, commit.phase(Phase::kLog))) {
    if (class_of(wait) == kernel::WaitClass::kCommitData) end_ns = std::max(end_ns, wait.in_ns);
  }
  return std::min(end_ns, commit.phase(Phase::kLog).end_ns);
}

uint64_t Explainer::handles_end_ns(const Commit& commit, const model::Wait** last_wait) {
  uint64_t end_ns = commit.locked().start_ns;
  if (last_wait != nullptr) *last_wait = nullptr;
  for (const model::Wait& wait : trace_.waits_of(commit.event.thread.tid, commit.locked())) {
    if (class_of(wait) != kernel::WaitClass::kCommitHandles) continue;
    end_ns = wait.waking_ns;
    if (last_wait != nullptr) *last_wait = &wait;
  }
  if (end_ns == commit.locked().start_ns) {
    // Its sleep was not seen, but handles that were still open were.
    for (const model::Handle* handle : trace_.handles(commit.event.dev, commit.event.tid)) {
      if (handle->span.overlaps(commit.locked())) end_ns = std::max(end_ns, handle->span.end_ns);
    }
  }
  return std::min(end_ns, commit.locked().end_ns);
}

Cause Explainer::handles(const Commit& commit, Span span, const Trail& trail) {
  const model::Wait* last_wait = nullptr;
  handles_end_ns(commit, &last_wait);
  TaskName waker;
  if (last_wait != nullptr && last_wait->waker_context == wire::WAKER_TASK) {
    waker = task_name(last_wait->waker);
  }
  // By stop time; only those that were open when the transaction was locked can hold it back.
  std::vector<const model::Handle*> late;
  for (const model::Handle* handle : trace_.handles(commit.event.dev, commit.event.tid)) {
    // A synchronous one may still sleep, its transaction held, after it has said goodbye.
    bool lets_go_later = (handle->event.flags & wire::HANDLE_SYNC) != 0 ||
                         (waker.tid != 0 && handle->event.task.tid == waker.tid);
    bool open_then =
        handle->span.overlaps(span) || (lets_go_later && handle->span.overlaps(commit.locked()));
    if (open_then) late.push_back(handle);
  }
  const model::Handle* last = nullptr;
  for (const model::Handle* handle : late) {
    bool by_waker = waker.tid != 0 && handle->event.task.tid == waker.tid;
    bool last_by_waker = last != nullptr && last->event.task.tid == waker.tid && waker.tid != 0;
    if (by_waker || !last_by_waker) last = handle;
  }
  TaskName holder = last != nullptr ? task_name(last->event.task) : waker;

  Cause cause;
  cause.kind = CauseKind::kHandle;
  cause.dev = trace_.disk_of(commit.event.dev);
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  if (holder.tid == 0 || holder.tid == commit.event.thread.tid) {
    return unexplained(
        span, fmt::format("the handle that held commit {} back was not seen", commit.event.tid),
        CauseKind::kHandle);
  }
  cause.id = fmt::format("{}/{}", commit.event.tid, holder.tid);
  cause.task = holder;
  std::string did = doing(holder, span);
  if (!did.empty()) did = ", " + did;
  if (last != nullptr) {
    bool woke = waker.tid == holder.tid;
    cause.sure = woke ? Sure::kMeasured : Sure::kInferred;
    cause.text =
        fmt::format("the handle: {} ({}){}", text_of(holder), handle_text(last->event.type), did);
    cause.evidence.push_back(
        last->unfinished()
            ? fmt::format("its handle of transaction {} is still open", commit.event.tid)
            : fmt::format("its handle of transaction {} was the last to end, {} after the locking",
                          commit.event.tid,
                          format_time(last->span.end_ns -
                                      std::min(last->span.end_ns, commit.locked().start_ns))));
    if (woke) {
      cause.evidence.push_back(fmt::format("it woke {}", text_of(task_name(commit.event.thread))));
    }
    size_t listed = 0;
    for (const model::Handle* other : late) {
      if (other == last || listed++ == kOthersListed) continue;
      cause.evidence.push_back(fmt::format(
          "also open then: {} ({}), for {}", text_of(task_name(other->event.task)),
          handle_text(other->event.type), format_time(other->span.clip(commit.locked()).ns())));
    }
  } else {
    cause.sure = Sure::kInferred;
    cause.text = fmt::format("the handle: {} let it go{}", text_of(holder), did);
    cause.evidence.push_back(fmt::format("it woke {} out of its wait for handles",
                                         text_of(task_name(commit.event.thread))));
  }
  cause.causes = timeline(holder, span, trail);
  return cause;
}

Cause Explainer::locked_commit(const Commit& commit, Span span, const Trail& trail, Sure sure) {
  uint64_t handles_end = handles_end_ns(commit);
  Cause cause;
  cause.kind = CauseKind::kCommit;
  cause.id = std::to_string(commit.event.tid);
  cause.dev = trace_.disk_of(commit.event.dev);
  cause.task = task_name(commit.event.thread);
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.sure = sure;
  Tiling tiling(span);
  tiling.put({commit.locked().start_ns, handles_end},
             [&](Span piece) { return handles(commit, piece, trail); });
  tiling.fill([&](Span gap) { return timeline(cause.task, gap, trail); });
  cause.causes = std::move(tiling).take();

  bool handles_here = span.overlaps({commit.locked().start_ns, handles_end});
  size_t open = 0;
  for (const model::Handle* handle : trace_.handles(commit.event.dev, commit.event.tid)) {
    if (handle->span.overlaps(commit.locked())) ++open;
  }
  open = std::max<size_t>(open, commit.event.late_handles);
  std::string why;
  if (!handles_here) {
    why = ", being switched";
  } else if (open != 0) {
    why = fmt::format(", waiting for {} open handle{}", open, open == 1 ? "" : "s");
  } else {
    why = ", waiting for open handles";
  }
  cause.text =
      fmt::format("commit {} was locked for {}{}", commit.event.tid, format_time(cause.ns), why);
  return cause;
}

// One cause per phase of the commit that `span` meets; it must lie inside the commit.
Causes Explainer::commit_phases(const Commit& commit, Span span, const Trail& trail, Sure sure,
                                const std::vector<std::string>& evidence) {
  Causes causes;
  TaskName thread = task_name(commit.event.thread);
  uint64_t data_end = data_end_ns(commit);
  for (const PhaseGroup& group : kGroups) {
    Span phase = commit.phases(group.first, group.last);
    if (group.first == Phase::kData) phase.end_ns = data_end;
    if (group.first == Phase::kLog) phase.start_ns = data_end;
    Span piece = phase.clip(span);
    if (piece.empty()) continue;
    if (group.first == Phase::kLocked) {
      causes.push_back(locked_commit(commit, piece, trail, sure));
      continue;
    }
    Cause cause;
    cause.kind = CauseKind::kCommit;
    cause.id = std::to_string(commit.event.tid);
    cause.dev = trace_.disk_of(commit.event.dev);
    cause.task = thread;
    cause.start_ns = piece.start_ns;
    cause.ns = piece.ns();
    cause.sure = sure;
    cause.causes = timeline(thread, piece, trail);
    const Root* most = longest_root(cause.causes);
    std::string time = format_time(piece.ns());
    bool ran = most->kind == RootKind::kTaskCpu && most->task.tid == thread.tid;
    if (group.first == Phase::kData) add_ordered_data(commit, cause);
    std::string whose = group.first == Phase::kLog ? add_metadata(commit, cause) : std::string();
    cause.text = fmt::format("commit {}, {}{}: ", commit.event.tid, group.name, whose);
    cause.text += ran ? fmt::format("ran for {}", time)
                      : fmt::format("waited {} for {}", time, phrase_of(*most, trace_));
    causes.push_back(std::move(cause));
  }
  if (!causes.empty()) {
    std::vector<std::string>& last = causes.back().evidence;
    last.insert(last.end(), evidence.begin(), evidence.end());
  }
  return causes;
}

std::vector<std::string> Explainer::end_of_commit(const model::Wait& wait, const Commit& commit,
                                                  Sure& sure) const {
  bool by_thread = wait.waker.tid != 0 && wait.waker.tid == commit.event.thread.tid &&
                   wait.waker_context == wire::WAKER_TASK;
  uint64_t end_ns = commit.span().end_ns;
  if (!by_thread || wait.waking_ns < end_ns || wait.waking_ns - end_ns > kHerdNs) return {};
  sure = Sure::kMeasured;
  return {fmt::format("woken by {} {} after it ended commit {}",
                      text_of(task_name(commit.event.thread)), format_time(wait.waking_ns - end_ns),
                      commit.event.tid)};
}

Causes Explainer::explain_locked(const model::Wait& wait, Span span, const Trail& trail) {
  uint32_t dev = journal_dev(wait);
  Tiling tiling(span);
  std::vector<const Commit*> commits = trace_.commits(dev, span);
  // The one that the waiter saw locked goes first.
  std::stable_partition(commits.begin(), commits.end(), [&](const Commit* commit) {
    return commit->event.tid == wait.journal_tid;
  });
  for (const Commit* commit : commits) {
    uint64_t unlocked_ns = commit->locked().end_ns;
    bool woke = wait.waker.tid == commit->event.thread.tid && wait.waking_ns >= unlocked_ns &&
                wait.waking_ns - unlocked_ns <= kHerdNs;
    bool named = wait.journal_tid != 0 && wait.journal_tid == commit->event.tid;
    tiling.put(commit->locked(), [&](Span piece) {
      Cause cause =
          locked_commit(*commit, piece, trail, woke || named ? Sure::kMeasured : Sure::kInferred);
      if (woke) {
        cause.evidence.push_back(fmt::format("woken by {} {} after it let new handles go on",
                                             text_of(task_name(commit->event.thread)),
                                             format_time(wait.waking_ns - unlocked_ns)));
      }
      if (named) {
        cause.evidence.push_back(
            fmt::format("transaction {} was locked when the wait began", wait.journal_tid));
      }
      return cause;
    });
  }
  for (const Commit* commit : commits) {
    // The waiters are woken one after another, by a thread that may itself lose its CPU.
    if (wait.waker.tid != commit->event.thread.tid) continue;
    uint64_t unlocked_ns = commit->locked().end_ns;
    tiling.put({unlocked_ns, unlocked_ns + kHerdNs},
               [&](Span piece) { return timeline(task_name(commit->event.thread), piece, trail); });
  }
  tiling.fill([&](Span gap) -> Causes {
    if (!commits.empty() && gap.ns() <= kSmallGapNs) {
      return timeline(journal_thread(dev, gap), gap, trail);
    }
    return one(unexplained(
        gap,
        wait.journal_tid != 0
            ? fmt::format("transaction {} was locked; its commit was not seen", wait.journal_tid)
            : "no locked commit was seen then",
        CauseKind::kCommit));
  });
  return std::move(tiling).take();
}

Causes Explainer::explain_credits(const model::Wait& wait, Span span, const Trail& trail) {
  uint32_t dev = journal_dev(wait);
  Tiling tiling(span);
  for (const Commit* commit : trace_.commits(dev, span)) {
    tiling.put(commit->span(), [&](Span piece) {
      return commit_phases(*commit, piece, trail, Sure::kInferred,
                           {"the running transaction was full"});
    });
  }
  tiling.fill([&](Span gap) -> Causes {
    if (gap.ns() <= kSmallGapNs && !trace_.commits(dev).empty()) {
      return timeline(journal_thread(dev, gap), gap, trail);
    }
    return one(unexplained(gap, "the transaction was full, but no commit was seen then",
                           CauseKind::kCommit));
  });
  return std::move(tiling).take();
}

Causes Explainer::explain_commit(const model::Wait& wait, Span span, const Trail& trail) {
  uint32_t dev = journal_dev(wait);
  uint32_t target = wait.target_tid;
  if (target == 0 && wait.has(wire::WAIT_HANDLE_OPEN)) target = wait.handle_tid;
  if (target == 0) {
    const model::Call* call = trace_.call_of(wait);
    if (call != nullptr) target = call->event.sync_tid;
  }
  std::vector<const Commit*> commits = trace_.commits(dev, span);
  // What is known to come after the one wanted explains only what nothing else does.
  std::stable_partition(commits.begin(), commits.end(), [&](const Commit* commit) {
    return target == 0 || not_after(commit->event.tid, target);
  });
  bool target_seen = std::any_of(commits.begin(), commits.end(), [&](const Commit* commit) {
    return target != 0 && commit->event.tid == target;
  });
  Tiling tiling(span);
  for (const Commit* commit : commits) {
    Sure sure =
        target_seen && not_after(commit->event.tid, target) ? Sure::kMeasured : Sure::kInferred;
    std::vector<std::string> evidence = end_of_commit(wait, *commit, sure);
    if (target_seen && commit->event.tid != target) {
      evidence.push_back(
          fmt::format("commit {} was wanted; one thread commits one after another", target));
    }
    tiling.put(commit->span(),
               [&](Span piece) { return commit_phases(*commit, piece, trail, sure, evidence); });
  }
  tiling.fill([&](Span gap) -> Causes {
    if (gap.ns() <= kSmallGapNs && !trace_.commits(dev).empty()) {
      return timeline(journal_thread(dev, gap), gap, trail);
    }
    return one(unexplained(gap,
                           target != 0
                               ? fmt::format("commit {} was wanted; none was seen then", target)
                               : "a commit was wanted; none was seen then",
                           CauseKind::kCommit));
  });
  return std::move(tiling).take();
}

// Waits for room in the log: behind another checkpoint, for a commit, or for the checkpoint's I/O.
Causes Explainer::explain_space(const model::Wait& wait, Span span, const Trail& trail) {
  Handler handler = &Explainer::explain_io_or_waker;
  if (kernel::has_frame(trace_.frames(wait), "jbd2_log_wait_commit")) {
    handler = &Explainer::explain_commit;
  } else if (wait.has(wire::WAIT_LOCK)) {
    handler = &Explainer::explain_lock;
  } else if (kernel::has_frame(trace_.frames(wait), "blkdev_issue_flush")) {
    handler = &Explainer::explain_flush;
  }
  Causes causes = (this->*handler)(wait, span, trail);
  if (wait.journal_blocks == 0) return causes;
  for (Cause& cause : causes) {
    cause.evidence.push_back(
        fmt::format("of the journal's {} blocks {} were free when the wait began",
                    wait.journal_blocks, wait.journal_free));
  }
  return causes;
}

Causes Explainer::explain_handles_wait(const model::Wait& wait, Span span, const Trail& trail) {
  const Commit* commit = commit_during(wait);
  if (commit == nullptr) return explain_waker(wait, span, trail);
  return one(handles(*commit, span, trail));
}

}  // namespace stalltrace::blame

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"

namespace stalltrace::blame {

using kernel::WaitClass;

// A class is explained by one row here and one function; a class without a row is unexplained.
const Explainer::ClassRow Explainer::kClasses[] = {
    {WaitClass::kCpuWait, &Explainer::explain_cpu_wait},
    {WaitClass::kJournalLocked, &Explainer::explain_locked},
    {WaitClass::kJournalCredits, &Explainer::explain_credits},
    {WaitClass::kJournalSpace, &Explainer::explain_space},
    {WaitClass::kJournalBarrier, &Explainer::explain_waker},
    {WaitClass::kJournalBuffer, &Explainer::explain_buffer},
    {WaitClass::kJournalCommit, &Explainer::explain_commit},
    {WaitClass::kJournalFastcommit, &Explainer::explain_io_or_waker},
    {WaitClass::kJournalBatch, &Explainer::explain_knob},
    {WaitClass::kLockInode, &Explainer::explain_lock},
    {WaitClass::kLockExtent, &Explainer::explain_lock},
    {WaitClass::kLockMapping, &Explainer::explain_lock},
    {WaitClass::kLockOther, &Explainer::explain_lock},
    {WaitClass::kLogForce, &Explainer::explain_io_or_waker},
    {WaitClass::kLogSpace, &Explainer::explain_io_or_waker},
    {WaitClass::kTreeLog, &Explainer::explain_io_or_waker},
    {WaitClass::kTreeCommit, &Explainer::explain_io_or_waker},
    {WaitClass::kBlockFlush, &Explainer::explain_flush},
    {WaitClass::kBlockRead, &Explainer::explain_io_or_waker},
    {WaitClass::kBlockWrite, &Explainer::explain_io_or_waker},
    {WaitClass::kBlockTag, &Explainer::explain_tag},
    {WaitClass::kBlockDrain, &Explainer::explain_io_or_waker},
    {WaitClass::kBlockFrozen, &Explainer::explain_frozen},
    {WaitClass::kBlockWbt, &Explainer::explain_throttle},
    {WaitClass::kBlockThrottle, &Explainer::explain_throttle},
    {WaitClass::kPageWriteback, &Explainer::explain_io_or_waker},
    {WaitClass::kPageLock, &Explainer::explain_io_or_waker},
    {WaitClass::kPageDirtyThrottle, &Explainer::explain_throttle},
    {WaitClass::kMemoryReclaim, &Explainer::explain_memory},
    {WaitClass::kFsFrozen, &Explainer::explain_frozen},
    {WaitClass::kUringWait, &Explainer::explain_on_purpose},
    {WaitClass::kCommitHandles, &Explainer::explain_handles_wait},
    {WaitClass::kCommitData, &Explainer::explain_io_or_waker},
    {WaitClass::kCommitLog, &Explainer::explain_io_or_waker},
    {WaitClass::kCommitRecord, &Explainer::explain_flush},
    {WaitClass::kCommitCheckpoint, &Explainer::explain_io_or_waker},
};

namespace {

bool writes(uint32_t call) {
  switch (call) {
    case wire::CALL_READ:
    case wire::CALL_OPEN:
    case wire::CALL_FAULT:
      return false;
    default:
      return true;
  }
}

// jbd2's t_state (include/linux/jbd2.h): locked or being switched.
bool is_locked(uint32_t state) {
  return state == 1 || state == 2;
}

}  // namespace

kernel::WaitClass Explainer::class_of(const model::Wait& wait) {
  uint8_t& known = classes_[wait.id];
  if (known == kUnknownClass) known = static_cast<uint8_t>(classify(wait));
  return static_cast<WaitClass>(known);
}

kernel::WaitClass Explainer::classify(const model::Wait& wait) {
  if (wait.has(wire::WAIT_PREEMPTED)) return WaitClass::kCpuWait;
  kernel::WaitContext context;
  context.journal_thread =
      wait.has(wire::WAIT_JOURNAL_THREAD) || trace_.journal_of(wait.task.tid) != 0;
  bool starting = wait.has(wire::WAIT_STARTING_HANDLE);
  context.transaction_running = starting && wait.journal_tid != 0 && wait.journal_state == 0;
  const model::Call* call = trace_.call_of(wait);
  context.is_write = call == nullptr || writes(call->event.call);
  // One stack is many waits'.
  uint64_t key = uint64_t{wait.stack} << 3 | (context.journal_thread ? 4U : 0U) |
                 (context.transaction_running ? 2U : 0U) | (context.is_write ? 1U : 0U);
  auto [known, is_new] = by_stack_.try_emplace(key, WaitClass::kOther);
  if (is_new) known->second = kernel::classify(trace_.frames(wait), context);
  WaitClass by_stack = known->second;
  if (by_stack == WaitClass::kCommitLog) {
    const model::Commit* commit = commit_during(wait);
    return kernel::log_or_record(by_stack, wait.out_ns,
                                 commit != nullptr ? commit->event.record_ns : 0);
  }
  // PREEMPT_RT's stack does not tell an inode's lock from others: its slow path is the mutexes'
  // (seen on 6.12, kernel/locking/rwbase_rt.c is inlined). The address does.
  bool by_address = wait.has(wire::WAIT_LOCK) && wait.lock_ino != 0;
  if (by_stack == WaitClass::kLockOther && by_address) return WaitClass::kLockInode;
  if (by_stack != WaitClass::kOther) return by_stack;
  // Without a stack that tells, what the kernel side noted besides it.
  if (starting && is_locked(wait.journal_state)) return WaitClass::kJournalLocked;
  if (by_address) return WaitClass::kLockInode;
  if (wait.has(wire::WAIT_LOCK)) return WaitClass::kLockOther;
  return WaitClass::kOther;
}

Causes Explainer::explain_wait(const model::Wait& wait, Span span, const Trail& trail) {
  if (wait.has(wire::WAIT_IDLE)) return explain_idle(wait, span, trail);
  WaitClass wait_class = class_of(wait);
  const auto* row = std::find_if(std::begin(kClasses), std::end(kClasses),
                                 [&](const ClassRow& r) { return r.wait_class == wait_class; });
  Handler handler = row == std::end(kClasses) ? &Explainer::explain_other : row->explain;
  Causes causes = (this->*handler)(wait, span, trail);
  // sync(2) works through all file systems, also those that are not traced.
  if (wait.dev != 0 && kernel::has_frame(trace_.frames(wait), "ext4_sync_fs")) {
    for (Cause& cause : causes) {
      if (!cause.causes.empty() || cause.root.kind != RootKind::kUnexplained) continue;
      cause.evidence.push_back(
          fmt::format("it synced the file system on {}", trace_.device_name(wait.dev)));
    }
  }
  return causes;
}

Cause Explainer::fixed_root(const model::Wait& wait, Span span, RootKind root,
                            std::string text) const {
  Cause cause;
  cause.kind = root == RootKind::kKnob ? CauseKind::kKnob : CauseKind::kTask;
  cause.dev = trace_.disk_of(wait.dev);
  cause.task = task_name(wait.task);
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.text = std::move(text);
  cause.root = {root, 0, {}, span.ns(), Sure::kMeasured};
  return cause;
}

Causes Explainer::explain_other(const model::Wait& wait, Span span, const Trail& trail) {
  if (!pause_of(wait).empty()) return explain_pause(wait, span, trail);
  bool idle = kernel::is_idle_journal_thread(trace_.frames(wait));
  Cause cause =
      unexplained(span, idle ? fmt::format("{} was idle", text_of(task_name(wait.task)))
                             : fmt::format("{} slept for a reason that is not in our table",
                                           text_of(task_name(wait.task))));
  cause.task = task_name(wait.task);
  if (std::string woken = woken_by(wait); !woken.empty()) cause.evidence.push_back(woken);
  return one(std::move(cause));
}

Causes Explainer::explain_knob(const model::Wait& wait, Span span, const Trail&) {
  Cause cause = fixed_root(
      wait, span, RootKind::kKnob,
      fmt::format("{} slept on purpose before it asked for the commit, so that others could join "
                  "(max_batch_time)",
                  text_of(task_name(wait.task))));
  cause.id = "max_batch_time";
  cause.root.task = task_name(wait.task);
  return one(std::move(cause));
}

Causes Explainer::explain_memory(const model::Wait& wait, Span span, const Trail&) {
  return one(fixed_root(wait, span, RootKind::kMemory,
                        fmt::format("{} waited for memory", text_of(task_name(wait.task)))));
}

Causes Explainer::explain_on_purpose(const model::Wait& wait, Span span, const Trail&) {
  Cause cause = fixed_root(
      wait, span, RootKind::kUser,
      fmt::format("{} waited for completions on purpose", text_of(task_name(wait.task))));
  cause.root.task = task_name(wait.task);
  return one(std::move(cause));
}

Causes Explainer::explain_cpu_wait(const model::Wait& wait, Span span, const Trail&) {
  return one(runnable(wait, span));
}

// Waits that a completing request ends, or a task that does the rest of the work after it.
Causes Explainer::explain_io_or_waker(const model::Wait& wait, Span span, const Trail& trail) {
  Tiling tiling(span);
  put_device(tiling, device_wait(wait, false, trail.dev));
  tiling.fill([&](Span gap) { return explain_waker(wait, gap, trail); });
  return std::move(tiling).take();
}

// What the task that ended the wait did meanwhile.
Causes Explainer::explain_waker(const model::Wait& wait, Span span, const Trail& trail) {
  TaskName waker = task_name(wait.waker);
  bool known = waker.tid != 0 && waker.tid != wait.task.tid &&
               wait.waker_context == wire::WAKER_TASK && !wait.has(wire::WAIT_WAKER_REQUEST);
  if (!known) {
    if (wait.has(wire::WAIT_WAKER_REQUEST)) return before_request(wait, span, trail);
    Cause cause = unexplained(
        span, fmt::format("what {} waited for in {} was not seen", text_of(task_name(wait.task)),
                          kernel::name_of(class_of(wait))));
    if (std::string woken = woken_by(wait); !woken.empty()) cause.evidence.push_back(woken);
    return one(std::move(cause));
  }
  Cause cause;
  cause.kind = CauseKind::kTask;
  cause.id = std::to_string(waker.tid);
  cause.task = waker;
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.sure = Sure::kInferred;
  cause.evidence.push_back(woken_by(wait));
  std::string did = doing(waker, span);
  cause.text = fmt::format("{}{}{}", text_of(waker), did.empty() ? "" : ", ", did);
  cause.causes = work_of(waker, span, wait.waking_ns, trail);
  return one(std::move(cause));
}

std::string Explainer::request_text(const wire::wire_request_times& request) const {
  return request.sector == ~uint64_t{0}
             ? fmt::format("{} of {}", op_text(request.op), trace_.device_name(request.disk))
             : fmt::format("{} of {} at sector {}", op_text(request.op),
                           trace_.device_name(request.disk), request.sector);
}

std::string Explainer::woken_by(const model::Wait& wait) const {
  if (wait.has(wire::WAIT_WAKER_REQUEST)) {
    const wire::wire_request_times& request = wait.waker_request;
    return fmt::format("woken by the completion of a {}, {} after it was issued",
                       request_text(request), format_time(request.complete_ns - request.issue_ns));
  }
  if (wait.waker.tid == 0) return {};
  if (wait.waker_context != wire::WAKER_TASK) return "woken from an interrupt";
  return fmt::format("woken by {}", text_of(task_name(wait.waker)));
}

}  // namespace stalltrace::blame

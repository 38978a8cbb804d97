#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"
#include "userspace/kernel/frames.h"
#include "userspace/model/call_names.h"

namespace stalltrace::blame {
namespace {

constexpr uint64_t kHandOverNs = 1'000'000;

constexpr std::string_view kPinned[] = {"__xfs_iunpin_wait", "xfs_iunpin_wait",
                                        "xfs_buf_wait_unpin", "xfs_extent_busy_flush"};

// What a reader did is no proof that it kept the lock: others may have held it as well.
void to_readers(Causes& causes) {
  for (Cause& cause : causes) {
    if (!cause.causes.empty()) {
      to_readers(cause.causes);
      continue;
    }
    if (cause.root.kind == RootKind::kTaskCpu || cause.root.kind == RootKind::kUnexplained) {
      cause.root = {RootKind::kReaders, 0, {}, cause.ns, Sure::kInferred};
      cause.sure = Sure::kInferred;
    }
  }
}

}  // namespace

std::vector<Explainer::Holding> Explainer::holdings(const model::Wait& wait, Span span) const {
  std::vector<Holding> known = turns(wait, span);
  name_turns(wait, known);
  for (Holding& turn : known) turn.span = turn.span.clip(span);
  std::erase_if(known, [](const Holding& turn) { return turn.span.empty(); });
  return known;
}

// What this wait tells by itself: who held the lock at its beginning, who got it meanwhile, who
// gave it up at the end.
std::vector<Explainer::Holding> Explainer::turns(const model::Wait& wait, Span span) const {
  bool reader = wait.has(wire::WAIT_LOCK) && wait.lock_owner_is_reader != 0;
  TaskName owner;
  if (wait.has(wire::WAIT_LOCK) && !reader) owner = task_name(wait.lock_owner);
  if (owner.tid == wait.task.tid) owner = {};
  TaskName waker;
  if (wait.waker_context == wire::WAKER_TASK && wait.waker.tid != wait.task.tid) {
    waker = task_name(wait.waker);
  }
  // Those who waited for the same lock and got it while this one went on waiting, in turn.
  std::vector<Holding> turns{{owner, span, Sure::kInferred, reader, {}}};
  if (owner.tid != 0) {
    turns.back().evidence = fmt::format("{} held the lock when the wait began", text_of(owner));
  }
  if (wait.lock_addr != 0) {
    // It was handed over just before: the owner word is empty then.
    Span woken_in{wait.out_ns - std::min(wait.out_ns, kHandOverNs), wait.waking_ns};
    for (const model::Wait* other : trace_.lock_waits(wait.lock_addr, woken_in)) {
      if (other->task.tid == wait.task.tid || other->has(wire::WAIT_STILL_ASLEEP)) continue;
      if (other->waking_ns < wait.out_ns && owner.tid != 0) continue;
      std::span<const model::Wait> all = trace_.waits();
      bool again = other->id + 1 < all.size() && all[other->id + 1].task.tid == other->task.tid &&
                   all[other->id + 1].lock_addr == other->lock_addr &&
                   all[other->id + 1].has(wire::WAIT_LOCK_AGAIN);
      if (again) continue;
      TaskName taker = task_name(other->task);
      turns.back().span.end_ns = std::min(turns.back().span.end_ns, other->waking_ns);
      turns.push_back(
          {taker,
           {other->waking_ns, span.end_ns},
           Sure::kInferred,
           (other->lock_flags & wire::LCB_READ) != 0,
           fmt::format("{} waited for the same lock and got it first", text_of(taker))});
    }
  }
  // The last in turn is whoever gave the lock up.
  Holding& last = turns.back();
  if (turns.size() == 1 && owner.tid != 0 && owner.tid == waker.tid) {
    last.evidence = fmt::format("{} held the lock when the wait began and gave it up at its end",
                                text_of(owner));
  }
  if (last.task.tid == 0 && waker.tid != 0) {
    last.task = waker;
    last.evidence = fmt::format("{} gave the lock up at the end", text_of(waker));
  } else if (waker.tid != 0 && last.task.tid == waker.tid) {
    last.sure = last.reader ? Sure::kInferred : Sure::kMeasured;
  } else if (waker.tid != 0) {
    // It took the lock without having to wait, we do not know when: not before its call began nor
    // while the one before it may have had it, as far as their calls tell.
    Holding next{waker, last.span, Sure::kInferred, false,
                 fmt::format("{} gave the lock up at the end", text_of(waker))};
    const model::Call* its_call =
        span.empty() ? nullptr : trace_.call_at(waker.tid, last.span.end_ns - 1);
    const model::Call* former_call = trace_.call_at(last.task.tid, last.span.start_ns);
    if (its_call != nullptr && last.span.holds(its_call->span.start_ns)) {
      next.span.start_ns = its_call->span.start_ns;
    } else if (former_call != nullptr && last.span.holds(former_call->span.end_ns)) {
      next.span.start_ns = former_call->span.end_ns;
    } else {
      next.sure = Sure::kGuess;
    }
    last.span.end_ns = next.span.start_ns;
    turns.push_back(next);
  }
  turns = without_waits(std::move(turns), wait.lock_addr);
  // In no call that is followed it may have had the lock for a moment only: an lseek.
  for (Holding& turn : turns) {
    bool known = turn.task.tid == 0 || turn.span.empty() || is_watched(turn.task, turn.span);
    if (!known) turn.perhaps = std::exchange(turn.task, TaskName{});
  }
  return turns;
}

// Whoever waits for a lock does not hold it: it had let it go before, and wants it again.
std::vector<Explainer::Holding> Explainer::without_waits(std::vector<Holding> turns,
                                                         uint64_t lock_addr) const {
  if (lock_addr == 0) return turns;
  std::vector<Holding> rest;
  for (const Holding& turn : turns) {
    uint64_t at_ns = turn.span.start_ns;
    auto held_until = [&](uint64_t end_ns) {
      if (end_ns <= at_ns) return;
      rest.push_back(turn);
      rest.back().span = {at_ns, end_ns};
    };
    if (turn.task.tid != 0) {
      for (const model::Wait& its : trace_.waits_of(turn.task.tid, turn.span)) {
        Span waited = its.blocked().clip(turn.span);
        if (!its.has(wire::WAIT_LOCK) || its.lock_addr != lock_addr || waited.empty()) continue;
        held_until(waited.start_ns);
        rest.push_back({{}, waited, Sure::kGuess, turn.reader, {}});
        at_ns = waited.end_ns;
      }
    }
    held_until(turn.span.end_ns);
  }
  return rest;
}

// A turn of nobody: those who waited for the same lock then may know more. Whoever waits while
// readers hold it waits behind a queued writer, and the writer's wait says which readers.
void Explainer::name_turns(const model::Wait& wait, std::vector<Holding>& turns) const {
  std::vector<Holding> named;
  for (Holding& turn : turns) {
    if (turn.task.tid != 0 || wait.lock_addr == 0 || turn.span.empty()) {
      if (turn.task.tid == 0) turn.task = turn.perhaps;
      named.push_back(std::move(turn));
      continue;
    }
    std::vector<Span> free{turn.span};
    auto take = [&](const Holding& holding) {
      std::vector<Span> rest;
      for (Span gap : free) {
        Span piece = holding.span.clip(gap);
        if (piece.empty()) {
          rest.push_back(gap);
          continue;
        }
        Holding one = holding;
        one.span = piece;
        named.push_back(std::move(one));
        if (gap.start_ns < piece.start_ns) rest.push_back({gap.start_ns, piece.start_ns});
        if (piece.end_ns < gap.end_ns) rest.push_back({piece.end_ns, gap.end_ns});
      }
      free = std::move(rest);
    };
    for (const model::Wait* other : trace_.lock_waits_during(wait.lock_addr, turn.span)) {
      if (other->task.tid == wait.task.tid || free.empty()) continue;
      for (Holding holding : this->turns(*other, other->blocked())) {
        if (holding.task.tid == 0 || holding.task.tid == wait.task.tid) continue;
        holding.sure = Sure::kInferred;
        holding.evidence = fmt::format("{}, as the wait of {} for the same lock tells",
                                       holding.evidence, text_of(task_name(other->task)));
        take(holding);
      }
    }
    // Whoever was busy with the inode and did not wait for the lock may have had it. The file
    // position's lock is of no inode, but of a file that is open.
    bool of_inode = wait.lock_ino != 0;
    if (of_inode || kernel::has_frame(trace_.frames(wait), "fdget_pos")) {
      for (const model::Call* call :
           trace_.calls_on(of_inode ? wait.lock_dev : wait.dev, of_inode ? wait.lock_ino : wait.ino,
                           turn.span)) {
        if (call->tid() == wait.task.tid || free.empty()) continue;
        for (const model::Wait& its : trace_.waits_of(call->tid(), call->span)) {
          if (its.lock_addr == wait.lock_addr || its.has(wire::WAIT_PREEMPTED)) continue;
          // The file position's lock comes before the inode's: waiting for it, one has neither.
          if (kernel::has_frame(trace_.frames(its), "fdget_pos")) continue;
          take({task_name(call->event.task), its.blocked(), Sure::kGuess, turn.reader,
                fmt::format("{} was in a call on the same inode and did not wait for the lock",
                            text_of(task_name(call->event.task)))});
        }
      }
    }
    for (Span gap : free) {
      named.push_back(turn);
      named.back().span = gap;
      named.back().task = turn.perhaps;
    }
  }
  std::sort(named.begin(), named.end(),
            [](const Holding& a, const Holding& b) { return a.span.start_ns < b.span.start_ns; });
  turns = std::move(named);
}

Cause Explainer::held(const model::Wait& wait, const Holding& holding, const Trail& trail) {
  Span span = holding.span;
  Cause cause;
  cause.kind = CauseKind::kHolder;
  cause.dev = trace_.disk_of(wait.lock_dev);
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.sure = holding.sure;
  if (!holding.evidence.empty()) cause.evidence.push_back(holding.evidence);
  if (holding.task.tid == 0) {
    if (!holding.reader) {
      cause = unexplained(span, "whoever held the lock was not seen", CauseKind::kHolder);
      if (std::string woken = woken_by(wait); !woken.empty()) cause.evidence.push_back(woken);
      return cause;
    }
    cause.text = "readers held the lock; who was not seen";
    cause.root = {RootKind::kReaders, 0, {}, span.ns(), cause.sure};
    return cause;
  }
  cause.task = holding.task;
  cause.id = std::to_string(holding.task.tid);
  std::string did = doing(holding.task, span);
  if (!did.empty()) did = ", " + did;
  const model::Call* call = trace_.call_at(holding.task.tid, span.start_ns);
  if (call == nullptr) call = trace_.call_at(holding.task.tid, span.end_ns - 1);
  std::string in_call =
      call != nullptr ? fmt::format(" ({})", model::call_name(call->kind())) : std::string();
  cause.text = holding.reader ? fmt::format("readers held the lock; the last to leave was {}{}{}",
                                            text_of(holding.task), in_call, did)
                              : fmt::format("the lock was held by {}{}{}", text_of(holding.task),
                                            in_call, did);
  if (wait.lock_ino != 0) {
    std::string path = trace_.path_of(wait.lock_dev, wait.lock_ino);
    cause.evidence.push_back(fmt::format(
        "the lock of inode {}{}{}, waited for to {}", wait.lock_ino, path.empty() ? "" : ", ", path,
        (wait.lock_flags & wire::LCB_READ) != 0 ? "read" : "write"));
  }
  cause.causes = work_of(holding.task, span, span.end_ns, trail);
  if (holding.reader) to_readers(cause.causes);
  return cause;
}

// A buffer that is being read or written stays locked until that is done (fs/xfs/xfs_buf.c).
// Returns when the last such I/O ended; 0: there was none, or another had the lock after it.
uint64_t Explainer::put_buffer_io(Tiling& tiling, const model::Wait& wait) {
  if (wait.lock_sector == 0 || !trace_.sees_devices()) return 0;
  uint32_t disk = trace_.disk_of(wait.lock_dev);
  uint64_t end_ns = 0;
  for (const model::Request* request : trace_.requests(disk, tiling.whole())) {
    const wire::wire_request_times& times = request->event.times;
    bool of_buffer = times.sector <= wait.lock_sector &&
                     wait.lock_sector < times.sector + times.bytes / kSectorBytes;
    if (!of_buffer || times.sector == ~uint64_t{0}) continue;
    DeviceWait device{.wait = &wait, .disk = disk, .request = times};
    device.request->complete_ns = request->span.end_ns;
    tiling.put(request->span, [&](Span piece) {
      Tiling inner(piece);
      put_flushes(inner, device);
      inner.fill([&](Span gap) {
        return request_cause(times, gap, false, request->unfinished(), Sure::kInferred);
      });
      return std::move(inner).take();
    });
    end_ns = std::max(end_ns, request->span.end_ns);
  }
  for (const model::Wait* other : trace_.lock_waits(wait.lock_addr, tiling.whole())) {
    if (other->task.tid != wait.task.tid && other->waking_ns > end_ns) return 0;
  }
  return end_ns;
}

Causes Explainer::explain_lock(const model::Wait& wait, Span span, const Trail& trail) {
  // Work that a kernel worker does for the waiter, as a lock waited for, but no lock.
  std::span<const std::string_view> frames = trace_.frames(wait);
  if (kernel::has_frame(frames, "__flush_work") ||
      kernel::has_frame(frames, "__kthread_create_on_node")) {
    return explain_waker(wait, span, trail);
  }
  // Pinned until the log has it, which is no lock either.
  if (std::any_of(std::begin(kPinned), std::end(kPinned),
                  [&](std::string_view function) { return kernel::has_frame(frames, function); })) {
    return explain_io_or_waker(wait, span, trail);
  }
  Tiling tiling(span);
  if (uint64_t io_end_ns = put_buffer_io(tiling, wait); io_end_ns != 0) {
    // Who ends the I/O lets the buffer go.
    tiling.put({io_end_ns, span.end_ns}, [&](Span gap) { return explain_waker(wait, gap, trail); });
  }
  for (const Holding& holding : holdings(wait, span)) {
    tiling.put(holding.span, [&](Span piece) {
      Holding part = holding;
      part.span = piece;
      return held(wait, part, trail);
    });
  }
  tiling.fill([&](Span gap) {
    return unexplained(gap, "whoever held the lock was not seen", CauseKind::kHolder);
  });
  return std::move(tiling).take();
}

}  // namespace stalltrace::blame

// What the trace is made of once the wire events have been checked: every interval is in order,
// nothing ends before it begins. Times are ns of CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "bpf/wire.h"
#include "userspace/model/span.h"

namespace stalltrace::model {

// "" for no task; never longer than the kernel's field.
std::string_view comm_of(const wire::wire_task& task);

// One sleep: blocked in [out_ns, waking_ns), runnable without a CPU in [waking_ns, in_ns).
struct Wait {
  wire::wire_task task{};
  uint64_t out_ns = 0;
  uint64_t waking_ns = 0;  // == out_ns for a preempted task, in_ns for one that never woke
  uint64_t in_ns = 0;
  uint64_t call_start_ns = 0;
  uint32_t flags = 0;
  uint32_t state = 0;
  uint32_t dev = 0;
  uint32_t journal_tid = 0;
  uint32_t journal_state = 0;
  uint32_t handle_tid = 0;
  uint32_t target_tid = 0;
  uint32_t waker_context = 0;
  uint32_t cpu = 0;
  wire::wire_task waker{};
  wire::wire_task ran_before{};
  uint64_t lock_addr = 0;
  uint64_t lock_ino = 0;
  uint64_t lock_sector = 0;  // of the metadata buffer whose lock it is, on lock_dev's disk
  uint32_t lock_flags = 0;
  uint32_t lock_dev = 0;
  wire::wire_task lock_owner{};
  uint32_t lock_owner_is_reader = 0;
  uint32_t stack = 0;  // StackTable id
  uint64_t ino = 0;
  uint32_t journal_blocks = 0;
  uint32_t journal_free = 0;
  wire::wire_request_times waker_request{};
  uint32_t id = 0;  // position in Trace::waits()

  [[nodiscard]] bool has(wire::wire_wait_flags flag) const { return (flags & flag) != 0; }
  [[nodiscard]] Span blocked() const { return {out_ns, waking_ns}; }
  [[nodiscard]] Span runnable() const { return {waking_ns, in_ns}; }
  [[nodiscard]] Span whole() const { return {out_ns, in_ns}; }
};

struct Call {
  wire::wire_call event{};
  Span span;  // inside the window
  bool cut_start = false;
  bool cut_end = false;
  uint32_t id = 0;  // position in Trace::calls()

  [[nodiscard]] uint32_t tid() const { return event.task.tid; }
  [[nodiscard]] wire::wire_call_kind kind() const {
    return static_cast<wire::wire_call_kind>(event.call);
  }
  // Not a stall: sent for what it did to others.
  [[nodiscard]] bool wanted_only() const {
    return (event.flags & (wire::CALL_WANTED | wire::CALL_KNOB)) != 0;
  }
  [[nodiscard]] bool unfinished() const { return (event.flags & wire::CALL_UNFINISHED) != 0; }
};

// Phases in order. A phase that was not seen has no length.
enum class Phase : uint8_t { kPre, kRunning, kLocked, kData, kLog, kRecord, kFinish };
inline constexpr size_t kPhases = 7;

struct Commit {
  wire::wire_commit event{};
  uint64_t bound_ns[kPhases + 1] = {};  // phase i is [bound_ns[i], bound_ns[i + 1])

  [[nodiscard]] Span span() const { return {bound_ns[0], bound_ns[kPhases]}; }
  [[nodiscard]] Span phase(Phase phase) const {
    auto i = static_cast<size_t>(phase);
    return {bound_ns[i], bound_ns[i + 1]};
  }
  [[nodiscard]] Span phases(Phase first, Phase last) const {
    return {bound_ns[static_cast<size_t>(first)], bound_ns[static_cast<size_t>(last) + 1]};
  }
  // New handles wait: from the locking to the flushing. First the commit itself waits for open
  // handles, when is told by its thread's sleeps.
  [[nodiscard]] Span locked() const { return phase(Phase::kLocked); }
  [[nodiscard]] bool unfinished() const { return (event.flags & wire::COMMIT_UNFINISHED) != 0; }
  // The journal's own timer asked for it, and no task.
  [[nodiscard]] bool by_timer() const {
    return event.requested_ns != 0 && event.requester.tid == 0;
  }
  // A task asked for it, and not to have something synced.
  [[nodiscard]] bool outside_sync() const { return (event.flags & wire::COMMIT_OUTSIDE_SYNC) != 0; }
};

struct Handle {
  wire::wire_handle event{};
  Span span;  // to the end of the trace if it is still open

  [[nodiscard]] bool unfinished() const { return (event.flags & wire::HANDLE_UNFINISHED) != 0; }
};

// A request that completes less than this before a flush completed with it, not beside it: a
// soft interrupt completes a batch in one go.
inline constexpr uint64_t kSameBatchNs = 1'000'000;

struct Flush {
  wire::wire_flush event{};
  Span device;          // issue to completion
  uint64_t serial = 0;  // from 1, per disk, in order of issue
  // A data request that was issued after the flush completed well before it: the device goes on
  // working beside a flush. (What it had begun before may complete during any flush.)
  bool worked_beside = false;

  // Those of the requests it served that are known one by one.
  [[nodiscard]] std::span<const wire::wire_flush_member> members() const {
    return {event.member, event.known_members};
  }
  [[nodiscard]] bool unfinished() const { return (event.flags & wire::FLUSH_UNFINISHED) != 0; }
  // Its completion passed unseen: it ended at the latest at the end of `device`.
  [[nodiscard]] bool end_unseen() const { return (event.flags & wire::FLUSH_END_UNSEEN) != 0; }
};

struct Request {
  wire::wire_request event{};
  Span span;  // start (issue where the start is unknown) to completion
  uint64_t issue_ns = 0;

  [[nodiscard]] bool unfinished() const { return (event.flags & wire::REQUEST_UNFINISHED) != 0; }
  // Its completion passed unseen: it ended at the latest at the span's end.
  [[nodiscard]] bool end_unseen() const { return (event.flags & wire::REQUEST_END_UNSEEN) != 0; }
};

// What had a CPU for long.
struct Slice {
  wire::wire_task task{};
  Span span;
};

using Throttle = wire::wire_throttle;

// A file system that was frozen.
struct Freeze {
  wire::wire_freeze event{};
  Span span;

  [[nodiscard]] bool before_window() const { return (event.flags & wire::FREEZE_CUT_START) != 0; }
};

using Async = wire::wire_async;
using Sync = wire::wire_sync;
using Dirtied = wire::wire_dirtied;

// It slept until the journal thread woke it.
inline bool waited_for_commit(const Sync& sync) {
  return (sync.flags & wire::SYNC_COMMIT_WOKE) != 0;
}

// Why events were refused or mended.
struct Oddities {
  uint64_t malformed = 0;    // not a wire event at all: too short, of no known kind
  uint64_t impossible = 0;   // ends before it begins, phases out of order: dropped or mended
  uint64_t overlapping = 0;  // two sleeps of one task at one time: the later one was cut
  uint64_t twice = 0;        // the same thing again

  [[nodiscard]] uint64_t total() const { return malformed + impossible + overlapping + twice; }
};

}  // namespace stalltrace::model

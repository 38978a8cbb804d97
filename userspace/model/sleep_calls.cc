// Calls that are known from their sleeps only: page faults and the work of io_uring's threads
// enter and leave by no hook. Every run of such sleeps becomes a call, from the first one on.

#include <algorithm>
#include <array>
#include <span>

#include "userspace/model/trace.h"

namespace stalltrace::model {
namespace {

// Sleeps of one task that lie closer together belong to one fault, or to one piece of work.
constexpr uint64_t kSameWorkNs = 500'000;

struct Entry {
  std::string_view frame;
  wire::wire_call_kind kind;
};
// The frame by which the kernel was entered. A fault inside a syscall is that call's.
constexpr std::array kEntries{
    Entry{"exc_page_fault", wire::CALL_FAULT},  // x86, since 5.8
    Entry{"do_page_fault", wire::CALL_FAULT},   // arm64; x86 before
    Entry{"io_wq_submit_work", wire::CALL_URING_WORKER},
    Entry{"io_wq_worker", wire::CALL_URING_WORKER},
    Entry{"io_sq_thread", wire::CALL_URING_SQPOLL},
    Entry{"aio_fsync_work", wire::CALL_KWORKER},
    Entry{"iomap_dio_complete_work", wire::CALL_KWORKER},
};

wire::wire_call_kind kind_of(std::span<const std::string_view> frames) {
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    for (const Entry& entry : kEntries) {
      if (frame->starts_with(entry.frame)) return entry.kind;
    }
  }
  return wire::CALL_NONE;
}

// A worker's device is learnt by what it met on its way.
uint32_t device_of(const Wait& wait) {
  if (wait.dev != 0) return wait.dev;
  if (wait.lock_dev != 0) return wait.lock_dev;
  return wait.has(wire::WAIT_WAKER_REQUEST) ? wait.waker_request.disk : 0;
}

}  // namespace

void Trace::add_sleep_calls() {
  for (size_t i = 0; i < waits_.size();) {
    const Wait& first = waits_[i];
    size_t next = i + 1;
    bool candidate = !first.has(wire::WAIT_IN_CALL) && !first.has(wire::WAIT_JOURNAL_THREAD) &&
                     !first.has(wire::WAIT_PREEMPTED);
    wire::wire_call_kind kind = candidate ? kind_of(frames(first)) : wire::CALL_NONE;
    if (kind == wire::CALL_NONE) {
      i = next;
      continue;
    }
    auto goes_on = [&](const Wait& before, const Wait& wait) {
      return wait.task.tid == first.task.tid && !wait.has(wire::WAIT_IN_CALL) &&
             wait.out_ns < before.in_ns + kSameWorkNs &&
             (wait.has(wire::WAIT_PREEMPTED) || kind_of(frames(wait)) == kind);
    };
    while (next < waits_.size() && goes_on(waits_[next - 1], waits_[next])) ++next;
    Call call;
    call.event.task = first.task;
    call.event.call = kind;
    call.event.start_ns = first.out_ns;
    call.event.end_ns = waits_[next - 1].in_ns;
    if (first.has(wire::WAIT_CUT_START)) call.event.flags |= wire::CALL_CUT_START;
    if (waits_[next - 1].has(wire::WAIT_STILL_ASLEEP)) call.event.flags |= wire::CALL_UNFINISHED;
    for (size_t at = i; at < next; ++at) {
      if (call.event.dev == 0) call.event.dev = device_of(waits_[at]);
      if (call.event.ino == 0) {
        call.event.ino = waits_[at].ino != 0 ? waits_[at].ino : waits_[at].lock_ino;
      }
    }
    if (call.event.dev != 0) calls_.push_back(call);
    i = next;
  }
}

}  // namespace stalltrace::model

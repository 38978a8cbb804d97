#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "userspace/model/trace.h"

namespace stalltrace::model {
namespace {

// CLOCK_MONOTONIC reaches this after 146 years: anything later is not a time, and below it sums of
// a few times cannot wrap.
constexpr uint64_t kLatestNs = uint64_t{1} << 62;

bool plausible(std::initializer_list<uint64_t> times) {
  for (uint64_t ns : times) {
    if (ns > kLatestNs) return false;
  }
  return true;
}

template <typename Event>
std::optional<Event> whole(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Event)) return std::nullopt;
  Event event;
  std::memcpy(&event, bytes.data(), sizeof(Event));
  return event;
}

// Of an event whose last array may be cut after its used elements.
template <typename Event>
std::optional<Event> partial(std::span<const std::byte> bytes, size_t fixed) {
  if (bytes.size() < fixed) return std::nullopt;
  Event event{};
  std::memcpy(&event, bytes.data(), std::min(bytes.size(), sizeof(Event)));
  return event;
}

}  // namespace

std::string_view comm_of(const wire::wire_task& task) {
  return {task.comm, strnlen(task.comm, sizeof(task.comm))};
}

void Trace::add(std::span<const std::byte> event) {
  if (sealed_) throw std::logic_error("model::Trace::add after seal");
  auto header = whole<wire::wire_header>(event);
  if (!header || header->size < sizeof(wire::wire_header) || header->size > event.size()) {
    ++oddities_.malformed;
    return;
  }
  std::span<const std::byte> bytes = event.first(header->size);
  auto take = [this]<typename Event>(const std::optional<Event>& decoded,
                                     void (Trace::*put)(const Event&)) {
    if (decoded) {
      (this->*put)(*decoded);
    } else {
      ++oddities_.malformed;
    }
  };
  switch (header->kind) {
    case wire::WIRE_CALL:
      take(whole<wire::wire_call>(bytes), &Trace::add_call);
      break;
    case wire::WIRE_WAIT:
      add_wait(bytes);
      break;
    case wire::WIRE_COMMIT:
      take(whole<wire::wire_commit>(bytes), &Trace::add_commit);
      break;
    case wire::WIRE_HANDLE:
      take(whole<wire::wire_handle>(bytes), &Trace::add_handle);
      break;
    case wire::WIRE_FLUSH:
      add_flush(bytes);
      break;
    case wire::WIRE_REQUEST:
      take(whole<wire::wire_request>(bytes), &Trace::add_request);
      break;
    case wire::WIRE_ASYNC:
      take(whole<wire::wire_async>(bytes), &Trace::add_async);
      break;
    case wire::WIRE_FREEZE:
      take(whole<wire::wire_freeze>(bytes), &Trace::add_freeze);
      break;
    case wire::WIRE_THROTTLE:
      take(whole<wire::wire_throttle>(bytes), &Trace::add_throttle);
      break;
    case wire::WIRE_SYNC:
      take(whole<wire::wire_sync>(bytes), &Trace::add_sync);
      break;
    case wire::WIRE_DIRTIED:
      take(whole<wire::wire_dirtied>(bytes), &Trace::add_dirtied);
      break;
    case wire::WIRE_SLICE:
      take(whole<wire::wire_slice>(bytes), &Trace::add_slice);
      break;
    default:
      ++oddities_.malformed;
      break;
  }
}

void Trace::saw(uint64_t ns) {
  if (ns == 0) return;
  if (seen_.start_ns == 0 || ns < seen_.start_ns) seen_.start_ns = ns;
  if (ns > seen_.end_ns) seen_.end_ns = ns;
}

void Trace::add_wait(std::span<const std::byte> bytes) {
  constexpr size_t kFixed = offsetof(wire::wire_wait, stack);
  auto decoded = partial<wire::wire_wait>(bytes, kFixed);
  if (!decoded || decoded->frames > wire::WIRE_FRAMES ||
      bytes.size() < kFixed + decoded->frames * sizeof(uint64_t)) {
    ++oddities_.malformed;
    return;
  }
  const wire::wire_wait& e = *decoded;
  Wait wait;
  wait.task = e.task;
  wait.out_ns = e.out_ns;
  wait.waking_ns = e.waking_ns;
  wait.in_ns = e.in_ns;
  wait.call_start_ns = e.call_start_ns;
  wait.flags = e.flags;
  wait.state = e.state;
  wait.dev = e.dev;
  wait.journal_tid = e.journal_tid;
  wait.journal_state = e.journal_state;
  wait.handle_tid = e.handle_tid;
  wait.target_tid = e.target_tid;
  wait.waker_context = e.waker_context;
  wait.cpu = e.cpu;
  wait.waker = e.waker;
  wait.ran_before = e.ran_before;
  wait.lock_addr = e.lock_addr;
  bool of_buffer = (e.lock_flags & wire::LCB_BUFFER) != 0;
  wait.lock_ino = of_buffer ? 0 : e.lock_ino;
  wait.lock_sector = of_buffer ? e.lock_ino : 0;
  wait.lock_flags = e.lock_flags;
  wait.lock_dev = e.lock_dev;
  wait.lock_owner = e.lock_owner;
  wait.lock_owner_is_reader = e.lock_owner_is_reader;
  wait.ino = e.ino;
  wait.journal_blocks = e.journal_blocks;
  wait.journal_free = e.journal_free;
  wait.waker_request = e.waker_request;

  if (wait.task.tid == 0 || wait.out_ns == 0 ||
      !plausible({wait.out_ns, wait.waking_ns, wait.in_ns}) ||
      (wait.in_ns != 0 && wait.in_ns < wait.out_ns) ||
      (wait.in_ns == 0 && !wait.has(wire::WAIT_STILL_ASLEEP))) {
    ++oddities_.impossible;
    return;
  }
  if (wait.has(wire::WAIT_PREEMPTED)) {
    wait.waking_ns = wait.out_ns;
  } else if (wait.waking_ns != 0 &&
             (wait.waking_ns < wait.out_ns || (wait.in_ns != 0 && wait.waking_ns > wait.in_ns))) {
    ++oddities_.impossible;
    wait.waking_ns = std::clamp(wait.waking_ns, wait.out_ns, std::max(wait.in_ns, wait.out_ns));
  }
  if (wait.has(wire::WAIT_WAKER_REQUEST)) {
    wire::wire_request_times& request = wait.waker_request;
    if (!plausible({request.start_ns, request.issue_ns, request.complete_ns}) ||
        request.issue_ns == 0 || request.complete_ns < request.issue_ns) {
      ++oddities_.impossible;
      wait.flags &= ~static_cast<uint32_t>(wire::WAIT_WAKER_REQUEST);
      request = {};
    } else if (request.start_ns == 0 || request.start_ns > request.issue_ns) {
      if (request.start_ns != 0) ++oddities_.impossible;
      request.start_ns = request.issue_ns;
    }
  }
  wait.stack = stacks_.intern({e.stack, e.frames});
  saw(wait.out_ns);
  saw(wait.in_ns);
  waits_.push_back(wait);
}

void Trace::add_call(const wire::wire_call& event) {
  if (event.task.tid == 0 || event.start_ns == 0 || !plausible({event.start_ns, event.end_ns}) ||
      (event.end_ns != 0 && event.end_ns < event.start_ns) ||
      (event.end_ns == 0 && (event.flags & wire::CALL_UNFINISHED) == 0)) {
    ++oddities_.impossible;
    return;
  }
  Call call;
  call.event = event;
  saw(event.start_ns);
  saw(event.end_ns);
  calls_.push_back(call);
}

void Trace::add_commit(const wire::wire_commit& event) {
  const std::array times{event.requested_ns, event.start_ns,  event.locking_ns, event.flushing_ns,
                         event.logging_ns,   event.record_ns, event.stats_ns,   event.end_ns};
  bool any = false;
  for (uint64_t ns : times) {
    if (!plausible({ns})) {
      ++oddities_.impossible;
      return;
    }
    any = any || ns != 0;
  }
  if (!any) {
    ++oddities_.impossible;
    return;
  }
  for (uint64_t ns : times) saw(ns);
  Commit commit;
  commit.event = event;
  commits_[event.dev].items.push_back(commit);
}

void Trace::add_handle(const wire::wire_handle& event) {
  bool open = (event.flags & wire::HANDLE_UNFINISHED) != 0;
  if (event.task.tid == 0 || !plausible({event.start_ns, event.stop_ns}) ||
      (!open && (event.stop_ns == 0 || event.stop_ns < event.start_ns))) {
    ++oddities_.impossible;
    return;
  }
  saw(event.start_ns);
  saw(event.stop_ns);
  Handle handle;
  handle.event = event;
  handles_.push_back(handle);
}

void Trace::add_flush(std::span<const std::byte> bytes) {
  constexpr size_t kFixed = offsetof(wire::wire_flush, member);
  auto decoded = partial<wire::wire_flush>(bytes, kFixed);
  if (!decoded || decoded->known_members > wire::WIRE_FLUSH_MEMBERS ||
      bytes.size() < kFixed + decoded->known_members * sizeof(wire::wire_flush_member)) {
    ++oddities_.malformed;
    return;
  }
  wire::wire_flush& event = *decoded;
  bool open = (event.flags & wire::FLUSH_UNFINISHED) != 0;
  if (event.issue_ns == 0 ||
      !plausible({event.first_queued_ns, event.issue_ns, event.complete_ns}) ||
      (!open && event.complete_ns < event.issue_ns)) {
    ++oddities_.impossible;
    return;
  }
  if (event.first_queued_ns > event.issue_ns) {
    ++oddities_.impossible;
    event.first_queued_ns = 0;
  }
  saw(event.issue_ns);
  if (!open) saw(event.complete_ns);
  Flush flush;
  flush.event = event;
  flushes_[event.disk].items.push_back(flush);
}

void Trace::add_request(const wire::wire_request& event) {
  bool open = (event.flags & wire::REQUEST_UNFINISHED) != 0;
  const wire::wire_request_times& times = event.times;
  if (!plausible({times.start_ns, times.issue_ns, times.complete_ns}) ||
      (times.start_ns == 0 && times.issue_ns == 0) ||
      (!open && (times.issue_ns == 0 || times.complete_ns < times.issue_ns))) {
    ++oddities_.impossible;
    return;
  }
  Request request;
  request.event = event;
  request.issue_ns = times.issue_ns;
  request.span.start_ns = times.start_ns != 0 ? times.start_ns : times.issue_ns;
  if (times.issue_ns != 0 && request.span.start_ns > times.issue_ns) {
    ++oddities_.impossible;
    request.span.start_ns = times.issue_ns;
  }
  saw(request.span.start_ns);
  if (!open) saw(times.complete_ns);
  requests_[times.disk].items.push_back(request);
}

void Trace::add_async(const wire::wire_async& event) {
  bool open = (event.flags & wire::ASYNC_UNFINISHED) != 0;
  uint64_t begin_ns = event.call_ns != 0 ? event.call_ns : event.begin_ns;
  if (begin_ns == 0 ||
      !plausible({event.call_ns, event.begin_ns, event.queued_ns, event.issue_ns, event.complete_ns,
                  event.done_ns}) ||
      (!open && event.done_ns < begin_ns)) {
    ++oddities_.impossible;
    return;
  }
  saw(begin_ns);
  if (!open) saw(event.done_ns);
  asyncs_.push_back(event);
}

void Trace::add_throttle(const wire::wire_throttle& event) {
  if (event.released_ns == 0 || !plausible({event.released_ns})) {
    ++oddities_.impossible;
    return;
  }
  saw(event.released_ns);
  throttles_[event.disk].push_back(event);
}

void Trace::add_slice(const wire::wire_slice& event) {
  if (event.start_ns == 0 || !plausible({event.start_ns, event.end_ns}) ||
      event.end_ns < event.start_ns) {
    ++oddities_.impossible;
    return;
  }
  slices_[event.cpu].items.push_back({event.task, {event.start_ns, event.end_ns}});
}

void Trace::add_sync(const wire::wire_sync& event) {
  if (event.start_ns == 0 || !plausible({event.start_ns, event.end_ns, event.flush_ns}) ||
      event.end_ns < event.start_ns) {
    ++oddities_.impossible;
    return;
  }
  saw(event.start_ns);
  saw(event.end_ns);
  syncs_.push_back(event);
}

void Trace::add_dirtied(const wire::wire_dirtied& event) {
  if (event.task.tid == 0 || event.blocks == 0) {
    ++oddities_.impossible;
    return;
  }
  dirtied_.push_back(event);
}

void Trace::add_freeze(const wire::wire_freeze& event) {
  bool open = (event.flags & wire::FREEZE_UNFINISHED) != 0;
  if (event.start_ns == 0 || !plausible({event.start_ns, event.end_ns}) ||
      (!open && event.end_ns < event.start_ns)) {
    ++oddities_.impossible;
    return;
  }
  saw(event.start_ns);
  if (!open) saw(event.end_ns);
  Freeze freeze;
  freeze.event = event;
  freezes_[event.dev].items.push_back(freeze);
}

}  // namespace stalltrace::model

#include "userspace/model/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace stalltrace::model {
namespace {

// Wire structs have no padding (wire.h asserts their sizes), so that their bytes are an order.
template <typename Event>
int compare_bytes(const Event& a, const Event& b) {
  return std::memcmp(&a, &b, sizeof(Event));
}

auto scalar_key(const Wait& w) {
  return std::tie(w.call_start_ns, w.flags, w.state, w.dev, w.journal_tid, w.journal_state,
                  w.handle_tid, w.target_tid, w.waker_context, w.lock_addr, w.lock_ino,
                  w.lock_sector, w.lock_flags, w.lock_dev, w.lock_owner_is_reader, w.ino);
}

// Total: waits that compare equal are the same.
bool wait_before(const Wait& a, const Wait& b, const StackTable& stacks) {
  auto times = [](const Wait& w) {
    return std::make_tuple(w.task.tid, w.out_ns, w.in_ns, w.waking_ns);
  };
  if (times(a) != times(b)) return times(a) < times(b);
  if (scalar_key(a) != scalar_key(b)) return scalar_key(a) < scalar_key(b);
  for (auto task : {&Wait::task, &Wait::waker, &Wait::ran_before, &Wait::lock_owner}) {
    if (int order = compare_bytes(a.*task, b.*task); order != 0) return order < 0;
  }
  if (int order = compare_bytes(a.waker_request, b.waker_request); order != 0) return order < 0;
  auto left = stacks.addresses(a.stack);
  auto right = stacks.addresses(b.stack);
  return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
}

template <typename T>
bool by_start_then_bytes(const T& a, const T& b, uint64_t start_a, uint64_t start_b) {
  return start_a != start_b ? start_a < start_b : compare_bytes(a.event, b.event) < 0;
}

template <typename T>
SpanIndex index_of(const std::vector<T>& items, Span (*span_of)(const T&)) {
  std::vector<Span> spans;
  spans.reserve(items.size());
  for (const T& item : items) spans.push_back(span_of(item));
  return SpanIndex(spans);
}

// Fills the phases that were not seen; true when what was seen is out of order.
bool set_bounds(Commit& commit, Span trace) {
  const wire::wire_commit& e = commit.event;
  const uint64_t seen[kPhases + 1] = {e.requested_ns, e.start_ns,  e.locking_ns, e.flushing_ns,
                                      e.logging_ns,   e.record_ns, e.stats_ns,   e.end_ns};
  size_t first = 0;
  while (seen[first] == 0) ++first;
  size_t last = kPhases;
  while (seen[last] == 0) --last;
  std::copy(std::begin(seen), std::end(seen), std::begin(commit.bound_ns));
  uint64_t* bound = commit.bound_ns;

  bool cut = (e.flags & wire::COMMIT_CUT_START) != 0;
  uint64_t before = cut ? std::min(trace.start_ns, seen[first]) : seen[first];
  std::fill(bound, bound + first, before);
  uint64_t after = commit.unfinished() ? std::max(trace.end_ns, seen[last]) : seen[last];
  std::fill(bound + last + 1, bound + kPhases + 1, after);
  // A phase that was not seen is empty at its end: the one before it takes the time.
  for (size_t i = last; i-- > first;) {
    if (bound[i] == 0) bound[i] = bound[i + 1];
  }
  bool odd = false;
  for (size_t i = 1; i <= kPhases; ++i) {
    if (bound[i] < bound[i - 1]) {
      bound[i] = bound[i - 1];
      odd = true;
    }
  }
  return odd;
}

}  // namespace

template <typename T>
std::vector<const T*> Trace::Line<T>::overlapping(Span span) const {
  std::vector<const T*> found;
  for (size_t i : index.overlapping(span)) found.push_back(&items[i]);
  return found;
}

Trace::Trace(Surroundings surroundings)
    : surroundings_(std::move(surroundings)), stacks_(surroundings_.stacks) {}

void Trace::seal() {
  if (sealed_) return;
  sealed_ = true;
  if (window_.empty()) window_ = seen_;
  seal_waits();
  add_sleep_calls();
  seal_calls();
  seal_commits();
  seal_handles();
  seal_dirtied();
  seal_disks();
  seal_freezes();
  seal_slices();
  std::sort(syncs_.begin(), syncs_.end(), [](const Sync& a, const Sync& b) {
    return std::tie(a.end_ns, a.task.tid) < std::tie(b.end_ns, b.task.tid);
  });
  std::sort(asyncs_.begin(), asyncs_.end(), [](const Async& a, const Async& b) {
    uint64_t start_a = a.call_ns != 0 ? a.call_ns : a.begin_ns;
    uint64_t start_b = b.call_ns != 0 ? b.call_ns : b.begin_ns;
    return start_a != start_b ? start_a < start_b : compare_bytes(a, b) < 0;
  });
}

void Trace::seal_waits() {
  uint64_t end_ns = std::max(window_.end_ns, seen_.end_ns);
  for (Wait& wait : waits_) {
    if (wait.in_ns == 0) wait.in_ns = std::max(end_ns, wait.out_ns);
    if (wait.waking_ns == 0 || wait.waking_ns > wait.in_ns) wait.waking_ns = wait.in_ns;
  }
  std::sort(waits_.begin(), waits_.end(),
            [this](const Wait& a, const Wait& b) { return wait_before(a, b, stacks_); });
  std::vector<Wait> kept;
  kept.reserve(waits_.size());
  for (Wait& wait : waits_) {
    if (!kept.empty() && kept.back().task.tid == wait.task.tid) {
      const Wait& last = kept.back();
      if (!wait_before(last, wait, stacks_)) {
        ++oddities_.twice;
        continue;
      }
      if (wait.out_ns < last.in_ns) {
        ++oddities_.overlapping;
        if (wait.in_ns <= last.in_ns) continue;
        wait.out_ns = last.in_ns;
        wait.waking_ns = std::max(wait.waking_ns, wait.out_ns);
      }
    }
    if (wait.in_ns == wait.out_ns) continue;
    kept.push_back(wait);
  }
  waits_ = std::move(kept);
  for (uint32_t i = 0; i < waits_.size(); ++i) {
    Wait& wait = waits_[i];
    wait.id = i;
    Range& range = waits_of_[wait.task.tid];
    if (range.count++ == 0) range.first = i;
    if (wait.has(wire::WAIT_LOCK) && wait.lock_addr != 0) {
      LockLine& line = lock_waits_[wait.lock_addr];
      line.by_waking.push_back(i);
      line.longest_ns = std::max(line.longest_ns, wait.blocked().ns());
    }
  }
  for (auto& [addr, line] : lock_waits_) {
    std::vector<uint32_t>& ids = line.by_waking;
    std::sort(ids.begin(), ids.end(), [this](uint32_t a, uint32_t b) {
      return std::tie(waits_[a].waking_ns, a) < std::tie(waits_[b].waking_ns, b);
    });
  }
}

void Trace::seal_calls() {
  std::vector<Call> kept;
  kept.reserve(calls_.size());
  for (Call& call : calls_) {
    bool by_path_only = call.event.dev == 0 && (call.event.flags & wire::CALL_USER_PATH) != 0;
    if (by_path_only && surroundings_.dev_of_path) {
      call.event.dev = surroundings_.dev_of_path(path_of(call));
      if (call.event.dev == 0) continue;  // of another file system
    }
    uint64_t end_ns = call.event.end_ns != 0 ? call.event.end_ns : window_.end_ns;
    Span whole{call.event.start_ns, std::max(end_ns, call.event.start_ns)};
    call.span = whole.clip(window_);
    // A call outside of the window is nobody's fault: it is left out without being counted.
    if (call.span.end_ns < call.span.start_ns) continue;
    call.cut_start =
        (call.event.flags & wire::CALL_CUT_START) != 0 || call.span.start_ns > whole.start_ns;
    call.cut_end = call.unfinished() || call.span.end_ns < whole.end_ns;
    kept.push_back(call);
  }
  // A stall before its twin that was merely wanted: the twin goes.
  std::sort(kept.begin(), kept.end(), [](const Call& a, const Call& b) {
    auto key = [](const Call& c) {
      return std::make_tuple(c.span.start_ns, c.tid(), c.event.start_ns, c.event.call,
                             c.wanted_only(), c.event.end_ns);
    };
    return key(a) != key(b) ? key(a) < key(b) : compare_bytes(a.event, b.event) < 0;
  });
  calls_.clear();
  for (Call& call : kept) {
    if (!calls_.empty()) {
      const Call& last = calls_.back();
      if (last.tid() == call.tid() && last.event.start_ns == call.event.start_ns &&
          last.event.call == call.event.call) {
        ++oddities_.twice;
        continue;
      }
    }
    call.id = static_cast<uint32_t>(calls_.size());
    calls_of_[call.tid()].push_back(call.id);
    if ((call.event.flags & wire::CALL_HAS_PATH) != 0 && call.event.ino != 0) {
      path_call_.try_emplace({call.event.dev, call.event.ino}, call.id);
    }
    if (call.event.ino != 0) calls_on_[{call.event.dev, call.event.ino}].push_back(call.id);
    if ((call.event.flags & wire::CALL_KNOB) != 0) knobs_.push_back(call.id);
    calls_.push_back(call);
  }
}

void Trace::seal_commits() {
  for (auto& [dev, line] : commits_) {
    for (Commit& commit : line.items) {
      if (set_bounds(commit, window_)) ++oddities_.impossible;
    }
    std::sort(line.items.begin(), line.items.end(), [](const Commit& a, const Commit& b) {
      return by_start_then_bytes(a, b, a.span().start_ns, b.span().start_ns);
    });
    for (uint32_t i = 0; i < line.items.size(); ++i) {
      const wire::wire_commit& event = line.items[i].event;
      if (!commit_at_.try_emplace({dev, event.tid}, i).second) ++oddities_.twice;
      if (event.thread.tid != 0) journal_threads_.try_emplace(event.thread.tid, dev);
    }
    line.index = index_of<Commit>(line.items, [](const Commit& c) { return c.span(); });
  }
}

void Trace::seal_handles() {
  for (Handle& handle : handles_) {
    const wire::wire_handle& event = handle.event;
    uint64_t start_ns = event.start_ns != 0 ? event.start_ns : window_.start_ns;
    uint64_t stop_ns = handle.unfinished() ? window_.end_ns : event.stop_ns;
    handle.span = {start_ns, std::max(stop_ns, start_ns)};
  }
  std::sort(handles_.begin(), handles_.end(), [](const Handle& a, const Handle& b) {
    auto key = [](const Handle& h) {
      return std::make_tuple(h.event.dev, h.event.tid, h.span.end_ns, h.span.start_ns);
    };
    return key(a) != key(b) ? key(a) < key(b) : compare_bytes(a.event, b.event) < 0;
  });
  for (size_t i = 0; i < handles_.size(); ++i) {
    Range& range = handles_of_[{handles_[i].event.dev, handles_[i].event.tid}];
    if (range.count++ == 0) range.first = i;
  }
}

void Trace::seal_freezes() {
  for (auto& [dev, line] : freezes_) {
    for (Freeze& freeze : line.items) {
      bool frozen = (freeze.event.flags & wire::FREEZE_UNFINISHED) != 0;
      freeze.span = {freeze.event.start_ns, frozen ? window_.end_ns : freeze.event.end_ns};
    }
    std::sort(line.items.begin(), line.items.end(), [](const Freeze& a, const Freeze& b) {
      return by_start_then_bytes(a, b, a.span.start_ns, b.span.start_ns);
    });
    line.index = index_of<Freeze>(line.items, [](const Freeze& f) { return f.span; });
  }
}

void Trace::seal_slices() {
  for (auto& [disk, list] : throttles_) {
    std::sort(list.begin(), list.end(), [](const Throttle& a, const Throttle& b) {
      return a.released_ns != b.released_ns ? a.released_ns < b.released_ns
                                            : compare_bytes(a, b) < 0;
    });
  }
  for (auto& [cpu, line] : slices_) {
    std::sort(line.items.begin(), line.items.end(), [](const Slice& a, const Slice& b) {
      return std::tie(a.span.start_ns, a.span.end_ns, a.task.tid) <
             std::tie(b.span.start_ns, b.span.end_ns, b.task.tid);
    });
    line.index = index_of<Slice>(line.items, [](const Slice& s) { return s.span; });
  }
}

// A flush whose completion passed unseen had ended when somebody who waited for it was woken, and
// when a request that was sent after it completed.
uint64_t Trace::unseen_end_ns(const Flush& flush) const {
  uint64_t end_ns = flush.device.end_ns;
  for (const wire::wire_flush_member& member : flush.members()) {
    if (member.has_data != 0) continue;  // its write and a second flush come before the wake-up
    for (const Wait& wait : waits_of(member.task.tid, flush.device)) {
      bool slept_then = wait.out_ns <= flush.device.start_ns + kSameBatchNs;
      if (slept_then && wait.waking_ns > flush.device.start_ns) {
        end_ns = std::min(end_ns, wait.waking_ns);
      }
    }
  }
  for (const Request* request : requests(flush.event.disk, flush.device)) {
    bool sent_after = request->issue_ns > flush.device.start_ns + kSameBatchNs;
    if (sent_after && !request->unfinished() && !request->end_unseen()) {
      end_ns = std::min(end_ns, request->span.end_ns);
    }
  }
  return end_ns;
}

void Trace::seal_disks() {
  for (auto& [disk, line] : flushes_) {
    for (Flush& flush : line.items) {
      const wire::wire_flush& event = flush.event;
      uint64_t end_ns = flush.unfinished() ? window_.end_ns : event.complete_ns;
      flush.device = {event.issue_ns, std::max(end_ns, event.issue_ns)};
    }
    std::sort(line.items.begin(), line.items.end(), [](const Flush& a, const Flush& b) {
      return by_start_then_bytes(a, b, a.device.start_ns, b.device.start_ns);
    });
    for (size_t i = 0; i < line.items.size(); ++i) line.items[i].serial = i + 1;
  }
  for (auto& [disk, line] : requests_) {
    for (Request& request : line.items) {
      uint64_t end_ns = request.unfinished() ? window_.end_ns : request.event.times.complete_ns;
      request.span.end_ns = std::max(end_ns, request.span.start_ns);
      if (request.issue_ns == 0) request.issue_ns = request.span.end_ns;
    }
    std::sort(line.items.begin(), line.items.end(), [](const Request& a, const Request& b) {
      return by_start_then_bytes(a, b, a.span.start_ns, b.span.start_ns);
    });
    line.index = index_of<Request>(line.items, [](const Request& r) { return r.span; });
  }
  for (auto& [disk, line] : flushes_) {
    for (Flush& flush : line.items) {
      if (flush.end_unseen()) {
        flush.device.end_ns = unseen_end_ns(flush);
        continue;
      }
      flush.worked_beside = flush.event.overtaken_ns != 0 &&
                            flush.event.overtaken_ns + kSameBatchNs < flush.device.end_ns;
    }
    line.index = index_of<Flush>(line.items, [](const Flush& f) { return f.device; });
  }
}

std::span<const Wait> Trace::waits_of(uint32_t tid) const {
  auto found = waits_of_.find(tid);
  if (found == waits_of_.end()) return {};
  return std::span(waits_).subspan(found->second.first, found->second.count);
}

std::span<const Wait> Trace::waits_of(uint32_t tid, Span span) const {
  std::span<const Wait> all = waits_of(tid);
  if (span.empty()) return {};
  auto first = std::partition_point(all.begin(), all.end(),
                                    [&](const Wait& wait) { return wait.in_ns <= span.start_ns; });
  auto last = std::partition_point(first, all.end(),
                                   [&](const Wait& wait) { return wait.out_ns < span.end_ns; });
  return {first, last};
}

std::vector<const Wait*> Trace::lock_waits(uint64_t lock_addr, Span waking_in) const {
  std::vector<const Wait*> found;
  auto line = lock_waits_.find(lock_addr);
  if (line == lock_waits_.end()) return found;
  const std::vector<uint32_t>& ids = line->second.by_waking;
  auto first = std::partition_point(ids.begin(), ids.end(), [&](uint32_t id) {
    return waits_[id].waking_ns < waking_in.start_ns;
  });
  for (; first != ids.end() && waits_[*first].waking_ns < waking_in.end_ns; ++first) {
    found.push_back(&waits_[*first]);
  }
  return found;
}

std::vector<const Wait*> Trace::lock_waits_during(uint64_t lock_addr, Span span) const {
  auto line = lock_waits_.find(lock_addr);
  if (line == lock_waits_.end()) return {};
  std::vector<const Wait*> found =
      lock_waits(lock_addr, {span.start_ns, span.end_ns + line->second.longest_ns + 1});
  std::erase_if(found, [&](const Wait* wait) { return !wait->blocked().overlaps(span); });
  return found;
}

const Call* Trace::call_at(uint32_t tid, uint64_t ns) const {
  auto found = calls_of_.find(tid);
  if (found == calls_of_.end()) return nullptr;
  auto after = std::partition_point(found->second.begin(), found->second.end(),
                                    [&](uint32_t id) { return calls_[id].span.start_ns <= ns; });
  // Calls of one task nest at most a few deep (a page fault inside a write).
  for (int steps = 0; after != found->second.begin() && steps < 8; ++steps) {
    const Call& call = calls_[*--after];
    if (call.span.holds(ns)) return &call;
  }
  return nullptr;
}

std::vector<const Call*> Trace::calls_on(uint32_t dev, uint64_t ino, Span span) const {
  std::vector<const Call*> found;
  auto ids = calls_on_.find({dev, ino});
  if (ids == calls_on_.end()) return found;
  for (uint32_t id : ids->second) {
    if (calls_[id].span.start_ns >= span.end_ns) break;
    if (calls_[id].span.overlaps(span)) found.push_back(&calls_[id]);
  }
  return found;
}

std::vector<const Call*> Trace::knobs(Span overlapping) const {
  std::vector<const Call*> found;
  for (uint32_t id : knobs_) {
    if (calls_[id].span.overlaps(overlapping)) found.push_back(&calls_[id]);
  }
  return found;
}

const Call* Trace::call_of(const Wait& wait) const {
  const Call* call = call_at(wait.task.tid, wait.out_ns);
  return call != nullptr && (wait.call_start_ns == 0 || !wait.has(wire::WAIT_IN_CALL) ||
                             call->event.start_ns == wait.call_start_ns)
             ? call
             : nullptr;
}

bool Trace::has_calls(uint32_t tid, Span span) const {
  auto found = calls_of_.find(tid);
  if (found == calls_of_.end()) return false;
  auto after = std::partition_point(found->second.begin(), found->second.end(), [&](uint32_t id) {
    return calls_[id].span.start_ns < span.end_ns;
  });
  for (int steps = 0; after != found->second.begin() && steps < 8; ++steps) {
    if (calls_[*--after].span.overlaps(span)) return true;
  }
  return false;
}

std::span<const Commit> Trace::commits(uint32_t dev) const {
  auto line = commits_.find(dev);
  if (line == commits_.end()) return {};
  return line->second.items;
}

std::vector<const Commit*> Trace::commits(uint32_t dev, Span overlapping) const {
  auto line = commits_.find(dev);
  if (line == commits_.end()) return {};
  return line->second.overlapping(overlapping);
}

const Commit* Trace::commit(uint32_t dev, uint32_t tid) const {
  auto found = commit_at_.find({dev, tid});
  return found == commit_at_.end() ? nullptr : &commits_.at(dev).items[found->second];
}

std::vector<uint32_t> Trace::journals() const {
  std::vector<uint32_t> devs;
  for (const auto& [dev, line] : commits_) devs.push_back(dev);
  return devs;
}

uint32_t Trace::journal_of(uint32_t thread_tid) const {
  auto found = journal_threads_.find(thread_tid);
  return found == journal_threads_.end() ? 0 : found->second;
}

std::vector<const Handle*> Trace::handles(uint32_t dev, uint32_t tid) const {
  std::vector<const Handle*> found;
  auto range = handles_of_.find({dev, tid});
  if (range == handles_of_.end()) return found;
  for (size_t i = 0; i < range->second.count; ++i) {
    found.push_back(&handles_[range->second.first + i]);
  }
  return found;
}

std::span<const Flush> Trace::flushes(uint32_t disk) const {
  auto line = flushes_.find(disk);
  if (line == flushes_.end()) return {};
  return line->second.items;
}

std::vector<const Flush*> Trace::flushes(uint32_t disk, Span overlapping) const {
  auto line = flushes_.find(disk);
  if (line == flushes_.end()) return {};
  return line->second.overlapping(overlapping);
}

std::span<const Request> Trace::requests(uint32_t disk) const {
  auto line = requests_.find(disk);
  if (line == requests_.end()) return {};
  return line->second.items;
}

std::vector<const Request*> Trace::requests(uint32_t disk, Span overlapping) const {
  auto line = requests_.find(disk);
  if (line == requests_.end()) return {};
  return line->second.overlapping(overlapping);
}

std::vector<const Freeze*> Trace::freezes(uint32_t dev, Span overlapping) const {
  auto line = freezes_.find(dev);
  if (line == freezes_.end()) return {};
  return line->second.overlapping(overlapping);
}

std::span<const Throttle> Trace::throttles(uint32_t disk, Span released_in) const {
  auto list = throttles_.find(disk);
  if (list == throttles_.end()) return {};
  auto before = [](uint64_t ns) { return [ns](const Throttle& t) { return t.released_ns < ns; }; };
  const std::vector<Throttle>& all = list->second;
  auto first = std::partition_point(all.begin(), all.end(), before(released_in.start_ns));
  auto last = std::partition_point(first, all.end(), before(released_in.end_ns));
  return {first, last};
}

std::vector<const Slice*> Trace::slices(uint32_t cpu, Span overlapping) const {
  auto line = slices_.find(cpu);
  if (line == slices_.end()) return {};
  return line->second.overlapping(overlapping);
}

std::vector<uint32_t> Trace::disks() const {
  std::vector<uint32_t> disks;
  for (const auto& [disk, line] : flushes_) disks.push_back(disk);
  for (const auto& [disk, line] : requests_) disks.push_back(disk);
  std::sort(disks.begin(), disks.end());
  disks.erase(std::unique(disks.begin(), disks.end()), disks.end());
  return disks;
}

uint32_t Trace::disk_of(uint32_t dev) const {
  return surroundings_.disk_of && dev != 0 ? surroundings_.disk_of(dev) : dev;
}

std::string Trace::device_name(uint32_t dev) const {
  if (surroundings_.device_name) return surroundings_.device_name(dev);
  return fmt::format("{}:{}", dev >> 20, dev & 0xfffff);
}

std::string Trace::path_of(const Call& call) const {
  if ((call.event.flags & wire::CALL_USER_PATH) != 0) {
    // One string over all the parts' room.
    const auto* text = reinterpret_cast<const char*>(call.event.path);
    return {text, strnlen(text, sizeof(call.event.path))};
  }
  if ((call.event.flags & wire::CALL_HAS_PATH) == 0) return {};
  return path_of(call.event.dev, call.event.path);
}

std::string Trace::path_of(uint32_t dev,
                           std::span<const char[wire::WIRE_PATH_PART]> innermost_first) const {
  std::vector<std::string_view> parts;
  bool from_root = false;
  for (const auto& raw : innermost_first) {
    std::string_view part(raw, strnlen(raw, sizeof(raw)));
    if (part.empty()) break;
    if (part == "/") {
      from_root = true;
      break;
    }
    parts.push_back(part);
  }
  if (parts.empty() && !from_root) return {};
  std::string path;
  if (!from_root) {
    path = "...";
  } else if (surroundings_.mount_point) {
    path = surroundings_.mount_point(dev);
    if (path == "/") path.clear();
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    path += '/';
    path += *part;
    // As long as there is room for: what follows of the name was cut off.
    if (part->size() + 1 == wire::WIRE_PATH_PART) path += "...";
  }
  return path.empty() ? "/" : path;
}

std::string Trace::path_in_fs(const wire::wire_call& call) {
  if ((call.flags & (wire::CALL_HAS_PATH | wire::CALL_USER_PATH)) != wire::CALL_HAS_PATH) return {};
  std::string path = Trace().path_of(0, call.path);
  return path.starts_with("/") ? path : std::string();
}

std::string Trace::path_of(uint32_t dev, uint64_t ino) const {
  auto found = path_call_.find({dev, ino});
  return found == path_call_.end() ? std::string() : path_of(calls_[found->second]);
}

}  // namespace stalltrace::model

#include <fmt/format.h>

#include <algorithm>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::blame {
namespace {

using model::Flush;
using model::Request;

// From one flush to the next that is waiting already.
constexpr uint64_t kBackToBackNs = 1'000'000;
// A completion and the wake-up that it causes.
constexpr uint64_t kWakeNs = 1'000'000;
constexpr uint64_t kHungNs = 5'000'000'000;

const wire::wire_flush_member* member_of(const Flush& flush, const DeviceWait& wait) {
  for (const wire::wire_flush_member& member : flush.members()) {
    bool own = wait.commit_tid != 0 ? member.journal_tid == wait.commit_tid
                                    : wait.tid != 0 && member.task.tid == wait.tid;
    if (own) return &member;
  }
  return nullptr;
}

bool is_own(const Flush& flush, const DeviceWait& wait) {
  if (member_of(flush, wait) != nullptr) return true;
  return wait.request && (wait.request->op & kOpMask) == kOpFlush &&
         wait.request->issue_ns == flush.device.start_ns;
}

// The contract's rule: while a device executes a flush and completes nothing else, waiting for any
// of its requests is waiting for that flush. What it had begun before may still complete.
bool holds_up_all(const Flush& flush) {
  return !flush.worked_beside;
}

// A request that completed while the flush went on was not held up by it.
bool outlives(uint64_t complete_ns, const Flush& flush) {
  return complete_ns + model::kSameBatchNs >= flush.device.end_ns;
}

// From issue to completion; the wake-up after it belongs to it.
Span until_woken(Span device, Span whole) {
  if (whole.end_ns > device.end_ns && whole.end_ns - device.end_ns <= kWakeNs) {
    device.end_ns = whole.end_ns;
  }
  return device;
}

std::string asked_by(const Flush& flush) {
  std::string text;
  uint32_t named = std::min(flush.event.known_members, uint32_t{2});
  for (uint32_t i = 0; i < named; ++i) {
    const wire::wire_flush_member& member = flush.event.member[i];
    if (i != 0) text += flush.event.members == 2 ? " and " : ", ";
    text += member.journal_tid != 0 ? fmt::format("commit {}", member.journal_tid)
                                    : text_of(task_name(member.task));
  }
  if (named == 0) return {};
  if (flush.event.members > named) text += fmt::format(" and {} more", flush.event.members - named);
  return ", asked for by " + text;
}

}  // namespace

uint32_t Explainer::disk_of(const model::Wait& wait) const {
  return trace_.disk_of(dev_of(wait));
}

uint32_t Explainer::dev_of(const model::Wait& wait) const {
  if (uint32_t data = trace_.journal_of(wait.task.tid); data != 0) {
    const model::Commit* commit = commit_during(wait);
    uint32_t log = commit != nullptr ? commit->event.journal_dev : data;
    // Before the record goes to an external log, the file system's own device is flushed.
    if (kernel::has_frame(trace_.frames(wait), "blkdev_issue_flush")) return data;
    bool by_data = wait.has(wire::WAIT_WAKER_REQUEST) && is_on(data, wait.waker_request.disk) &&
                   !is_on(log, wait.waker_request.disk);
    return by_data ? data : log;
  }
  // Outside of a call what the kernel side notes as device is an earlier call's.
  if (!wait.has(wire::WAIT_IN_CALL) && wait.has(wire::WAIT_WAKER_REQUEST)) {
    return wait.waker_request.disk;
  }
  uint32_t dev = wait.dev;
  if (dev == 0) {
    const model::Call* call = trace_.call_of(wait);
    if (call != nullptr) dev = call->event.dev;
  }
  if (dev != 0) return dev;
  return wait.has(wire::WAIT_WAKER_REQUEST) ? wait.waker_request.disk : 0;
}

DeviceWait Explainer::device_wait(const model::Wait& wait, bool for_flush,
                                  uint32_t else_dev) const {
  DeviceWait device;
  device.wait = &wait;
  uint32_t dev = dev_of(wait);
  set_device(device, dev != 0 ? dev : else_dev);
  device.tid = wait.task.tid;
  if (trace_.journal_of(wait.task.tid) != 0) {
    const model::Commit* commit = commit_during(wait);
    if (commit != nullptr) device.commit_tid = commit->event.tid;
  }
  device.for_flush = for_flush;
  return device;
}

void Explainer::set_device(DeviceWait& device, uint32_t dev) const {
  const model::Wait& wait = *device.wait;
  device.dev = dev;
  device.disk = trace_.disk_of(dev);
  device.request.reset();
  // A completion on another disk says nothing: the waker was busy with that as well.
  if (!wait.has(wire::WAIT_WAKER_REQUEST) || !is_on(dev, wait.waker_request.disk)) return;
  // Of several disks below a mapped device the one whose request ended the wait.
  device.disk = wait.waker_request.disk;
  device.request = wait.waker_request;
}

Cause Explainer::flush_cause(const Flush& flush, Span span, const DeviceWait& wait, bool own,
                             FlushStep step) const {
  Cause cause;
  cause.kind = CauseKind::kFlush;
  cause.id = std::to_string(flush.serial);
  cause.dev = flush.event.disk;
  if (!flush.members().empty()) cause.task = task_name(flush.members().front().task);
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  bool proven = own || (wait.request && wait.request->complete_ns >= flush.device.end_ns &&
                        wait.request->start_ns < flush.device.end_ns);
  bool end_unseen = flush.end_unseen();
  cause.sure = proven && !end_unseen ? Sure::kMeasured : Sure::kInferred;
  if (end_unseen) {
    cause.evidence.emplace_back(
        "its completion passed unseen: its end is that of the first wait or "
        "request that it held up");
  }
  std::string name = trace_.device_name(flush.event.disk);
  std::string time = format_time(span.ns());
  uint64_t window_end_ns = trace_.window().end_ns;
  bool hung = flush.unfinished() && window_end_ns > flush.device.start_ns &&
              window_end_ns - flush.device.start_ns > kHungNs;
  RootKind root = RootKind::kDeviceFlush;
  // kblockd's workers hand flushes to the driver (block/blk-flush.c).
  bool for_worker = step == FlushStep::kWorker && flush.event.issuer.tid != 0;
  bool queued = step != FlushStep::kDevice;
  if (for_worker) {
    root = RootKind::kTaskRunnable;
    cause.task = task_name(flush.event.issuer);
    cause.sure = Sure::kInferred;
    TaskName ran = ran_instead_of(cause.task, span);
    cause.text = fmt::format("{} flush of {} waited {} until {} had a CPU to send it{}",
                             own ? "its own" : "the next", name, time, text_of(cause.task),
                             ran.tid != 0 ? fmt::format("; {} ran there", text_of(ran)) : "");
  } else if (queued) {
    root = RootKind::kDeviceQueue;
    cause.text = fmt::format("{} flush of {} waited {} in the block layer for its turn{}",
                             own ? "its own" : "the next", name, time, own ? "" : asked_by(flush));
  } else if (hung) {
    root = RootKind::kDeviceHung;
    cause.text = fmt::format("a flush of {} that has not completed for {}{}", name,
                             format_time(window_end_ns - flush.device.start_ns), asked_by(flush));
  } else if (own && wait.for_flush) {
    cause.text = fmt::format("its own flush of {}: {} in the device", name, time);
    if (flush.event.members > 1) {
      cause.text += fmt::format(", shared by {} requests", flush.event.members);
    }
  } else if (wait.for_flush) {
    cause.text = fmt::format("a flush of {} already in flight: waited {} for the rest of it{}",
                             name, time, asked_by(flush));
  } else {
    bool rest = flush.device.start_ns < span.start_ns;
    cause.text = fmt::format("{}a flush of {}: {} in the device{}", rest ? "the rest of " : "",
                             name, time, asked_by(flush));
  }
  if (!queued) {
    if (!flush.worked_beside) {
      cause.evidence.emplace_back(
          "the device completed nothing that was sent to it after the flush");
    }
    cause.evidence.push_back(fmt::format("the whole flush took {}{}",
                                         format_time(flush.device.ns()),
                                         flush.unfinished() ? " so far" : ""));
  }
  cause.root = {root, for_worker ? 0 : flush.event.disk,
                for_worker ? ran_instead_of(cause.task, span) : TaskName{}, span.ns(), cause.sure};
  return cause;
}

Cause Explainer::request_cause(const wire::wire_request_times& request, Span span, bool queued,
                               bool open, Sure sure) const {
  Cause cause;
  bool flush = (request.op & kOpMask) == kOpFlush;
  cause.kind = flush ? CauseKind::kFlush : CauseKind::kRequest;
  if (!flush) cause.id = std::to_string(request.sector);
  cause.dev = request.disk;
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.sure = sure;
  RootKind root = flush                               ? RootKind::kDeviceFlush
                  : (request.op & kOpMask) == kOpRead ? RootKind::kDeviceRead
                                                      : RootKind::kDeviceWrite;
  std::string time = format_time(span.ns());
  uint64_t window_end_ns = trace_.window().end_ns;
  bool hung =
      open && window_end_ns > request.issue_ns && window_end_ns - request.issue_ns > kHungNs;
  if (queued) {
    root = RootKind::kDeviceQueue;
    cause.text =
        fmt::format("a {} waited {} in the block layer for its turn", request_text(request), time);
  } else if (hung) {
    root = RootKind::kDeviceHung;
    cause.text = fmt::format("a {} that has not completed for {}", request_text(request),
                             format_time(window_end_ns - request.issue_ns));
  } else if (is_mapped(request.disk)) {
    cause.text = fmt::format("a {}: {} in {} itself, not in a disk below it", request_text(request),
                             time, trace_.device_name(request.disk));
  } else {
    cause.text = fmt::format("a {}: {} in the device", request_text(request), time);
  }
  if (request.submitter != 0) {
    cause.evidence.push_back(fmt::format("issued by task {}", request.submitter));
  }
  cause.root = {root, request.disk, {}, span.ns(), sure};
  return cause;
}

// Fills what the device explains; the rest stays free.
void Explainer::put_device(Tiling& tiling, const DeviceWait& wait) {
  if (wait.disk == 0 || !trace_.sees_devices()) return;
  model::Mapping mapping = trace_.mapping(wait.dev);
  if (mapping.maps.empty()) {
    put_disk(tiling, wait);
  } else {
    put_mapped(tiling, wait, mapping);
  }
}

void Explainer::put_disk(Tiling& tiling, const DeviceWait& wait) {
  put_throttled(tiling, wait);
  put_flushes(tiling, wait);
  put_slow_requests(tiling, wait);
  put_other_throttled(tiling, wait);
}

// The commit record itself, between the flush before it and the flush after it, where the device
// has no FUA (block/blk-flush.c: PREFLUSH, DATA, POSTFLUSH).
Cause Explainer::record_cause(const DeviceWait& wait, Span span, bool certain) const {
  wire::wire_request_times record{};
  record.disk = wait.disk;
  record.op = 1;
  record.sector = ~uint64_t{0};
  for (const Request* request : trace_.requests(wait.disk, span)) {
    bool fits = request->issue_ns + kBackToBackNs >= span.start_ns &&
                request->issue_ns <= span.start_ns + kBackToBackNs &&
                request->span.end_ns <= span.end_ns &&
                request->span.end_ns + kBackToBackNs >= span.end_ns;
    if (fits) record = request->event.times;
  }
  Cause cause =
      request_cause(record, span, false, false, certain ? Sure::kMeasured : Sure::kInferred);
  cause.text = fmt::format("the commit record's own write between its two flushes of {}: {}",
                           trace_.device_name(wait.disk), format_time(span.ns()));
  return cause;
}

// While the data of a flush sequence (PREFLUSH, DATA, POSTFLUSH) is under way, no other flush of
// its queue is sent (blk_kick_flush in block/blk-flush.c: "C2").
void Explainer::put_sequence_data(Tiling& tiling, const Flush& flush, Span queued) const {
  for (const Request* request : trace_.requests(flush.event.disk, queued)) {
    if ((request->event.times.op & kOpMask) != kOpWrite) continue;
    Span just_before{request->issue_ns - std::min(request->issue_ns, kBackToBackNs),
                     request->issue_ns + 1};
    for (const Flush* before : trace_.flushes(flush.event.disk, just_before)) {
      std::span<const wire::wire_flush_member> members = before->members();
      bool with_data =
          std::any_of(members.begin(), members.end(),
                      [](const wire::wire_flush_member& one) { return one.has_data != 0; });
      if (before->event.queue != flush.event.queue || !with_data ||
          before->device.end_ns > request->issue_ns) {
        continue;
      }
      tiling.put(Span{request->issue_ns, request->span.end_ns}.clip(queued), [&](Span piece) {
        Cause cause = request_cause(request->event.times, piece, false, request->unfinished(),
                                    Sure::kInferred);
        cause.evidence.push_back(fmt::format(
            "it is the data between two flushes{}: until it is written, no other flush is sent",
            asked_by(*before)));
        return cause;
      });
      break;
    }
  }
}

void Explainer::put_flushes(Tiling& tiling, const DeviceWait& wait) {
  std::vector<const Flush*> flushes = trace_.flushes(wait.disk, tiling.whole());
  std::vector<const Flush*> own;
  if (wait.for_flush) {
    std::copy_if(flushes.begin(), flushes.end(), std::back_inserter(own),
                 [&](const Flush* flush) { return is_own(*flush, wait); });
  }
  for (const Flush* flush : own) {
    tiling.put(until_woken(flush->device, tiling.whole()), [&](Span piece) {
      return flush_cause(*flush, piece, wait, true, FlushStep::kDevice);
    });
  }
  for (const Flush* flush : flushes) {
    // One hardware queue executes one flush at a time; who waits for a flush and is in none that
    // was seen waits for whichever there is.
    bool ahead = wait.for_flush &&
                 (own.empty() || std::any_of(own.begin(), own.end(), [&](const Flush* mine) {
                    return mine->event.queue == flush->event.queue;
                  }));
    bool held_up =
        holds_up_all(*flush) && (!wait.request || outlives(wait.request->complete_ns, *flush));
    if (!ahead && !held_up) continue;
    tiling.put(flush->device, [&](Span piece) {
      return flush_cause(*flush, piece, wait, false, FlushStep::kDevice);
    });
  }
  // Between two flushes the next one is on its way through the flush machine.
  for (size_t i = 1; i < flushes.size(); ++i) {
    const Flush& before = *flushes[i - 1];
    const Flush& next = *flushes[i];
    uint64_t gap_start_ns = before.device.end_ns;
    if (next.device.start_ns <= gap_start_ns || next.event.first_queued_ns == 0 ||
        next.event.first_queued_ns > gap_start_ns ||
        next.device.start_ns - gap_start_ns >= kBackToBackNs || !holds_up_all(next)) {
      continue;
    }
    bool mine = wait.for_flush && is_own(next, wait);
    if (mine) continue;  // below, with its own queueing time
    tiling.put({gap_start_ns, next.device.start_ns}, [&](Span piece) {
      return flush_cause(next, piece, wait, false, FlushStep::kWorker);
    });
  }
  put_request(tiling, wait);
  uint64_t after_ns = 0;
  bool with_data = false;
  for (const Flush* flush : own) {
    const wire::wire_flush_member* member = member_of(*flush, wait);
    uint64_t queued_ns = member != nullptr ? member->queued_ns : flush->event.first_queued_ns;
    if (after_ns == 0 && queued_ns != 0) {
      Span queued{queued_ns, flush->device.start_ns};
      // Every step of the flush machine goes through a worker, which may have to wait for a CPU.
      TaskName issuer = task_name(flush->event.issuer);
      if (issuer.tid != 0 && issuer.tid != wait.tid) {
        for (const model::Wait& its : trace_.waits_of(issuer.tid, queued)) {
          tiling.put(its.runnable().clip(queued), [&](Span piece) { return runnable(its, piece); });
        }
      }
      // Only while another flush was in the device was that the queue; else it was the worker.
      for (const Flush* ahead : flushes) {
        if (ahead == flush || ahead->event.queue != flush->event.queue) continue;
        tiling.put(ahead->device.clip(queued), [&](Span piece) {
          return flush_cause(*flush, piece, wait, true, FlushStep::kQueue);
        });
      }
      put_sequence_data(tiling, *flush, queued);
      FlushStep step = is_queue_full(wait.disk, queued) ? FlushStep::kQueue : FlushStep::kWorker;
      tiling.put(queued, [&](Span piece) { return flush_cause(*flush, piece, wait, true, step); });
    } else if (after_ns != 0 && wait.commit_tid != 0) {
      tiling.put({after_ns, flush->device.start_ns},
                 [&](Span piece) { return record_cause(wait, piece, with_data); });
    }
    with_data = with_data || (member != nullptr && member->has_data != 0);
    after_ns = flush->device.end_ns;
  }
}

void Explainer::put_request(Tiling& tiling, const DeviceWait& wait) {
  if (!wait.request || wait.request->disk != wait.disk) return;
  const wire::wire_request_times& request = *wait.request;
  Span device{request.issue_ns, request.complete_ns};
  tiling.put(until_woken(device, tiling.whole()), [&](Span piece) {
    return request_cause(request, piece, false, false, Sure::kMeasured);
  });
  // That a flush was queued from its first member on, its own flush tells better.
  if (request.start_ns == 0 || (wait.for_flush && (request.op & kOpMask) == kOpFlush)) return;
  put_submitter(tiling, request, {request.start_ns, request.issue_ns}, wait.tid);
  tiling.put({request.start_ns, request.issue_ns}, [&](Span piece) {
    return request_cause(request, piece, true, false, Sure::kMeasured);
  });
}

bool Explainer::is_queue_full(uint32_t disk, Span span) const {
  if (trace_.has_scheduler(disk)) return true;
  unsigned depth = trace_.queue_depth(disk);
  return depth != 0 && trace_.requests(disk, span).size() >= depth;
}

// A request that its submitter still holds in its plug (block/blk-core.c) waits for nobody but the
// submitter, which may have lost its CPU.
void Explainer::put_submitter(Tiling& tiling, const wire::wire_request_times& request, Span queued,
                              uint32_t wait_tid) const {
  if (request.submitter == 0 || is_queue_full(request.disk, queued)) return;
  for (const model::Wait& wait : trace_.waits_of(request.submitter, queued)) {
    tiling.put(wait.runnable().clip(queued), [&](Span piece) {
      Cause cause = runnable(wait, piece);
      cause.evidence.push_back(
          fmt::format("it had a {} to send, and the queue had room", request_text(request)));
      return cause;
    });
  }
  std::span<const model::Wait> all = trace_.waits_of(request.submitter);
  // A worker may have had no work then, or other work.
  bool anothers =
      wait_tid != request.submitter && !all.empty() && !workers_.contains(request.submitter);
  if (!anothers || !is_watched(task_name(all.front().task), queued)) return;
  tiling.put(queued, [&](Span piece) {
    return running(task_name(all.front().task), piece, Sure::kInferred);
  });
}

// Other requests that were with the device, or waited for it, in what is still free: at each time
// the one that completes last.
void Explainer::put_slow_requests(Tiling& tiling, const DeviceWait& wait) {
  // One whose end passed unseen explains nothing but the wait of whoever sent it.
  for (auto [queued, unseen] : {std::pair{false, false}, {true, false}, {false, true}}) {
    const std::vector<Span> free = tiling.free();
    for (Span gap : free) {
      std::vector<const Request*> requests = trace_.requests(wait.disk, gap);
      std::erase_if(requests, [&, unseen = unseen](const Request* request) {
        return request->end_unseen() != unseen ||
               (unseen && (wait.tid == 0 || request->event.task.tid != wait.tid));
      });
      auto span_in = [queued = queued](const Request* request) {
        return queued ? Span{request->span.start_ns, request->issue_ns}
                      : Span{request->issue_ns, request->span.end_ns};
      };
      std::erase_if(requests,
                    [&](const Request* request) { return !span_in(request).overlaps(gap); });
      std::stable_sort(requests.begin(), requests.end(), [&](const Request* a, const Request* b) {
        return span_in(a).start_ns < span_in(b).start_ns;
      });
      uint64_t at_ns = gap.start_ns;
      for (size_t i = 0; i < requests.size() && at_ns < gap.end_ns;) {
        const Request* last = nullptr;
        for (; i < requests.size() && span_in(requests[i]).start_ns <= at_ns; ++i) {
          if (last == nullptr || span_in(requests[i]).end_ns > span_in(last).end_ns) {
            last = requests[i];
          }
        }
        if (last == nullptr) {
          at_ns = span_in(requests[i]).start_ns;
          continue;
        }
        Span covered{at_ns, until_woken(span_in(last), gap).end_ns};
        for (const Flush* flush : trace_.flushes(wait.disk, covered)) {
          if (!holds_up_all(*flush) || !outlives(last->span.end_ns, *flush)) continue;
          tiling.put(flush->device.clip(covered).clip(gap), [&](Span piece) {
            return flush_cause(*flush, piece, wait, false, FlushStep::kDevice);
          });
        }
        if (queued) put_submitter(tiling, last->event.times, covered.clip(gap), wait.tid);
        tiling.put(covered.clip(gap), [&, queued = queued](Span piece) {
          Cause cause =
              request_cause(last->event.times, piece, queued, last->unfinished(), Sure::kInferred);
          if (last->event.task.tid != wait.tid) cause.owner = task_name(last->event.task);
          if (last->end_unseen()) {
            cause.evidence.emplace_back("its completion passed unseen: it may have ended earlier");
          }
          return cause;
        });
        at_ns = std::max(at_ns, covered.end_ns);
      }
    }
  }
}

// All requests of the queue are taken: by those in flight, and the one that ended gave its place.
Causes Explainer::explain_tag(const model::Wait& wait, Span span, const Trail& trail) {
  Causes causes = explain_io_or_waker(wait, span, trail);
  std::vector<std::string>& evidence = causes.front().evidence;
  unsigned depth = trace_.queue_depth(disk_of(wait));
  evidence.push_back(depth != 0 ? fmt::format("every request was taken: the queue has {}", depth)
                                : "every request was taken");
  if (std::string busy = in_flight(disk_of(wait), span.start_ns, false); !busy.empty()) {
    evidence.push_back(busy);
  }
  if (std::string woken = woken_by(wait); !woken.empty()) evidence.push_back(woken);
  return causes;
}

std::string Explainer::in_flight(uint32_t disk, uint64_t at_ns, bool writes_only) const {
  size_t count = 0;
  uint64_t oldest_ns = 0;
  for (const Request* request : trace_.requests(disk, {at_ns, at_ns + 1})) {
    if (writes_only && (request->event.times.op & kOpMask) != kOpWrite) continue;
    ++count;
    oldest_ns = std::max(oldest_ns, at_ns - request->span.start_ns);
  }
  if (count == 0) return {};
  return fmt::format("{} {} in flight then, the oldest {} old", count,
                     writes_only ? "writes" : "requests", format_time(oldest_ns));
}

Causes Explainer::explain_flush(const model::Wait& wait, Span span, const Trail& trail) {
  Tiling tiling(span);
  put_device(tiling, device_wait(wait, true, trail.dev));
  tiling.fill([&](Span gap) { return explain_waker(wait, gap, trail); });
  return std::move(tiling).take();
}

}  // namespace stalltrace::blame

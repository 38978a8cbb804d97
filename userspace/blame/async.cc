#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"

namespace stalltrace::blame {
namespace {

// From the end of a flush to the end of a request that it was part of.
constexpr uint64_t kEndsWithNs = 1'000'000;

}  // namespace

// A raw device's durable write ends with the flush behind its data, where the disk has no FUA.
const wire::wire_flush_member* Explainer::flush_behind(const model::Async& async,
                                                       uint32_t disk) const {
  Span whole{async.issue_ns, async.complete_ns + 1};
  for (const model::Flush* flush : trace_.flushes(disk, whole)) {
    bool ends_it = flush->device.start_ns > async.issue_ns &&
                   flush->device.end_ns <= async.complete_ns &&
                   async.complete_ns - flush->device.end_ns <= kEndsWithNs;
    if (!ends_it) continue;
    for (const wire::wire_flush_member& member : flush->members()) {
      if (member.has_data != 0 && member.task.tid == async.task.tid &&
          member.queued_ns >= async.issue_ns) {
        return &member;
      }
    }
  }
  return nullptr;
}

std::vector<Root> Explainer::explain_async(const model::Async& async, Span span) {
  TaskName self = task_name(async.task);
  std::vector<Root> roots;
  uint64_t queued_ns = async.queued_ns != 0 ? async.queued_ns : span.end_ns;
  Span submitting = Span{span.start_ns, queued_ns}.clip(span);
  if (!submitting.empty()) {
    Causes causes = timeline(self, submitting, Trail{nullptr, {}, 0, async.dev});
    std::vector<Root> found;
    collect_roots(causes, Sure::kMeasured, found);
    for (Root& root : found) {
      if (root.kind == RootKind::kTaskCpu && root.task.tid == self.tid) root.kind = RootKind::kSelf;
    }
    roots.insert(roots.end(), found.begin(), found.end());
  }
  Span rest{std::max(span.start_ns, submitting.end_ns), span.end_ns};
  if (rest.empty()) return merge_roots(std::move(roots));

  DeviceWait device;
  device.dev = async.dev;
  device.disk = trace_.disk_of(async.dev);
  uint64_t complete_ns = async.complete_ns != 0 ? async.complete_ns : span.end_ns;
  if (async.issue_ns != 0 && async.issue_ns >= queued_ns && complete_ns >= async.issue_ns) {
    wire::wire_request_times request{};
    request.disk = device.disk;
    request.op = (async.flags & wire::ASYNC_WRITE) != 0 ? 1 : 0;
    request.sector = async.sector;
    request.bytes = async.bytes;
    request.start_ns = queued_ns;
    request.issue_ns = async.issue_ns;
    request.complete_ns = complete_ns;
    if (const wire::wire_flush_member* own = flush_behind(async, device.disk)) {
      device.for_flush = true;
      device.tid = self.tid;
      request.complete_ns = own->queued_ns;
    }
    device.request = request;
  }
  Tiling tiling(rest);
  Tiling in_device(Span{rest.start_ns, complete_ns}.clip(rest));
  put_device(in_device, device);
  in_device.fill([&](Span gap) { return unexplained(gap, "the request was not seen"); });
  Causes causes = std::move(in_device).take();
  for (Cause& cause : causes) {
    tiling.put(span_of(cause), [&](Span) { return cause; });
  }
  // What is left to do then (unwritten extents are converted, i_size grows) is a worker's, and a
  // completion of io_uring waits for the submitter to come round.
  TaskName completer = task_name(async.completer);
  tiling.fill([&](Span gap) -> Causes {
    if (completer.tid == 0) return one(unexplained(gap, "completion work after the device"));
    return work_of(completer, gap, gap.end_ns, Trail{nullptr, {}, 0, async.dev});
  });
  collect_roots(std::move(tiling).take(), Sure::kMeasured, roots);
  return merge_roots(std::move(roots));
}

}  // namespace stalltrace::blame

#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"

namespace stalltrace::blame {

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
  tiling.fill([&](Span gap) { return unexplained(gap, "completion work after the device"); });
  collect_roots(std::move(tiling).take(), Sure::kMeasured, roots);
  return merge_roots(std::move(roots));
}

}  // namespace stalltrace::blame

// Frozen file systems and queues: who froze them.

#include <fmt/format.h>

#include <cstring>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"

namespace stalltrace::blame {
namespace {

// A knob of the queue is /sys/.../block/DISK/queue/KNOB, or one folder deeper (iosched).
bool is_of_disk(const model::Call& knob, std::string_view disk) {
  bool queue = false;
  for (const auto& raw : knob.event.path) {
    std::string_view part(raw, strnlen(raw, sizeof(raw)));
    if (queue) return part == disk;
    queue = part == "queue";
  }
  return false;
}

}  // namespace

Causes Explainer::explain_frozen(const model::Wait& wait, Span span, const Trail& trail) {
  return class_of(wait) == kernel::WaitClass::kBlockFrozen ? explain_frozen_queue(wait, span, trail)
                                                           : explain_frozen_fs(wait, span, trail);
}

Causes Explainer::explain_frozen_fs(const model::Wait& wait, Span span, const Trail&) {
  Tiling tiling(span);
  auto frozen = [&](Span piece, std::string text, const TaskName& who, Sure sure) {
    Cause cause = fixed_root(wait, piece, RootKind::kFrozen, std::move(text));
    cause.task = who;
    cause.sure = sure;
    cause.root.dev = disk_of(wait);
    cause.root.task = who;
    cause.root.sure = sure;
    if (std::string woken = woken_by(wait); !woken.empty()) cause.evidence.push_back(woken);
    return cause;
  };
  uint32_t dev = wait.dev;
  if (const model::Call* call = trace_.call_of(wait); dev == 0 && call != nullptr) {
    dev = call->event.dev;
  }
  for (const model::Freeze* freeze : trace_.freezes(dev, span)) {
    tiling.put(freeze->span, [&](Span piece) {
      if (freeze->before_window()) {
        return frozen(piece, "the file system was frozen before tracing began", {},
                      Sure::kMeasured);
      }
      TaskName who = task_name(freeze->event.task);
      bool open = (freeze->event.flags & wire::FREEZE_UNFINISHED) != 0;
      Cause cause =
          frozen(piece,
                 open ? fmt::format("the file system was frozen by {} and still is", text_of(who))
                      : fmt::format("the file system was frozen by {} for {}", text_of(who),
                                    format_time(freeze->span.ns())),
                 who, Sure::kMeasured);
      return cause;
    });
  }
  tiling.fill([&](Span gap) {
    return frozen(gap, "the file system was frozen; who did it was not seen", {}, Sure::kInferred);
  });
  return std::move(tiling).take();
}

// A knob's writer freezes the queue, which means: it waits until the queue is empty, with everybody
// locked out (block/blk-mq.c, blk_mq_freeze_queue).
Causes Explainer::explain_frozen_queue(const model::Wait& wait, Span span, const Trail&) {
  uint32_t disk = disk_of(wait);
  std::string name = trace_.device_name(disk);
  Tiling tiling(span);
  for (const model::Call* knob : trace_.knobs(span)) {
    if (!is_of_disk(*knob, name)) continue;
    tiling.put(knob->span, [&](Span piece) {
      TaskName who = task_name(knob->event.task);
      Cause cause = fixed_root(wait, piece, RootKind::kFrozen,
                               fmt::format("the queue of {} was frozen by {}, which wrote to {}",
                                           name, text_of(who), knob->event.path[0]));
      cause.task = who;
      cause.root.dev = disk;
      cause.root.task = who;
      if (std::string did = doing(who, piece); !did.empty()) {
        cause.evidence.push_back(fmt::format("{} was {}", text_of(who), did));
      }
      if (std::string woken = woken_by(wait); !woken.empty()) cause.evidence.push_back(woken);
      return cause;
    });
  }
  tiling.fill([&](Span gap) {
    Cause cause =
        fixed_root(wait, gap, RootKind::kFrozen,
                   fmt::format("the queue of {} was frozen; who did it was not seen", name));
    cause.sure = Sure::kInferred;
    cause.root.dev = disk;
    cause.root.sure = Sure::kInferred;
    if (std::string woken = woken_by(wait); !woken.empty()) cause.evidence.push_back(woken);
    return cause;
  });
  return std::move(tiling).take();
}

}  // namespace stalltrace::blame

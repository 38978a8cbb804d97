// Held back on purpose: by a cgroup's limit, by writeback throttling, by the limit on dirty pages.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"

namespace stalltrace::blame {
namespace {

// A bio becomes a request at once when it is released.
constexpr uint64_t kAtOnceNs = 5'000'000;
constexpr uint32_t kPreflush = 1U << 18;  // REQ_PREFLUSH (include/linux/blk_types.h, 6.1 to 6.18)
// The next one of those that are waiting is released within a slice (throtl_slice, at most 100 ms),
// or when its turn comes at the rate of the limit.
constexpr uint64_t kNextReleaseNs = 1'000'000'000;

std::string cgroup_of(const model::Throttle& throttle) {
  std::string path;
  for (const auto& raw : throttle.cgroup) {
    std::string_view part(raw, strnlen(raw, sizeof(raw)));
    if (part.empty()) break;
    path = fmt::format("/{}{}", part, path);
  }
  return path.empty() ? "/" : path;
}

}  // namespace

const model::Throttle* Explainer::throttle_of(const DeviceWait& wait) const {
  if (wait.for_flush && wait.wait != nullptr) {
    // A flush carries no sector: the last one that was let go while the waiter slept is its own.
    std::span<const model::Throttle> released = trace_.throttles(wait.disk, wait.wait->blocked());
    auto last = std::find_if(released.rbegin(), released.rend(), [](const model::Throttle& t) {
      return (t.op & kPreflush) != 0 || (t.op & 0xff) == kOpFlush;
    });
    if (last != released.rend()) return &*last;
  }
  if (!wait.request || wait.request->sector == ~uint64_t{0}) return nullptr;
  const wire::wire_request_times& request = *wait.request;
  uint64_t made_ns = request.start_ns != 0 ? request.start_ns : request.issue_ns;
  Span near{made_ns - std::min(made_ns, kAtOnceNs), made_ns + kAtOnceNs};
  uint64_t end = request.sector + std::max<uint64_t>(request.bytes / kSectorBytes, 1);
  for (const model::Throttle& throttle : trace_.throttles(wait.disk, near)) {
    if (throttle.sector >= request.sector && throttle.sector < end) return &throttle;
  }
  return nullptr;
}

Cause Explainer::throttled(const model::Throttle& throttle, Span span, Sure sure) const {
  Cause cause;
  cause.kind = CauseKind::kTask;
  cause.id = cgroup_of(throttle);
  cause.dev = throttle.disk;
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.sure = sure;
  cause.text = fmt::format("a {} of {} was held back for {} by the I/O limit of cgroup {}",
                           op_text(throttle.op), trace_.device_name(throttle.disk),
                           format_time(span.ns()), cgroup_of(throttle));
  cause.evidence.push_back(fmt::format("sector {}, {} bytes, was let go by blk-throttle",
                                       throttle.sector, throttle.bytes));
  cause.root = {RootKind::kThrottle, throttle.disk, {}, span.ns(), sure};
  return cause;
}

// Until its own bio was let go, everything that the waiter waited for was that.
void Explainer::put_throttled(Tiling& tiling, const DeviceWait& wait) const {
  const model::Throttle* own = throttle_of(wait);
  if (own == nullptr) return;
  tiling.put({tiling.whole().start_ns, own->released_ns},
             [&](Span piece) { return throttled(*own, piece, Sure::kMeasured); });
}

// Those that wait for many bios (writeback of a file, a commit's data) wait for each release.
void Explainer::put_other_throttled(Tiling& tiling, const DeviceWait& wait) const {
  Span whole = tiling.whole();
  uint64_t from_ns = whole.start_ns;
  for (const model::Throttle& throttle :
       trace_.throttles(wait.disk, {whole.start_ns, whole.end_ns + kNextReleaseNs})) {
    if (from_ns >= whole.end_ns) break;
    if (throttle.released_ns - from_ns <= kNextReleaseNs) {
      tiling.put({from_ns, throttle.released_ns},
                 [&](Span piece) { return throttled(throttle, piece, Sure::kInferred); });
    }
    from_ns = throttle.released_ns;
  }
}

// Writeback throttling (block/blk-wbt.c) and the limit on dirty pages: who waits is let go by
// writes that complete.
Causes Explainer::explain_throttle(const model::Wait& wait, Span span, const Trail&) {
  kernel::WaitClass wait_class = class_of(wait);
  uint32_t disk = disk_of(wait);
  Cause cause = fixed_root(wait, span, RootKind::kThrottle,
                           fmt::format("{} was held back on purpose by {}",
                                       text_of(task_name(wait.task)), kernel::name_of(wait_class)));
  cause.root.dev = disk;
  if (wait_class == kernel::WaitClass::kBlockWbt) {
    std::string limit = trace_.write_limit(disk);
    cause.text = fmt::format("{} was held back by writeback throttling of {}{}",
                             text_of(task_name(wait.task)), trace_.device_name(disk),
                             limit.empty() ? "" : fmt::format(" (its limit: {})", limit));
    if (std::string busy = in_flight(disk, span.start_ns, true); !busy.empty()) {
      cause.evidence.push_back(busy);
    }
  }
  if (std::string woken = woken_by(wait); !woken.empty()) cause.evidence.push_back(woken);
  return one(std::move(cause));
}

}  // namespace stalltrace::blame

#include "userspace/cli/flight.h"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/base/units.h"
#include "userspace/model/call_names.h"
#include "userspace/model/trace.h"

namespace stalltrace::cli {
namespace {

// Others that waited for the same end within this time, and their events reach us.
constexpr uint64_t kMomentNs = 300'000'000;

std::string text_of(const wire::wire_call& call, uint64_t ns, bool lasts) {
  return fmt::format(
      "{} of {}[{}] {} {}", model::call_name(static_cast<wire::wire_call_kind>(call.call)),
      model::comm_of(call.task), call.task.tid, lasts ? "has lasted" : "took", format_time(ns));
}

}  // namespace

const StopOn* Flight::met_by(const wire::wire_call& call, uint64_t ns) const {
  auto met = std::find_if(stop_on_.begin(), stop_on_.end(),
                          [&](const StopOn& one) { return one.is_met(call.call, ns); });
  return met != stop_on_.end() ? &*met : nullptr;
}

void Flight::ended(const wire::wire_call& call, uint64_t now_ns) {
  if (met_by(call, call.end_ns - call.start_ns) == nullptr) return;
  std::lock_guard lock(mutex_);
  bool is_the_end =
      lasting_ && lasting_->task.tid == call.task.tid && lasting_->start_ns == call.start_ns;
  if (hit_ || (call.start_ns < begun_from_ns_ && !is_the_end)) return;
  hit_ = call;
  hit_ns_ = now_ns;
}

std::optional<std::string> Flight::due(std::span<const wire::wire_call> standing, uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (hit_) {
    if (now_ns < hit_ns_ + kMomentNs) return std::nullopt;
    return text_of(*hit_, hit_->end_ns - hit_->start_ns, false);
  }
  for (const wire::wire_call& call : standing) {
    if (call.start_ns < begun_from_ns_ || call.start_ns > now_ns) continue;
    uint64_t age_ns = now_ns - call.start_ns;
    const StopOn* met = met_by(call, age_ns);
    if (met == nullptr || age_ns <= met->over_ns + patience_ns_) continue;
    lasting_ = call;
    return text_of(call, age_ns, true);
  }
  return std::nullopt;
}

void Flight::written(uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (hit_) lasting_.reset();
  hit_.reset();
  begun_from_ns_ = now_ns;
}

}  // namespace stalltrace::cli

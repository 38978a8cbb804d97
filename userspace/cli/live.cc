#include "userspace/cli/live.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "userspace/base/clock.h"
#include "userspace/blame/explain.h"
#include "userspace/report/stall_groups.h"

namespace stalltrace::cli {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
// What a stall is explained from is looked for so far back and in so much: some minutes of a quiet
// machine, seconds of a busy one.
constexpr uint64_t kKeepNs = 120 * kSecondNs;
constexpr size_t kKeepBytes = 32 << 20;
constexpr size_t kMostTold = 24;  // of one look: explaining takes time, too

std::optional<wire::wire_call> call_of(std::span<const std::byte> event) {
  wire::wire_header header;
  if (event.size() < sizeof(wire::wire_call)) return std::nullopt;
  std::memcpy(&header, event.data(), sizeof(header));
  if (header.kind != wire::WIRE_CALL) return std::nullopt;
  wire::wire_call call;
  std::memcpy(&call, event.data(), sizeof(call));
  return call;
}

}  // namespace

Live::Live(model::Surroundings surroundings, uint64_t threshold_ns)
    : surroundings_(std::move(surroundings)),
      threshold_ns_(threshold_ns),
      log_(kKeepNs, kKeepBytes) {}

bool Live::is_told(const wire::wire_call& call) const {
  bool stall = (call.flags & (wire::CALL_WANTED | wire::CALL_KNOB)) == 0;
  return stall && (!wanted_ || wanted_(call.task));
}

void Live::add(std::span<const std::byte> event) {
  log_.add(event, monotonic_ns());
  std::optional<wire::wire_call> call = call_of(event);
  if (!call || !is_told(*call) || call->end_ns < call->start_ns + threshold_ns_) return;
  std::lock_guard lock(mutex_);
  ended_.push_back({{call->task.tid, call->start_ns}, call->end_ns - call->start_ns});
}

std::vector<Live::CallKey> Live::due(std::span<const std::byte> standing, uint64_t now_ns) {
  std::vector<CallKey> due;
  std::map<CallKey, uint64_t> again;
  model::each_event(standing, [&](std::span<const std::byte> event) {
    std::optional<wire::wire_call> call = call_of(event);
    if (!call || !is_told(*call) || call->start_ns > now_ns) return;
    CallKey key{call->task.tid, call->start_ns};
    uint64_t age_ns = now_ns - call->start_ns;
    auto known = again_.find(key);
    uint64_t next_ns = known != again_.end() ? known->second : std::max(threshold_ns_, kSecondNs);
    if (age_ns >= next_ns) {
      due.push_back(key);
      next_ns = 2 * age_ns;
    }
    again[key] = next_ns;
  });
  again_ = std::move(again);
  return due;
}

LiveStalls Live::look(std::span<const std::byte> standing, uint64_t opened_ns, uint64_t now_ns) {
  std::vector<Ended> ended;
  {
    std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }
  LiveStalls live;
  std::sort(ended.begin(), ended.end(), [](const Ended& a, const Ended& b) { return a.ns > b.ns; });
  if (ended.size() > kMostTold) {
    live.others = ended.size() - kMostTold;
    ended.resize(kMostTold);
  }
  std::vector<CallKey> told = due(standing, now_ns);
  if (told.size() > kMostTold) told.resize(kMostTold);
  for (const Ended& one : ended) told.push_back(one.call);
  if (told.empty()) return live;
  std::sort(told.begin(), told.end());
  uint64_t since_ns = now_ns;
  for (const CallKey& call : told) since_ns = std::min(since_ns, call.second);

  model::Trace trace(surroundings_);
  auto add = [&](std::span<const std::byte> event) { trace.add(event); };
  log_.each_since(since_ns, add);
  model::each_event(standing, add);
  trace.set_window(std::max(opened_ns, since_ns), now_ns);
  trace.seal();
  auto is_due = [&](const model::Call& call) {
    return std::binary_search(told.begin(), told.end(), CallKey{call.tid(), call.event.start_ns});
  };
  for (blame::Stall& stall : blame::explain_calls(trace, is_due)) {
    if (report::main_class(stall) == kernel::WaitClass::kUringWait) continue;
    live.stalls.push_back(std::move(stall));
  }
  std::stable_sort(live.stalls.begin(), live.stalls.end(),
                   [](const blame::Stall& a, const blame::Stall& b) { return a.ns > b.ns; });
  return live;
}

}  // namespace stalltrace::cli

#include "userspace/cli/live.h"

#include <algorithm>
#include <cstring>

#include "userspace/blame/explain.h"
#include "userspace/report/stall_groups.h"

namespace stalltrace::cli {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr size_t kMostTold = 24;  // of one look: explaining takes time, too

}  // namespace

std::optional<wire::wire_call> call_of(std::span<const std::byte> event) {
  wire::wire_header header;
  if (event.size() < sizeof(wire::wire_call)) return std::nullopt;
  std::memcpy(&header, event.data(), sizeof(header));
  if (header.kind != wire::WIRE_CALL) return std::nullopt;
  wire::wire_call call;
  std::memcpy(&call, event.data(), sizeof(call));
  return call;
}

void Live::ended(const wire::wire_call& call) {
  std::lock_guard lock(mutex_);
  ended_.push_back({{call.task.tid, call.start_ns}, call.end_ns - call.start_ns});
}

std::vector<Live::CallKey> Live::due(const Standing& standing, uint64_t threshold_ns) {
  std::vector<CallKey> due;
  std::map<CallKey, uint64_t> again;
  for (const wire::wire_call& call : standing.calls) {
    if (call.start_ns > standing.now_ns) continue;
    CallKey key{call.task.tid, call.start_ns};
    uint64_t age_ns = standing.now_ns - call.start_ns;
    auto known = again_.find(key);
    uint64_t next_ns = known != again_.end() ? known->second : std::max(threshold_ns, kSecondNs);
    if (age_ns >= next_ns) {
      due.push_back(key);
      next_ns = 2 * age_ns;
    }
    again[key] = next_ns;
  }
  again_ = std::move(again);
  return due;
}

LiveStalls Live::look(const Standing& standing, uint64_t opened_ns, uint64_t threshold_ns) {
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
  std::vector<CallKey> told = due(standing, threshold_ns);
  if (told.size() > kMostTold) told.resize(kMostTold);
  for (const Ended& one : ended) told.push_back(one.call);
  if (told.empty()) return live;
  std::sort(told.begin(), told.end());
  uint64_t since_ns = standing.now_ns;
  for (const CallKey& call : told) since_ns = std::min(since_ns, call.second);

  model::Trace trace(surroundings_);
  auto add = [&](std::span<const std::byte> event) { trace.add(event); };
  model::each_with_standing(log_, since_ns, standing.events, add);
  trace.set_window(std::max({opened_ns, since_ns, log_.whole_since_ns()}), standing.now_ns);
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

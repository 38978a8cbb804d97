#include "userspace/report/stall_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace stalltrace::report {
namespace {

const blame::Cause* longest(const std::vector<blame::Cause>& causes) {
  auto found = std::max_element(causes.begin(), causes.end(),
                                [](const auto& a, const auto& b) { return a.ns < b.ns; });
  return found == causes.end() ? nullptr : &*found;
}

// A herd has its commit and its flush in common, not the handles and requests of each.
bool is_shared(blame::CauseKind kind) {
  return kind == blame::CauseKind::kCommit || kind == blame::CauseKind::kFlush;
}

std::string shape_of(const blame::Stall& stall, bool with_ids) {
  kernel::WaitClass wait_class = main_class(stall);
  std::string shape = fmt::format("{} {} {}", static_cast<int>(stall.kind), stall.dev,
                                  static_cast<int>(wait_class));
  const blame::Part* part = nullptr;
  for (const blame::Part& other : stall.parts) {
    bool better = part == nullptr || other.ns > part->ns;
    if (other.wait_class == wait_class && better) part = &other;
  }
  const blame::Cause* cause = part == nullptr ? nullptr : longest(part->causes);
  while (cause != nullptr) {
    shape += fmt::format("/{} {} {}", static_cast<int>(cause->kind), cause->dev,
                         with_ids && is_shared(cause->kind) ? cause->id : "");
    cause = longest(cause->causes);
  }
  if (!stall.roots.empty()) {
    const blame::Root& root = stall.roots.front();
    uint32_t tid = root.task.tid == stall.task.tid ? 0 : root.task.tid;
    shape += fmt::format("#{} {} {}", static_cast<int>(root.kind), root.dev, tid);
  }
  return shape;
}

void finish(StallGroup& group, const std::vector<blame::Stall>& stalls) {
  std::stable_sort(group.members.begin(), group.members.end(),
                   [&](size_t a, size_t b) { return stalls[a].ns > stalls[b].ns; });
  group.longest_ns = stalls[group.members.front()].ns;
  group.shortest_ns = stalls[group.members.back()].ns;
  for (size_t member : group.members) group.ns += stalls[member].ns;
}

}  // namespace

kernel::WaitClass main_class(const blame::Stall& stall) {
  std::array<uint64_t, kernel::kWaitClassCount> times{};
  for (const blame::Part& part : stall.parts) {
    times.at(static_cast<size_t>(part.wait_class)) += part.ns;
  }
  if (stall.parts.empty()) return kernel::WaitClass::kOther;
  return static_cast<kernel::WaitClass>(std::max_element(times.begin(), times.end()) -
                                        times.begin());
}

std::vector<StallGroup> group_stalls(const std::vector<blame::Stall>& stalls) {
  std::map<std::string, std::vector<size_t>> by_shape;
  for (size_t i = 0; i < stalls.size(); ++i) by_shape[shape_of(stalls[i], true)].push_back(i);

  std::vector<StallGroup> groups;
  for (auto& [shape, members] : by_shape) {
    std::stable_sort(members.begin(), members.end(),
                     [&](size_t a, size_t b) { return stalls[a].start_ns < stalls[b].start_ns; });
    uint64_t busy_until_ns = 0;
    bool open = false;
    for (size_t member : members) {
      const blame::Stall& stall = stalls[member];
      if (!open || stall.start_ns >= busy_until_ns) groups.emplace_back();
      open = true;
      groups.back().members.push_back(member);
      busy_until_ns = std::max(busy_until_ns, stall.start_ns + stall.ns);
    }
  }
  for (StallGroup& group : groups) finish(group, stalls);
  std::stable_sort(groups.begin(), groups.end(), [&](const StallGroup& a, const StallGroup& b) {
    if (a.longest_ns != b.longest_ns) return a.longest_ns > b.longest_ns;
    return stalls[a.members.front()].start_ns < stalls[b.members.front()].start_ns;
  });
  return groups;
}

std::vector<StallGroup> merge_recurring(std::vector<StallGroup> groups,
                                        const std::vector<blame::Stall>& stalls) {
  std::map<std::string, size_t> known;
  std::vector<StallGroup> merged;
  for (StallGroup& group : groups) {
    std::string shape = shape_of(stalls[group.members.front()], false);
    auto [place, is_new] = known.try_emplace(std::move(shape), merged.size());
    if (is_new) {
      merged.push_back(std::move(group));
      continue;
    }
    StallGroup& first = merged[place->second];
    ++first.other_times;
    first.elsewhere.insert(first.elsewhere.end(), group.members.begin(), group.members.end());
  }
  for (StallGroup& group : merged) {
    std::stable_sort(group.elsewhere.begin(), group.elsewhere.end(),
                     [&](size_t a, size_t b) { return stalls[a].ns > stalls[b].ns; });
  }
  return merged;
}

}  // namespace stalltrace::report

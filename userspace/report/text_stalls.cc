#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "userspace/base/units.h"
#include "userspace/model/call_names.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/plain_words.h"
#include "userspace/report/stall_groups.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

std::string from_to(uint64_t least_ns, uint64_t most_ns) {
  std::string least = format_time(least_ns);
  std::string most = format_time(most_ns);
  if (least == most) return most;
  // "1.20 to 1.90 s"
  size_t unit = least.find(' ');
  if (most.ends_with(least.substr(unit))) least.resize(unit);
  return least + " to " + most;
}

// " a[1], b[2] and 3 more tasks": those from `first` on, as many as two lines hold after `before`.
std::string tasks_of(const Page& page, const Names& names, const Report& report,
                     const std::vector<size_t>& members, size_t first, const std::string& before) {
  std::vector<std::string> tasks;
  std::set<std::string> seen;
  for (size_t i = first; i < members.size(); ++i) {
    std::string task = names.task(report.stalls[members[i]].task);
    if (seen.insert(task).second) tasks.push_back(task);
  }
  size_t used = columns_of(std::string_view(before));
  size_t room = 2 * page.width() - std::string_view(" and 1234 more tasks, and what breaks").size();
  std::string text;
  for (size_t i = 0; i < tasks.size(); ++i) {
    std::string next = (i == 0 ? " " : ", ") + tasks[i];
    used += columns_of(std::string_view(next));
    if (i > 0 && used > room) {
      return text + " and " + counted(tasks.size() - i, "more task", "more tasks");
    }
    text += next;
  }
  return text;
}

void print_others_like_it(Page& page, const Names& names, const Report& report,
                          const StallGroup& group) {
  size_t others = group.members.size() - 1;
  if (others == 0) return;
  const blame::Stall& second = report.stalls[group.members[1]];
  uint64_t rest_ns = group.ns - group.longest_ns;
  std::string text =
      fmt::format("{} more like it, {}", others, from_to(group.shortest_ns, second.ns));
  if (others > 1) text += fmt::format(", {} in all", format_time(rest_ns));
  text += fmt::format(": {} of", model::call_name(second.kind));
  page.wrapped(0, 2,
               {{text + tasks_of(page, names, report, group.members, 1, text), Ink::kYellow}});
}

void print_other_times(Page& page, const Report& report, const StallGroup& group) {
  if (group.other_times == 0) return;
  uint64_t ns = 0;
  for (size_t member : group.elsewhere) ns += report.stalls[member].ns;
  std::string text = fmt::format(
      "the same at {}: {}, {}", counted(group.other_times, "other time", "other times"),
      counted(group.elsewhere.size(), "stall", "stalls"),
      from_to(report.stalls[group.elsewhere.back()].ns, report.stalls[group.elsewhere.front()].ns));
  if (group.elsewhere.size() > 1) text += fmt::format(", {} in all", format_time(ns));
  page.wrapped(0, 2, {{text, Ink::kYellow}});
}

// What is not printed in full, one line for each kind of stall.
void print_remaining(Page& page, const Names& names, const Report& report,
                     const std::vector<StallGroup>& groups, size_t first) {
  struct Sum {
    uint64_t stalls = 0, ns = 0, longest_ns = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Sum> sums;
  Sum all;
  for (size_t i = first; i < groups.size(); ++i) {
    std::vector<size_t> members = groups[i].members;
    members.insert(members.end(), groups[i].elsewhere.begin(), groups[i].elsewhere.end());
    for (size_t member : members) {
      const blame::Stall& stall = report.stalls[member];
      std::string root = "-";
      if (!stall.roots.empty()) {
        root = std::string(blame::name_of(stall.roots.front().kind));
        if (stall.roots.front().dev != 0) root += " " + names.device(stall.roots.front().dev);
      }
      Sum& sum = sums[{std::string(model::call_name(stall.kind)),
                       std::string(kernel::name_of(main_class(stall))), root}];
      for (Sum* to : {&sum, &all}) {
        ++to->stalls;
        to->ns += stall.ns;
        to->longest_ns = std::max(to->longest_ns, stall.ns);
      }
    }
  }
  page.gap();
  page.wrapped(0, 2,
               {{fmt::format("{} ({}, {}, none over {}), see --json for each:",
                             counted(groups.size() - first, "more group", "more groups"),
                             counted(all.stalls, "stall", "stalls"), format_time(all.ns),
                             format_time(all.longest_ns)),
                 Ink::kBold}});
  using enum Column::Align;
  Table table({{"call", kLeft},
               {"waiting mostly in", kLeft},
               {"root cause", kLeft, 0, true},
               {"stalls"},
               {"blocked"},
               {"longest"}});
  std::vector<std::pair<std::tuple<std::string, std::string, std::string>, Sum>> order(sums.begin(),
                                                                                       sums.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  constexpr size_t kMostKinds = 12;
  for (size_t i = 0; i < order.size() && i < kMostKinds; ++i) {
    const auto& [key, sum] = order[i];
    table.row({std::get<0>(key), std::get<1>(key), std::get<2>(key), fmt::to_string(sum.stalls),
               format_time(sum.ns), format_time(sum.longest_ns)});
  }
  table.print(page);
  if (order.size() > kMostKinds) {
    page.line(fmt::format("  and {} more kinds", order.size() - kMostKinds));
  }
}

}  // namespace

std::string live_text(const Report& report, uint64_t others, const std::string& time_of_day,
                      const TextStyle& style) {
  constexpr size_t kMostTold = 4;
  if (report.stalls.empty() && others == 0) return {};
  Page page(style);
  Names names(report, style.utf8);
  std::vector<StallGroup> groups = merge_recurring(group_stalls(report.stalls), report.stalls);
  page.gap();
  page.line({{fmt::format("-- {}", time_of_day), Ink::kDim}});
  uint64_t left = others;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i >= kMostTold) {
      left += groups[i].members.size() + groups[i].elsewhere.size();
      continue;
    }
    if (i > 0) page.gap();
    print_stall(page, names, report.stalls[groups[i].members.front()]);
    print_others_like_it(page, names, report, groups[i]);
    print_other_times(page, report, groups[i]);
  }
  if (left > 0) {
    page.line({{fmt::format("and {}: see the report at the end",
                            counted(left, "more stall", "more stalls")),
                Ink::kDim}});
  }
  return page.take();
}

void print_stalls(Page& page, const Names& names, const Report& report, size_t most_groups) {
  std::vector<StallGroup> groups = group_stalls(report.stalls);
  if (groups.size() > most_groups) groups = merge_recurring(std::move(groups), report.stalls);
  size_t shown = std::min(groups.size(), most_groups);
  for (size_t i = 0; i < shown; ++i) {
    page.gap();
    print_stall(page, names, report.stalls[groups[i].members.front()]);
    print_others_like_it(page, names, report, groups[i]);
    print_other_times(page, report, groups[i]);
  }
  if (shown < groups.size()) print_remaining(page, names, report, groups, shown);
}

}  // namespace stalltrace::report

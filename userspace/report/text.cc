#include "userspace/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "userspace/base/units.h"
#include "userspace/kernel/devices.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/plain_words.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

struct LossLine {
  uint64_t count;
  const char* one;
  const char* many;
  const char* means;
};

void print_loss(Page& page, const Loss& loss) {
  if (!loss.any()) return;
  page.wrapped(
      0, 2,
      {{"LOSS: not everything was seen. What follows is true, but not complete:", Ink::kRed}});
  const LossLine lines[] = {
      {loss.events, "event was lost", "events were lost",
       "waits, commits, flushes or requests may be missing; chains that needed them end in "
       "\"unexplained\""},
      {loss.stalls, "stall was lost", "stalls were lost", "missing from the list below"},
      {loss.folded_parts, "part was folded", "parts were folded",
       "calls with very many waits show fewer, longer parts"},
      {loss.unmatched, "event without its beginning", "events without their beginning",
       "left out of every figure"},
      {loss.map_full, "time a table in the kernel was full", "times a table in the kernel was full",
       "that task, request or flush was not followed"},
      {loss.missed_probes, "probe was skipped by the kernel", "probes were skipped by the kernel",
       "counts may be too low, parts may be missing"},
  };
  for (const LossLine& line : lines) {
    if (line.count == 0) continue;
    page.wrapped(2, 4,
                 {{counted(line.count, line.one, line.many) + ": ", Ink::kBold}, {line.means, {}}});
  }
  page.gap();
}

void print_notes(Page& page, const Names& names, const Report& report) {
  for (const std::string& note : report.notes) {
    page.wrapped(0, 6, {{"note: ", Ink::kYellow}, {names.clean(note), Ink::kPlain}});
  }
  if (!report.missing_results.empty()) {
    std::string list;
    for (const std::string& result : report.missing_results) {
      if (!list.empty()) list += "; ";
      list += names.clean(result);
    }
    page.wrapped(0, 6, {{"not available here: ", Ink::kYellow}, {list, Ink::kPlain}});
  }
  page.gap();
}

void print_context(Page& page, const Names& names, const Report& report) {
  std::string command;
  for (const std::string& word : report.command) {
    if (!command.empty()) command += ' ';
    command += names.clean(word);
  }
  if (!command.empty()) page.wrapped(0, 2, {{page.cut(command, 3 * page.width()), Ink::kDim}});
  // The matrix traces some of its cells, each by itself.
  const bool cells = report.workload.is_object() && is_dio_matrix(report.workload);
  std::string machine = fmt::format("{} {}", format_time(report.end_ns - report.start_ns),
                                    cells                  ? "in all"
                                    : report.hooks.empty() ? "without tracing"
                                                           : "traced");
  if (!report.kernel.empty()) {
    machine += fmt::format(" on Linux {} ({}, {})", names.clean(report.kernel),
                           names.clean(report.arch), counted(report.cpus, "CPU", "CPUs"));
  }
  if (report.bounds == "sleep") {
    machine += "; calls that never slept were not seen (--bounds sleep)";
  }
  page.wrapped(0, 2, {{machine, Ink::kDim}});
}

// The report's own table, or, where a part of it was left out, the stalls' roots.
std::vector<RootShare> root_shares(const Report& report) {
  std::vector<RootShare> shares = report.roots;
  if (shares.empty()) {
    std::map<std::pair<blame::RootKind, uint32_t>, RootShare> sums;
    for (const blame::Stall& stall : report.stalls) {
      for (const blame::Root& root : stall.roots) {
        RootShare& sum = sums[{root.kind, root.dev}];
        sum.kind = root.kind;
        sum.dev = root.dev;
        sum.ns += root.ns;
      }
    }
    for (const auto& [key, sum] : sums) shares.push_back(sum);
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const RootShare& a, const RootShare& b) { return a.ns > b.ns; });
  return shares;
}

void print_summary(Page& page, const Names& names, const Report& report) {
  constexpr size_t kMostRoots = 3;
  std::string window = format_time(report.end_ns - report.start_ns);
  std::string threshold = round_time(report.threshold_ns);
  if (report.hooks.empty()) return;  // nothing was traced
  if (report.stalls.empty()) {
    uint64_t calls = 0;
    for (const OpStats& op : report.ops) calls += op.latency.count;
    page.wrapped(0, 2,
                 {{fmt::format("no stall over {} in {} of tracing; {} seen", threshold, window,
                               counted(calls, "call", "calls")),
                   Ink::kBold}});
    return;
  }
  uint64_t blocked_ns = 0;
  uint64_t unfinished = 0;
  std::set<uint32_t> tasks;
  for (const blame::Stall& stall : report.stalls) {
    blocked_ns += stall.ns;
    unfinished += stall.unfinished ? 1 : 0;
    tasks.insert(stall.task.tid);
  }
  std::string text =
      fmt::format("{} over {} in {}, {} of blocked time in {}",
                  counted(report.stalls.size(), "stall", "stalls"), threshold,
                  counted(tasks.size(), "task", "tasks"), format_time(blocked_ns), window);
  if (unfinished > 0) text += fmt::format(", {} still blocked at the end", unfinished);
  std::vector<RootShare> shares = root_shares(report);
  uint64_t total_ns = 0;
  for (const RootShare& share : shares) total_ns += share.ns;
  std::string why;
  for (size_t i = 0; i < shares.size() && i < kMostRoots; ++i) {
    if (i > 0 && shares[i].ns * 100 < total_ns) break;
    why += fmt::format("{} {} {}", i == 0 ? ";" : ",", percent(shares[i].ns, total_ns),
                       what_happened(shares[i].kind, names.place(shares[i].dev)));
  }
  page.wrapped(0, 2, {{text + why, Ink::kBold}});
}

}  // namespace

Names::Names(const Report& report, bool utf8) : start_ns_(report.start_ns), utf8_(utf8) {
  // A disk's own name, where it is listed, comes before that of what lies on it.
  for (uint32_t DeviceInfo::*number : {&DeviceInfo::fs_dev, &DeviceInfo::dev}) {
    for (const DeviceInfo& device : report.devices) {
      uint32_t kdev = device.*number;
      if (!device.name.empty()) names_.try_emplace(kdev, clean(device.name));
      if (!device.mountpoint.empty()) mountpoints_.try_emplace(kdev, clean(device.mountpoint));
    }
  }
}

std::string Names::clean(std::string_view bytes) const {
  return printable(bytes, utf8_);
}

std::string Names::device(uint32_t kdev) const {
  if (kdev == 0) return {};
  auto found = names_.find(kdev);
  return found == names_.end() ? kernel::kdev_text(kdev) : found->second;
}

std::string Names::place(uint32_t kdev) const {
  auto found = mountpoints_.find(kdev);
  if (kdev == 0 || found == mountpoints_.end()) return device(kdev);
  return fmt::format("{} ({})", device(kdev), found->second);
}

std::string Names::task(const blame::TaskName& task) const {
  if (task.tid == 0) return {};
  return fmt::format("{}[{}]", clean(task.comm), task.tid);
}

std::string Names::root(const blame::Root& root) const {
  std::string text(blame::name_of(root.kind));
  if (root.dev != 0) text += " " + device(root.dev);
  if (root.task.tid != 0) text += " " + task(root.task);
  return text;
}

std::string Names::file(std::string_view path, uint64_t ino, uint32_t kdev) const {
  std::string inode = ino == 0 ? std::string() : fmt::format("ino {}", ino);
  std::string device_name = device(kdev);
  if (path.empty()) {
    if (inode.empty() || device_name.empty()) return inode + device_name;
    return inode + " on " + device_name;
  }
  if (inode.empty() && device_name.empty()) return clean(path);
  if (!inode.empty() && !device_name.empty()) inode += ", ";
  return fmt::format("{} ({}{})", clean(path), inode, device_name);
}

std::string Names::since_start(uint64_t ns) const {
  return fmt::format("{:.3f} s", static_cast<double>(static_cast<int64_t>(ns - start_ns_)) / 1e9);
}

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0 || part == 0) return "0 %";
  double exact = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part < whole && exact > 99) return "over 99 %";
  if (exact < 1) return "under 1 %";
  return fmt::format("{:.0f} %", exact);
}

std::string round_time(uint64_t ns) {
  std::string text = format_time(ns);
  size_t dot = text.find('.');
  size_t blank = text.find(' ');
  if (dot == std::string::npos || blank == std::string::npos) return text;
  size_t end = text.find_last_not_of('0', blank - 1);
  return text.substr(0, end == dot ? dot : end + 1) + text.substr(blank);
}

std::string to_text(const Report& report, const TextStyle& style) {
  Page page(style);
  Names names(report, style.utf8);
  print_loss(page, report.loss);
  print_notes(page, names, report);
  print_context(page, names, report);
  print_summary(page, names, report);
  print_stalls(page, names, report, style.most_groups);
  print_calls(page, names, report);
  print_async(page, names, report);
  print_waits(page, names, report);
  print_roots(page, names, report);
  print_culprits(page, names, report);
  print_locks(page, names, report);
  print_commits(page, names, report);
  print_flushes(page, names, report);
  print_batching(page, names, report);
  print_probe(page, names, report);
  print_workload(page, names, report);
  print_devices(page, names, report);
  print_meanings(page, report);
  print_tracer(page, names, report);
  return page.take();
}

}  // namespace stalltrace::report

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "userspace/base/units.h"
#include "userspace/kernel/devices.h"
#include "userspace/report/plain_words.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

using enum Column::Align;

Table dist_table(const char* first_title) {
  return Table({{first_title, kLeft},
                {"count"},
                {"mean"},
                {"p50", kRight, 2},
                {"p99"},
                {"max"},
                {"", kLeft, 3}});
}

void add_dist(Table& table, std::string_view name, const Dist& dist, std::string_view meaning) {
  if (dist.count == 0) return;
  table.row({std::string(name), fmt::to_string(dist.count),
             format_time(static_cast<uint64_t>(dist.mean_ns)), format_time(dist.p50_ns),
             format_time(dist.p99_ns), format_time(dist.max_ns), std::string(meaning)});
}

std::string rate(uint64_t count, const Report& report) {
  std::string window = format_time(report.end_ns - report.start_ns);
  if (report.end_ns <= report.start_ns) return fmt::format("{} in {}", count, window);
  double per_s =
      static_cast<double>(count) * 1e9 / static_cast<double>(report.end_ns - report.start_ns);
  return fmt::format("{} in {} ({:.{}f} a second)", count, window, per_s, per_s < 10 ? 2 : 0);
}

// The kernel's own count, and whether it agrees with ours.
void add_check(Spans& spans, uint64_t ours, const std::optional<uint64_t>& theirs,
               const char* source) {
  if (!theirs) return;
  if (ours == *theirs) {
    spans.push_back({fmt::format("; {}: {}, equal", source, *theirs), Ink::kGreen});
  } else {
    spans.push_back({fmt::format("; {}: {}, NOT EQUAL", source, *theirs), Ink::kRed});
  }
}

void add_sharing(Spans& spans, const std::optional<Dist>& dist, const char* what) {
  if (!dist || dist->count == 0) return;
  spans.push_back({fmt::format("; {:.2f} {} (at most {})", dist->mean_ns, what, dist->max_ns), {}});
}

}  // namespace

void print_commits(Page& page, const Names& names, const Report& report) {
  static constexpr std::array<kernel::WaitClass, 6> kPhases{
      kernel::WaitClass::kCommitHandles,    kernel::WaitClass::kCommitData,
      kernel::WaitClass::kCommitLog,        kernel::WaitClass::kCommitRecord,
      kernel::WaitClass::kCommitCheckpoint, kernel::WaitClass::kCommitRun};
  if (report.commits.empty()) return;
  page.title("Journal commits");
  for (const CommitStats& commit : report.commits) {
    Spans spans{{fmt::format("{}: {}", names.place(commit.dev), rate(commit.count, report)), {}}};
    add_check(spans, commit.count, commit.proc_count, "/proc/fs/jbd2");
    add_sharing(spans, commit.syncs_per_commit, "sync calls per commit");
    page.wrapped(2, 4, spans);
    Table table = dist_table("phase");
    std::set<std::string_view> done;
    for (kernel::WaitClass phase : kPhases) {
      auto found = commit.phases.find(std::string(kernel::name_of(phase)));
      if (found == commit.phases.end()) continue;
      add_dist(table, found->first, found->second, "");
      done.insert(found->first);
    }
    for (const auto& [name, dist] : commit.phases) {
      if (name != "total" && !done.contains(name)) add_dist(table, names.clean(name), dist, "");
    }
    auto total = commit.phases.find("total");
    if (total != commit.phases.end()) {
      add_dist(table, "total", total->second, "");
    }
    if (!table.empty()) table.print(page, 4);
  }
}

void print_flushes(Page& page, const Names& names, const Report& report) {
  if (report.flushes.empty()) return;
  page.title("Flushes (the device empties its write cache)");
  for (const FlushStats& flush : report.flushes) {
    Spans spans{{fmt::format("{}: {}", names.place(flush.dev), rate(flush.count, report)), {}}};
    add_check(spans, flush.count, flush.diskstats_count, "/proc/diskstats");
    add_sharing(spans, flush.callers_per_flush, "callers per flush");
    page.wrapped(2, 4, spans);
    Table table = dist_table("time");
    add_dist(table, "queue", flush.queue, "waiting for the flush before it");
    add_dist(table, "device", flush.device, "in the device");
    if (!table.empty()) table.print(page, 4);
  }
}

void print_devices(Page& page, const Names& names, const Report& report) {
  Table table({{"device", kLeft},
               {"number", kLeft},
               {"file system", kLeft},
               {"on", kLeft, 0, true},
               {"journal", kLeft},
               {"write cache", kLeft, 1},
               {"options", kLeft, 2, true}});
  for (const DeviceInfo& device : report.devices) {
    std::string journal = device.has_journal ? "inside" : "none";
    if (device.journal_dev) journal = "on " + names.device(*device.journal_dev);
    if (device.fs.empty()) journal.clear();
    uint32_t number = device.fs_dev != 0 ? device.fs_dev : device.dev;
    table.row({names.clean(device.name), kernel::kdev_text(number), names.clean(device.fs),
               names.clean(device.mountpoint), journal, names.clean(device.write_cache),
               names.clean(device.options)});
  }
  if (table.empty()) return;
  page.title("Devices");
  table.print(page);
  for (const DeviceInfo& device : report.devices) {
    if (device.bios_refused == 0) continue;
    page.line(
        fmt::format("  {}: {} writes or reads with RWF_NOWAIT were refused in its queue: no "
                    "request was free",
                    names.clean(device.name), device.bios_refused));
  }
}

void print_tracer(Page& page, const Names& names, const Report& report) {
  page.gap();
  std::string broken;
  for (const Hook& hook : report.hooks) {
    if (hook.ok) continue;
    if (!broken.empty()) broken += "; ";
    broken += names.clean(hook.name);
    if (!hook.why.empty()) broken += fmt::format(" ({})", names.clean(hook.why));
  }
  if (!broken.empty()) {
    page.wrapped(0, 2, {{"hooks not in place: ", Ink::kYellow}, {broken, Ink::kPlain}});
  }
  const Overhead& cost = report.overhead;
  std::string text;
  if (cost.bpf_ns) {
    text += fmt::format(" {} in the kernel", format_time(*cost.bpf_ns));
    if (cost.bpf_runs) text += fmt::format(" ({} BPF runs)", *cost.bpf_runs);
    text += ',';
  }
  if (cost.bpf_cpu_share) {
    text += fmt::format(" {:.2f} % of all CPU time,", 100 * *cost.bpf_cpu_share);
  }
  text += fmt::format(" {:.2f} s of CPU and {:.1f} MiB of memory of its own", cost.self_cpu_s,
                      cost.self_rss_mib);
  page.wrapped(0, 2, {{"tracing cost:", Ink::kDim}, {text, Ink::kDim}});
}

void print_meanings(Page& page, const Report& report) {
  std::set<kernel::WaitClass> classes;
  std::set<blame::RootKind> roots;
  for (const blame::Stall& stall : report.stalls) {
    for (const blame::Part& part : stall.parts) classes.insert(part.wait_class);
    for (const blame::Root& root : stall.roots) roots.insert(root.kind);
  }
  for (const CommitStats& commit : report.commits) {
    for (const auto& [phase, dist] : commit.phases) {
      if (auto known = kernel::wait_class_named(phase)) classes.insert(*known);
    }
  }
  for (const WaitShare& wait : report.waits) classes.insert(wait.wait_class);
  for (const RootShare& root : report.roots) roots.insert(root.kind);
  if (classes.empty() && roots.empty()) return;
  page.title("What the names mean");
  size_t width = 0;
  for (kernel::WaitClass one : classes) width = std::max(width, kernel::name_of(one).size());
  for (blame::RootKind one : roots) width = std::max(width, blame::name_of(one).size());
  auto explain = [&](std::string_view name, std::string_view meaning) {
    page.wrapped_after({{fmt::format("  {:<{}}  ", name, width), Ink::kCyan}}, width + 4,
                       {{std::string(meaning), Ink::kPlain}});
  };
  for (kernel::WaitClass one : classes) explain(kernel::name_of(one), meaning_of(one));
  for (blame::RootKind one : roots) explain(blame::name_of(one), meaning_of(one));
}

}  // namespace stalltrace::report

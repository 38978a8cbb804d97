#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "userspace/base/units.h"
#include "userspace/model/call_names.h"
#include "userspace/report/plain_words.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

using enum Column::Align;

constexpr size_t kMostTableRows = 10;

std::string time_or_none(uint64_t ns, uint64_t count) {
  return count == 0 ? std::string("-") : format_time(ns);
}

template <typename Row>
uint64_t total_ns(const std::vector<Row>& rows) {
  uint64_t sum = 0;
  for (const Row& row : rows) sum += row.ns;
  return sum;
}

std::string share_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print_rest(Page& page, size_t all) {
  if (all > kMostTableRows) page.line(fmt::format("  and {} more", all - kMostTableRows));
}

double total_of(const Dist& dist) {
  return dist.mean_ns * static_cast<double>(dist.count);
}

void print_slowest(Page& page, const Names& names, const std::vector<AsyncSlow>& slow) {
  constexpr size_t kMostSlow = 5;
  std::vector<const AsyncSlow*> order;
  for (const AsyncSlow& one : slow) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->ns > b->ns; });
  Table table({{"slowest", kLeft, 0, true},
               {"time"},
               {"at"},
               {"submit"},
               {"queue"},
               {"device"},
               {"complete", kRight, 1},
               {"root cause", kLeft, 2, true}});
  for (size_t i = 0; i < order.size() && i < kMostSlow; ++i) {
    const AsyncSlow& one = *order[i];
    auto part = [](const std::optional<uint64_t>& ns) {
      return ns ? format_time(*ns) : std::string();
    };
    table.row({names.task(one.task), format_time(one.ns), names.since_start(one.start_ns),
               part(one.submit_ns), part(one.queue_ns), part(one.device_ns), part(one.complete_ns),
               one.roots.empty() ? std::string() : names.root(one.roots.front())});
  }
  if (!table.empty()) table.print(page);
}

}  // namespace

void print_calls(Page& page, const Names& names, const Report& report) {
  std::vector<const OpStats*> order;
  for (const OpStats& op : report.ops) order.push_back(&op);
  std::stable_sort(order.begin(), order.end(), [](const OpStats* a, const OpStats* b) {
    if (a->stalled_ns != b->stalled_ns) return a->stalled_ns > b->stalled_ns;
    return a->latency.count > b->latency.count;
  });
  Table table({{"call", kLeft},
               {"device", kLeft, 0, true},
               {"count"},
               {"mean", kRight, 1},
               {"p50"},
               {"p99"},
               {"max"},
               {"stalls"},
               {"stalled time"}});
  for (const OpStats* op : order) {
    uint64_t count = op->latency.count;
    table.row({std::string(model::call_name(op->kind)), names.device(op->dev),
               fmt::to_string(count),
               time_or_none(static_cast<uint64_t>(op->latency.mean_ns), count),
               time_or_none(op->latency.p50_ns, count), time_or_none(op->latency.p99_ns, count),
               time_or_none(op->latency.max_ns, count), fmt::to_string(op->stalled),
               time_or_none(op->stalled_ns, op->stalled)});
  }
  if (table.empty()) return;
  page.title("Calls");
  table.print(page);
}

void print_async(Page& page, const Names& names, const Report& report) {
  static constexpr std::array<std::pair<const char*, const char*>, 4> kParts{
      {{"submit", "until it reached the block layer"},
       {"queue", "waiting before the device"},
       {"device", "in the device"},
       {"complete", "from the device to its owner"}}};
  if (report.async.empty()) return;
  page.title("Async requests (from submission to completion; they block nobody)");
  for (const AsyncStats& async : report.async) {
    Table table({{"kind", kLeft},
                 {"device", kLeft, 0, true},
                 {"count"},
                 {"mean"},
                 {"p50"},
                 {"p99"},
                 {"max"},
                 {"of all time", kRight, 1},
                 {"", kLeft, 2}});
    auto add = [&](std::string name, std::string device, const Dist& dist, const char* meaning) {
      double share = total_of(async.latency) > 0 ? total_of(dist) / total_of(async.latency) : 0;
      table.row({std::move(name), std::move(device), fmt::to_string(dist.count),
                 time_or_none(static_cast<uint64_t>(dist.mean_ns), dist.count),
                 time_or_none(dist.p50_ns, dist.count), time_or_none(dist.p99_ns, dist.count),
                 time_or_none(dist.max_ns, dist.count), fmt::format("{:.1f} %", 100 * share),
                 meaning});
    };
    add(names.clean(async.kind), names.device(async.dev), async.latency, "");
    for (const auto& [part, meaning] : kParts) {
      auto found = async.parts.find(part);
      if (found == async.parts.end() || found->second.count == 0) continue;
      add(fmt::format("  {}", part), "", found->second, meaning);
    }
    table.print(page);
    print_slowest(page, names, async.slow);
  }
}

void print_waits(Page& page, const Names& names, const Report& report) {
  Table table({{"class", kLeft}, {"device", kLeft, 0, true}, {"time"}, {"share"}, {"stalls"}});
  uint64_t whole_ns = total_ns(report.waits);
  for (const WaitShare& wait : report.waits) {
    table.row({std::string(kernel::name_of(wait.wait_class)), names.device(wait.dev),
               format_time(wait.ns), share_text(wait.ns, whole_ns), fmt::to_string(wait.stalls)});
  }
  if (table.empty()) return;
  page.title("Where stalled calls spent their time");
  table.print(page);
}

void print_roots(Page& page, const Names& names, const Report& report) {
  Table table({{"root cause", kLeft}, {"device", kLeft, 0, true}, {"time"}, {"share"}, {"stalls"}});
  uint64_t whole_ns = total_ns(report.roots);
  for (const RootShare& root : report.roots) {
    table.row({std::string(blame::name_of(root.kind)), names.device(root.dev), format_time(root.ns),
               share_text(root.ns, whole_ns), fmt::to_string(root.stalls)},
              root.kind == blame::RootKind::kUnexplained ? Ink::kRed : Ink::kPlain);
  }
  if (table.empty()) return;
  page.title("Root causes");
  table.print(page);
}

void print_culprits(Page& page, const Names& names, const Report& report) {
  Table table({{"task", kLeft},
               {"cost others"},
               {"stalls"},
               {"doing", kLeft, 0, true},
               {"file", kLeft, 1, true, true}});
  for (size_t i = 0; i < report.culprits.size() && i < kMostTableRows; ++i) {
    const Culprit& culprit = report.culprits[i];
    table.row({names.task(culprit.task), format_time(culprit.others_ns),
               fmt::to_string(culprit.stalls), names.clean(culprit.what),
               names.clean(culprit.path)});
  }
  if (table.empty()) return;
  page.title("Who made others wait");
  table.print(page);
  print_rest(page, report.culprits.size());
}

void print_locks(Page& page, const Names& names, const Report& report) {
  Table table({{"lock", kLeft},
               {"wanted to", kLeft, 3},
               {"waits"},
               {"time"},
               {"longest"},
               {"file", kLeft, 0, true, true},
               {"device", kLeft, 2},
               {"held longest by", kLeft, 1, true}});
  for (size_t i = 0; i < report.locks.size() && i < kMostTableRows; ++i) {
    const LockStats& lock = report.locks[i];
    auto holder = std::max_element(lock.holders.begin(), lock.holders.end(),
                                   [](const auto& a, const auto& b) { return a.ns < b.ns; });
    std::string held;
    if (holder != lock.holders.end()) {
      held = names.task(holder->task);
      if (!holder->doing.empty()) held += fmt::format(" ({})", names.clean(holder->doing));
    }
    table.row({std::string(kernel::name_of(lock.wait_class)), lock.write ? "write" : "read",
               fmt::to_string(lock.waits), format_time(lock.ns), format_time(lock.max_ns),
               lock.path.empty() ? names.file("", lock.ino, 0) : names.clean(lock.path),
               names.device(lock.dev), held});
  }
  if (table.empty()) return;
  page.title("Locks");
  table.print(page);
  print_rest(page, report.locks.size());
}

}  // namespace stalltrace::report

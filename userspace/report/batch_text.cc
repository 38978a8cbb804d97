#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "userspace/base/units.h"
#include "userspace/batching/figures.h"
#include "userspace/report/batch.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/page.h"

namespace stalltrace::report {
namespace {

using batching::FlushOrigin;
using batching::Rung;
using batching::Tally;
using enum report::Column::Align;

std::string number(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 1000 ? 1 : 0);
}

std::string or_none(const std::optional<double>& value) {
  return value ? number(*value) : "-";
}

std::string time_of(const model::Dist& dist, uint64_t ns) {
  return dist.count > 0 ? format_time(ns) : "-";
}

std::string mean_time(const std::vector<uint64_t>& samples) {
  model::Dist dist = model::dist_of_samples(samples);
  return time_of(dist, static_cast<uint64_t>(dist.mean_ns));
}

// A rung with its loops added up.
struct Row {
  const Rung& rung;
  Tally tally;
  batching::Gain gain;
};

// What was seen in part only is shown as not seen.
Tally seen_of(const Rung& rung) {
  Tally tally = rung.sum();
  if (tally.unseen.syncs) tally.sync_ns = tally.batch_wait_ns = {};
  if (tally.unseen.commits) tally.commit_ns = {};
  if (tally.unseen.commits || tally.unseen.handles) tally.handles_ns = {};
  if (tally.unseen.flushes || tally.unseen.requests) tally.flush_ns = {};
  return tally;
}

std::vector<Row> rows_of(const BatchReport& report) {
  std::vector<Row> rows;
  for (const Rung& rung : report.rungs) {
    const Rung& first = batching::first_rung(report.rungs, rung);
    rows.push_back({rung, seen_of(rung), {}});
    rows.back().gain = batching::gain_of(rows.back().tally, first.sum());
  }
  return rows;
}

// A mode's or a kernel's name ends in what tells it from the others: a knob's value, a file.
report::Column name_column(const char* title) {
  return {.title = title, .align = kLeft, .shrink = true, .keep_end = true};
}

// What comes first in every table, and names the row; a column without text is left out.
std::vector<report::Column> beginning() {
  return {name_column("device"), name_column("setting"), {"threads"}};
}
constexpr size_t kNames = 3;

void print_gains(Page& page, const std::vector<Row>& rows) {
  page.title("What more threads gain, and by what: gain = commits x flushes x rate");
  std::vector<report::Column> columns = beginning();
  for (const char* title : {"files/s", "syncs/s", "gain", "commits", "flushes", "rate"}) {
    columns.push_back({title});
  }
  bool no_flush = false;
  Table table(std::move(columns), kNames);
  for (const Row& row : rows) {
    const Rung& rung = row.rung;
    batching::Rates rates = batching::rates_of(row.tally);
    std::string commits = "-", flushes = "-", rate = "-";
    auto times = [](double factor) { return fmt::format("x{:.2f}", factor); };
    if (row.gain.factors) {
      commits = times(row.gain.factors->commit_sharing);
      flushes = times(row.gain.factors->flush_sharing);
      rate = times(row.gain.factors->flush_rate);
    } else if (row.gain.without_flush) {
      no_flush = true;
      commits = times(row.gain.without_flush->commit_sharing);
      flushes = "none";
      rate = times(row.gain.without_flush->commit_rate);
    }
    table.row({rung.device, rung.setting, fmt::to_string(rung.threads), number(rates.files_per_s),
               or_none(rates.syncs_per_s), row.gain.of_syncs ? times(*row.gain.of_syncs) : "-",
               commits, flushes, rate});
  }
  table.print(page);
  page.wrapped(
      2, 2,
      {{std::string("commits: by sharing them; flushes: by sharing those; rate: by more of "
                    "them a second.") +
            (no_flush ? " none: the device executed no flush; the rate is that of commits." : ""),
        Ink::kDim}});
}

void print_sharing(Page& page, const std::vector<Row>& rows) {
  page.title("How much is shared: syncs/s = syncs per commit x commits per flush x flushes/s");
  std::vector<report::Column> columns = beginning();
  for (const char* title : {"syncs/commit", "commits/flush", "flushes/s"}) {
    columns.push_back({title});
  }
  columns.push_back({"no flush runs"});
  columns.push_back({"free flushes"});
  columns.push_back({"all share"});
  Table table(std::move(columns), kNames);
  for (const Row& row : rows) {
    const Rung& rung = row.rung;
    const Tally& tally = row.tally;
    batching::Rates rates = batching::rates_of(tally);
    batching::Ceilings ceilings = batching::ceilings_of(tally, rung.threads);
    std::optional<double> idle = batching::idle_share(tally);
    auto per_s = [](const std::optional<double>& value) {
      return value ? number(*value) + "/s" : std::string("-");
    };
    table.row({rung.device, rung.setting, fmt::to_string(rung.threads),
               or_none(rates.syncs_per_commit), or_none(rates.commits_per_flush),
               or_none(rates.flushes_per_s), idle ? fmt::format("{:.1f} %", 100 * *idle) : "-",
               per_s(ceilings.free_flushes), per_s(ceilings.perfect_sharing)});
  }
  table.print(page);
  page.wrapped(2, 2,
               {{"no flush runs: the share of time in which a sync waits and no flush is in "
                 "the device. free flushes: syncs/s if flushes took no time. all share: if "
                 "every commit served every thread.",
                 Ink::kDim}});
}

void print_costs(Page& page, const std::vector<Row>& rows) {
  page.title("What it costs");
  std::vector<report::Column> columns = beginning();
  for (const char* title : {"file p50", "p99", "sync p50", "p99"}) columns.push_back({title});
  columns.push_back({"max"});
  for (const char* title : {"commit", "open handles", "flush"}) columns.push_back({title});
  columns.push_back({"batching sleep"});
  Table table(std::move(columns), kNames);
  for (const Row& row : rows) {
    const Rung& rung = row.rung;
    const Tally& tally = row.tally;
    model::Dist file = model::dist_of_samples(tally.file_ns);
    model::Dist sync = model::dist_of_samples(tally.sync_ns);
    table.row({rung.device, rung.setting, fmt::to_string(rung.threads), time_of(file, file.p50_ns),
               time_of(file, file.p99_ns), time_of(sync, sync.p50_ns), time_of(sync, sync.p99_ns),
               time_of(sync, sync.max_ns), mean_time(tally.commit_ns), mean_time(tally.handles_ns),
               mean_time(tally.flush_ns), mean_time(tally.batch_wait_ns)});
  }
  table.print(page);
  page.wrapped(2, 2,
               {{"file: from its open until it is on disk, by the load's own clock. sync: one "
                 "call.",
                 Ink::kDim}});
}

void print_parts(Page& page, const std::vector<Row>& rows) {
  page.title("What a sync waits for, on average; and the commit that it met");
  std::vector<report::Column> columns = beginning();
  for (const char* title : {"own commit", "commit before", "flush in flight", "own flush"}) {
    columns.push_back({title});
  }
  columns.push_back({"sleep"});
  columns.push_back({"other"});
  for (const char* title : {"running", "next", "committing"}) columns.push_back({title});
  Table table(std::move(columns), kNames);
  for (const Row& row : rows) {
    const Rung& rung = row.rung;
    const Tally& tally = row.tally;
    auto mean = [&](batching::SyncPart part) {
      return format_time(tally.sync_parts_ns[static_cast<size_t>(part)] /
                         std::max<uint64_t>(tally.syncs.all(), 1));
    };
    using enum batching::SyncPart;
    std::vector<std::string> cells{
        rung.device,      rung.setting,         fmt::to_string(rung.threads),
        mean(kOwnCommit), mean(kCommitBefore),  mean(kFlushInFlight),
        mean(kOwnFlush),  mean(kBatchingSleep), mean(kOther)};
    for (uint64_t count : tally.joined) cells.push_back(fmt::to_string(count));
    table.row(std::move(cells));
  }
  table.print(page);
  page.wrapped(2, 2,
               {{"running: its transaction could be committed at once; next: another was being "
                 "committed, and it waited for that one first; committing: its own was "
                 "under way.",
                 Ink::kDim}});
}

void print_paid(Page& page, const std::vector<Row>& rows) {
  page.title("What a sync had to have written before it returned, on average");
  std::vector<report::Column> columns = beginning();
  for (const char* title : {"own metadata", "others' metadata", "own data", "others' data"}) {
    columns.push_back({title});
  }
  columns.push_back({"of syncs"});
  Table table(std::move(columns), kNames);
  for (const Row& row : rows) {
    const batching::Paid& paid = row.tally.paid;
    if (paid.syncs == 0) continue;
    auto mean = [&](uint64_t sum) {
      return static_cast<double>(sum) / static_cast<double>(paid.syncs);
    };
    auto blocks = [&](uint64_t sum) { return fmt::format("{:.1f} blocks", mean(sum)); };
    auto bytes = [&](uint64_t sum) { return format_size(static_cast<uint64_t>(mean(sum))); };
    table.row({row.rung.device, row.rung.setting, fmt::to_string(row.rung.threads),
               blocks(paid.own_blocks), blocks(paid.others_blocks), bytes(paid.own_bytes),
               bytes(paid.others_bytes), fmt::to_string(paid.syncs)});
  }
  table.print(page);
  page.wrapped(
      2, 2,
      {{"own: put into its transaction by its own task; others: by all other tasks. A commit "
        "writes all of it, whoever waits.",
        Ink::kDim}});
}

void print_counts(Page& page, const std::vector<Row>& rows) {
  page.title("Syncs by what they needed, flushes by what asked for them");
  std::vector<report::Column> columns = beginning();
  columns.push_back({"commit"});
  columns.push_back({"fast"});
  columns.push_back({"flush only"});
  columns.push_back({"nothing"});
  columns.push_back({"own flush"});
  columns.push_back({"commits (/proc)"});
  columns.push_back({"flushes: commit"});
  columns.push_back({"sync"});
  columns.push_back({"other"});
  columns.push_back({"diskstats"});
  Table table(std::move(columns), kNames);
  for (const Row& row : rows) {
    const Rung& rung = row.rung;
    const Tally& tally = row.tally;
    uint64_t other = 0;
    for (size_t i = 2; i < batching::kFlushOrigins; ++i) other += tally.flushes[i];
    auto flushes = [&](FlushOrigin origin) {
      return fmt::to_string(tally.flushes[static_cast<size_t>(origin)]);
    };
    table.row({rung.device, rung.setting, fmt::to_string(rung.threads),
               fmt::to_string(tally.syncs.with_commit), fmt::to_string(tally.syncs.fast_commit),
               fmt::to_string(tally.syncs.flush_only), fmt::to_string(tally.syncs.nothing_to_do),
               fmt::to_string(tally.syncs.own_flush),
               fmt::format("{} ({})", tally.commits + tally.timer_commits, tally.proc_commits),
               flushes(FlushOrigin::kCommit), flushes(FlushOrigin::kSync), fmt::to_string(other),
               fmt::to_string(tally.diskstats_flushes)});
  }
  table.print(page);
}

// A line of the table of devices by mode by threads.
struct ModeLine {
  std::string device, kernel, mode;
  std::map<unsigned, std::pair<std::string, std::string>> cells;  // rate, ratio to ours; by threads
};

std::string mode_text(const std::string& setting, const std::string& sync) {
  return setting.empty() ? sync : setting;
}

std::vector<ModeLine> mode_lines(const BatchReport& report) {
  std::vector<ModeLine> lines;
  bool others = !report.beside.empty();
  auto disk_of = [&](const std::string& device, const std::string& disk) {
    return device.empty() && others ? disk : device;
  };
  const std::string our_disk = report.devices.empty() ? "" : report.devices.front().name;
  for (const Rung& first : report.rungs) {
    if (&batching::first_rung(report.rungs, first) != &first) continue;
    lines.push_back({.device = disk_of(first.device, our_disk),
                     .kernel = others ? report.host.kernel : "",
                     .mode = mode_text(first.setting, first.sync),
                     .cells = {}});
    for (const Rung& rung : report.rungs) {
      if (!rung.same_ladder(first)) continue;
      lines.back().cells[rung.threads].first = number(batching::rates_of(rung.sum()).files_per_s);
    }
  }
  for (const OtherBatch& other : report.beside) {
    const size_t begin = lines.size();
    for (const OtherRun& run : other.runs) {
      ModeLine line{.device = disk_of(run.device, other.disk),
                    .kernel = label_of(report, other),
                    .mode = mode_text(run.setting, run.sync),
                    .cells = {}};
      auto found = std::find_if(
          lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.end(),
          [&](const ModeLine& one) { return one.device == line.device && one.mode == line.mode; });
      if (found == lines.end()) found = lines.insert(lines.end(), std::move(line));
      auto effect = effect_beside(report, run, 1);
      found->cells[run.threads] = {number(run.files_per_s),
                                   effect ? fmt::format("x{:.2f}", effect->ratio) : ""};
    }
  }
  return lines;
}

// As people compare devices and kernels: a line per device and mode, a column per number of
// threads.
void print_devices_by_threads(Page& page, const BatchReport& report, bool utf8) {
  std::vector<ModeLine> lines = mode_lines(report);
  if (lines.size() < 2) return;
  std::map<std::string, size_t> place;  // of each device: where it came first
  for (size_t i = 0; i < lines.size(); ++i) place.emplace(lines[i].device, i);
  std::stable_sort(lines.begin(), lines.end(), [&](const ModeLine& a, const ModeLine& b) {
    return place[a.device] < place[b.device];
  });
  std::set<unsigned> ladder;
  for (const ModeLine& line : lines) {
    for (const auto& [threads, cell] : line.cells) ladder.insert(threads);
  }
  std::vector<report::Column> columns{name_column("device"), name_column("kernel"),
                                      name_column("mode")};
  for (unsigned threads : ladder) {
    columns.push_back({fmt::format("{} thread{}", threads, threads == 1 ? "" : "s")});
    columns.push_back({.title = "to ours", .joined = true});
  }
  page.title("Files/s: devices by mode by threads");
  Table table(std::move(columns), kNames);
  for (const ModeLine& line : lines) {
    std::vector<std::string> cells{printable(line.device, utf8), printable(line.kernel, utf8),
                                   printable(line.mode, utf8)};
    for (unsigned threads : ladder) {
      auto found = line.cells.find(threads);
      cells.push_back(found == line.cells.end() ? "-" : found->second.first);
      cells.push_back(found == line.cells.end() ? "" : found->second.second);
    }
    table.row(std::move(cells));
  }
  table.print(page);
}

void print_verdicts(Page& page, const BatchReport& report, bool utf8) {
  page.title("Verdicts");
  for (const batching::Verdict& verdict : report.verdicts) {
    page.wrapped(2, 4,
                 {{printable(verdict.about, utf8) + ": ", Ink::kCyan},
                  {printable(verdict.text, utf8), Ink::kPlain}});
  }
}

}  // namespace

std::string to_text(const BatchReport& report, const TextStyle& style) {
  Page page(style);
  page.wrapped(
      0, 2,
      {{fmt::format("fsync batching on Linux {} ({}, {} CPUs): {}", report.host.kernel,
                    report.host.arch, report.host.cpus, printable(report.work, style.utf8)),
        Ink::kPlain}});
  for (const DeviceInfo& device : report.devices) {
    std::string text = fmt::format("{}: {} {}", device.name,
                                   device.fs.empty() ? "the journal" : device.fs, device.options);
    if (!device.write_cache.empty()) text += ", write cache: " + device.write_cache;
    page.wrapped(2, 4, {{printable(text, style.utf8), Ink::kPlain}});
  }
  for (const std::string& note : report.notes) {
    page.wrapped(2, 4, {{printable(note, style.utf8), Ink::kYellow}});
  }
  if (report.rungs.empty()) return page.take();
  std::vector<Row> rows = rows_of(report);
  print_devices_by_threads(page, report, style.utf8);
  print_gains(page, rows);
  print_sharing(page, rows);
  print_costs(page, rows);
  if (!rows.front().tally.unseen.factors()) {
    print_parts(page, rows);
    print_paid(page, rows);
    print_counts(page, rows);
  }
  print_verdicts(page, report, style.utf8);
  return page.take();
}

}  // namespace stalltrace::report

// How syncs shared commits and flushes, for each journal that something synced.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "userspace/base/units.h"
#include "userspace/kernel/devices.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

// A report read back may hold anything.
double figure(const nlohmann::json& object, const char* key) {
  bool there = object.is_object() && object.contains(key) && object[key].is_number();
  return there ? object[key].get<double>() : 0;
}

std::string time_figure(const nlohmann::json& object, const char* dist, const char* key) {
  if (!object.contains(dist) || figure(object[dist], "count") <= 0) return "-";
  double us = figure(object[dist], key);
  if (!std::isfinite(us) || us < 0 || us > 9e15) return "-";
  return format_time(static_cast<uint64_t>(std::llround(us * 1000)));
}

uint32_t device_of(const nlohmann::json& journal) {
  unsigned major = 0;
  unsigned minor = 0;
  bool there = journal.contains("dev") && journal["dev"].is_string();
  if (!there ||
      std::sscanf(journal["dev"].get<std::string>().c_str(), "%u:%u", &major, &minor) != 2) {
    return 0;
  }
  return kernel::make_kdev(major, minor);
}

std::string shared(const nlohmann::json& journal, const char* key, std::string_view words) {
  if (!journal.contains(key)) return {};
  return fmt::format(", {:.2f} {}", figure(journal, key), words);
}

}  // namespace

void print_batching(Page& page, const Names& names, const Report& report) {
  if (!report.batching.is_array() || report.batching.empty()) return;
  page.title("fsync batching: syncs/s = syncs per commit x commits per flush x flushes/s");
  for (const nlohmann::json& journal : report.batching) {
    if (!journal.is_object()) continue;
    page.wrapped(
        2, 4,
        {{fmt::format("{}: {:.1f} syncs a second{}{}, {:.1f} flushes a second; {:.1f} % of "
                      "the time a sync waited and no flush was in the device",
                      names.place(device_of(journal)), figure(journal, "syncs_per_s"),
                      shared(journal, "syncs_per_commit", "per commit"),
                      shared(journal, "commits_per_flush", "commits per flush"),
                      figure(journal, "flushes_per_s"), 100 * figure(journal, "idle_share")),
          Ink::kPlain}});
    if (!journal.contains("syncs")) continue;
    const nlohmann::json& syncs = journal["syncs"];
    Table table({{"syncs with a commit"},
                 {"fast commit", Column::Align::kRight, 3},
                 {"flush only"},
                 {"nothing to do", Column::Align::kRight, 2},
                 {"sync p50"},
                 {"p99"},
                 {"commit"},
                 {"flush"},
                 {"batching sleep", Column::Align::kRight, 1}});
    auto count = [&](const char* key) { return fmt::format("{:.0f}", figure(syncs, key)); };
    table.row({count("with_commit"), count("fast_commit"), count("flush_only"),
               count("nothing_to_do"), time_figure(journal, "fsync_us", "p50"),
               time_figure(journal, "fsync_us", "p99"), time_figure(journal, "commit_us", "mean"),
               time_figure(journal, "flush_us", "mean"),
               time_figure(journal, "batch_wait_us", "mean")});
    table.print(page, 4);
  }
}

}  // namespace stalltrace::report

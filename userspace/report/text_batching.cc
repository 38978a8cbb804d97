// How syncs shared commits and flushes, for each journal that something synced.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "userspace/kernel/devices.h"
#include "userspace/report/json_figures.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

constexpr size_t kDirtiersShown = 4;

std::string time_figure(const Figures& journal, const char* dist, const char* key) {
  if (!journal.contains(dist) || number_at(journal[dist], "count") <= 0) return "-";
  return time_of_us(number_at(journal[dist], key));
}

uint32_t device_of(const Figures& journal) {
  unsigned major = 0;
  unsigned minor = 0;
  if (std::sscanf(text_at(journal, "dev").c_str(), "%u:%u", &major, &minor) != 2) return 0;
  return kernel::make_kdev(major, minor);
}

std::string size_at(const Figures& object, const char* key) {
  return format_size(static_cast<uint64_t>(std::max(0.0, std::min(number_at(object, key), 1e18))));
}

// What a sync had to have written, and who put it there.
void print_paid(Page& page, const Names& names, const Figures& journal) {
  if (!journal.contains("paid_per_sync")) return;
  const Figures& paid = journal["paid_per_sync"];
  page.wrapped(
      4, 6,
      {{fmt::format("a sync that waited for a commit had to have written, on average: {:.1f} "
                    "metadata blocks of its own and {:.1f} of others; {} of data of its own "
                    "and {} of others",
                    number_at(paid, "own_metadata_blocks"),
                    number_at(paid, "others_metadata_blocks"), size_at(paid, "own_data_bytes"),
                    size_at(paid, "others_data_bytes")),
        Ink::kPlain}});
  double all = number_at(journal, "metadata_blocks");
  if (all <= 0 || !journal.contains("metadata_by") || !journal["metadata_by"].is_array()) return;
  std::string list;
  size_t listed = 0;
  for (const Figures& one : journal["metadata_by"]) {
    if (!one.is_object() || listed++ == kDirtiersShown) break;
    list += fmt::format("{}{}[{:.0f}] {:.0f} %", list.empty() ? "" : ", ",
                        names.clean(text_at(one, "comm")), number_at(one, "tid"),
                        100 * number_at(one, "blocks") / all);
    if (std::string path = text_at(one, "path"); !path.empty()) {
      list += fmt::format(" ({})", names.clean(path));
    }
  }
  if (list.empty()) return;
  page.wrapped(
      4, 6,
      {{fmt::format("the metadata of its commits ({:.0f} blocks) was dirtied by {}", all, list),
        Ink::kPlain}});
}

std::string shared(const Figures& journal, const char* key, std::string_view words) {
  if (!journal.contains(key)) return {};
  return fmt::format(", {:.2f} {}", number_at(journal, key), words);
}

}  // namespace

void print_batching(Page& page, const Names& names, const Report& report) {
  if (!report.batching.is_array() || report.batching.empty()) return;
  page.title("fsync batching: syncs/s = syncs per commit x commits per flush x flushes/s");
  for (const Figures& journal : report.batching) {
    if (!journal.is_object()) continue;
    std::string text = fmt::format("{}: ", names.place(device_of(journal)));
    text += journal.contains("syncs_per_s")
                ? fmt::format("{:.1f} syncs a second", number_at(journal, "syncs_per_s"))
                : "not all syncs were seen";
    text += shared(journal, "syncs_per_commit", "per commit");
    text += shared(journal, "commits_per_flush", "commits per flush");
    if (journal.contains("flushes_per_s")) {
      text += fmt::format(", {:.1f} flushes a second", number_at(journal, "flushes_per_s"));
    }
    if (journal.contains("idle_share")) {
      text += fmt::format("; {:.1f} % of the time a sync waited and no flush was in the device",
                          100 * number_at(journal, "idle_share"));
    }
    page.wrapped(2, 4, {{text, Ink::kPlain}});
    if (journal.contains("not_seen") && journal["not_seen"].is_array()) {
      for (const Figures& reason : journal["not_seen"]) {
        if (!reason.is_string()) continue;
        page.wrapped(4, 6, {{"not seen: " + reason.get<std::string>(), Ink::kYellow}});
      }
    }
    if (!journal.contains("syncs")) continue;
    const Figures& syncs = journal["syncs"];
    Table table({{"syncs with a commit"},
                 {"fast commit", Column::Align::kRight, 3},
                 {"flush only"},
                 {"nothing to do", Column::Align::kRight, 2},
                 {"sync p50"},
                 {"p99"},
                 {"commit"},
                 {"flush"},
                 {"batching sleep", Column::Align::kRight, 1}});
    auto count = [&](const char* key) { return fmt::format("{:.0f}", number_at(syncs, key)); };
    table.row({count("with_commit"), count("fast_commit"), count("flush_only"),
               count("nothing_to_do"), time_figure(journal, "fsync_us", "p50"),
               time_figure(journal, "fsync_us", "p99"), time_figure(journal, "commit_us", "mean"),
               time_figure(journal, "flush_us", "mean"),
               time_figure(journal, "batch_wait_us", "mean")});
    table.print(page, 4);
    print_paid(page, names, journal);
  }
}

}  // namespace stalltrace::report

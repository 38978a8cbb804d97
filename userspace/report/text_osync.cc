// What `run osync` found: where its writers were, and who shared each flush.
#include <fmt/format.h>

#include "userspace/report/json_figures.h"
#include "userspace/report/plain_words.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

std::string share_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

void print_states(Page& page, const Figures& workload) {
  if (!workload.contains("states") || !workload["states"].is_object()) return;
  std::string text;
  for (const char* state : {"lock", "journal", "queue", "flush", "device", "run", "other"}) {
    const double share = number_at(workload["states"], state);
    if (share == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", state, share_text(share));
  }
  page.wrapped(2, 4, {{"where the writers were: ", Ink::kCyan}, {text, Ink::kPlain}});
}

void print_classes(Page& page, const Names& names, const Figures& workload) {
  constexpr size_t kMost = 5;
  if (!workload.contains("waits") || !workload["waits"].is_array()) return;
  std::string text;
  size_t shown = 0;
  for (const Figures& wait : workload["waits"]) {
    if (shown == kMost || number_at(wait, "share") < 0.001) break;
    text += fmt::format("{}{} {}", shown++ == 0 ? "" : ", ", names.clean(text_at(wait, "class")),
                        share_text(number_at(wait, "share")));
  }
  page.wrapped(2, 4, {{"by wait class: ", Ink::kCyan}, {text, Ink::kPlain}});
}

void print_osync_roots(Page& page, const Names& names, const Figures& workload) {
  if (!workload.contains("writers") || !workload["writers"].is_object()) return;
  const Figures& writers = workload["writers"];
  if (!writers.contains("roots") || !writers["roots"].is_array()) return;
  constexpr size_t kMost = 4;
  std::string text;
  size_t shown = 0;
  for (const Figures& root : writers["roots"]) {
    if (shown == kMost || number_at(root, "share") < 0.001) break;
    const std::string name = text_at(root, "name");
    text += fmt::format("{}{}{} {}", shown++ == 0 ? "" : ", ", names.clean(text_at(root, "cause")),
                        name.empty() ? "" : " " + names.clean(name),
                        share_text(number_at(root, "share")));
  }
  if (shown == 0) {
    text = "no write blocked its thread for as long as the threshold";
  } else {
    text += fmt::format("; calls under the threshold and time between calls {}",
                        share_text(std::max(0.0, 1 - number_at(writers, "share"))));
  }
  page.wrapped(2, 4, {{"by root: ", Ink::kCyan}, {text, Ink::kPlain}});
}

void print_flush_sharing(Page& page, const Figures& workload) {
  if (!workload.contains("flushes") || !workload["flushes"].is_object()) return;
  const Figures& flushes = workload["flushes"];
  const double writes = number_at(workload, "writes");
  const double executed = number_at(flushes, "executed");
  std::string text;
  if (executed == 0) {
    text = fmt::format("{:.0f} writes and no flush (write cache: {})", writes,
                       text_at(flushes, "write_cache"));
  } else {
    text = fmt::format("{:.0f} writes, {:.0f} flushes executed", writes, executed);
    if (has_number(flushes, "diskstats")) {
      text += fmt::format(" (diskstats: {:.0f})", number_at(flushes, "diskstats"));
    }
    text += fmt::format(": {:.2f} writes per flush", number_at(flushes, "writers_per_flush"));
  }
  page.wrapped(2, 4, {{"flushes: ", Ink::kCyan}, {text, Ink::kPlain}});
  if (executed == 0) return;
  const bool fua = flushes.contains("fua") && flushes["fua"] == true;
  text = fmt::format(
      "{:.0f} for data that was just written ({}), {:.0f} empty ones asked for after it; {:.2f} "
      "requests share a flush",
      number_at(flushes, "after_writes"),
      fua ? "a commit's record" : "the disk has no FUA: a flush follows the write instead",
      number_at(flushes, "empty"), number_at(flushes, "requests_per_flush"));
  page.wrapped(2, 4, {{"requests for them: ", Ink::kCyan}, {text, Ink::kPlain}});
}

}  // namespace

bool is_osync(const Figures& workload) {
  return text_at(workload, "scenario") == "osync" && !text_at(workload, "verdict").empty();
}

bool is_printed_by_osync(std::string_view key) {
  for (std::string_view printed :
       {"verdict", "states", "waits", "writers", "flushes", "node_journal", "seconds", "looks",
        "writes_by_thread", "mb_per_s", "iops"}) {
    if (key == printed) return true;
  }
  return false;
}

void print_osync(Page& page, const Names& names, const Figures& workload) {
  page.title("Durable writers");
  page.wrapped(2, 4,
               {{fmt::format("{:.2f} MB/s, {:.0f} writes/s", number_at(workload, "mb_per_s"),
                             number_at(workload, "iops")),
                 Ink::kBold}});
  page.wrapped(2, 4, {{"verdict: ", Ink::kBold}, {names.clean(text_at(workload, "verdict")), {}}});
  print_states(page, workload);
  print_classes(page, names, workload);
  print_osync_roots(page, names, workload);
  print_flush_sharing(page, workload);
  if (workload.contains("node_journal") && workload["node_journal"].is_object()) {
    const Figures& node = workload["node_journal"];
    page.wrapped(
        2, 4,
        {{"the device's node: ", Ink::kCyan},
         {fmt::format(
              "its mtime changes with the writes; meanwhile {} of {} ({})",
              counted(static_cast<uint64_t>(number_at(node, "commits")), "commit", "commits"),
              names.clean(text_at(node, "mountpoint")), names.clean(text_at(node, "file_system"))),
          Ink::kPlain}});
  }
}

}  // namespace stalltrace::report

// `stalltrace run powercut`: does what was promised to last outlive a power cut?

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/base/version.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/disk_words.h"
#include "userspace/cli/output.h"
#include "userspace/cli/signals.h"
#include "workloads/disk/profile.h"
#include "workloads/powercut.h"

namespace stalltrace::cli {
namespace {

using nlohmann::ordered_json;
using workloads::PowercutCut;
using workloads::PowercutOptions;
using workloads::PowercutResult;

constexpr uint64_t kDefaultFlush_ns = 2'000'000;
constexpr size_t kFaultsShown = 10;

struct PowercutWords {
  PowercutOptions options;
  DiskWords disk;
  std::string disk_size = "512m";
  std::string file_size = "20480";
  std::string json;
  bool quiet = false;
};

struct PowercutSums {
  uint64_t promised = 0;
  uint64_t lost = 0;
  uint64_t torn = 0;
  unsigned bad_cuts = 0;
  uint64_t dropped_min = 0;
  uint64_t dropped_max = 0;
  std::optional<uint64_t> syncs_min;  // none: a program's are not known
  std::optional<uint64_t> syncs_max;
};

PowercutSums sums_of(const PowercutResult& result) {
  PowercutSums sums;
  for (const PowercutCut& cut : result.cuts) {
    const bool first = &cut == &result.cuts.front();
    sums.promised += cut.promised;
    sums.lost += cut.lost;
    sums.torn += cut.torn;
    sums.bad_cuts += cut.is_good() ? 0 : 1;
    const uint64_t dropped = cut.disk.writes_dropped;
    sums.dropped_min = first ? dropped : std::min(sums.dropped_min, dropped);
    sums.dropped_max = std::max(sums.dropped_max, dropped);
    if (!cut.syncs_in_flight) continue;
    sums.syncs_min = std::min(sums.syncs_min.value_or(*cut.syncs_in_flight), *cut.syncs_in_flight);
    sums.syncs_max = std::max(sums.syncs_max.value_or(0), *cut.syncs_in_flight);
  }
  return sums;
}

PowercutOptions options_of(const PowercutWords& words) {
  PowercutOptions options = words.options;
  options.file_bytes = parse_size(words.file_size, "-s");
  options.disk.size_bytes = parse_size(words.disk_size, "--size");
  if (!options.checker.empty()) options.checker = std::filesystem::absolute(options.checker);
  apply_disk_words(words.disk, options.disk);
  if (options.disk.profile.empty()) {
    if (!options.disk.cache) options.disk.cache = disk::Cache::kVolatile;
    if (!options.disk.flush_ns) options.disk.flush_ns = kDefaultFlush_ns;
  }
  return options;
}

std::string disk_words(const PowercutOptions& options) {
  const disk::Profile profile = disk::resolve(options.disk);
  std::string text = profile.name.empty()
                         ? fmt::format("flush {}", format_time(profile.flush.from_ns))
                         : profile.name;
  text += profile.cache == disk::Cache::kVolatile ? ", volatile cache" : ", no volatile cache";
  if (options.disk.lie_one_in == 1) text += ", every flush a lie";
  if (options.disk.lie_one_in > 1) {
    text += fmt::format(", one flush in {} a lie", options.disk.lie_one_in);
  }
  return text;
}

ordered_json disk_json(const PowercutOptions& options) {
  const disk::Profile profile = disk::resolve(options.disk);
  ordered_json value{{"profile", profile.name},
                     {"size_bytes", options.disk.size_bytes},
                     {"cache", disk::to_string(profile.cache)},
                     {"lie_one_in", options.disk.lie_one_in}};
  for (const auto& [key, chosen] :
       {std::pair{"read_ns", options.disk.read_ns}, std::pair{"write_ns", options.disk.write_ns},
        std::pair{"flush_ns", options.disk.flush_ns}}) {
    if (chosen) value[key] = *chosen;
  }
  return value;
}

ordered_json cut_json(const PowercutCut& cut) {
  ordered_json value{{"number", cut.number},
                     {"seed", cut.disk.seed},
                     {"promised", cut.promised},
                     {"lost", cut.lost},
                     {"torn", cut.torn},
                     {"mounted", cut.mounted},
                     {"clean", cut.clean},
                     {"writes_dropped", cut.disk.writes_dropped},
                     {"writes_kept", cut.disk.writes_kept},
                     {"writes_in_flight", cut.disk.writes_in_flight},
                     {"flushes_in_flight", cut.disk.flushes_in_flight},
                     {"syncs_in_flight", nullptr},
                     {"faults", cut.faults}};
  if (cut.syncs_in_flight) value["syncs_in_flight"] = *cut.syncs_in_flight;
  return value;
}

std::string verdict_of(const PowercutSums& sums, size_t cuts) {
  if (cuts == 0) return "nothing cut";
  return sums.bad_cuts == 0 ? "nothing lost" : "lost";
}

ordered_json to_json(const PowercutOptions& options, const PowercutResult& result,
                     const std::string& error) {
  const PowercutSums sums = sums_of(result);
  ordered_json load{
      {"threads", options.threads}, {"files", options.files}, {"file_bytes", options.file_bytes}};
  if (!options.command.empty()) load = {{"command", options.command}, {"check", options.checker}};
  ordered_json value{{"schema", "stalltrace.powercut/1"},
                     {"tool", {{"version", STALLTRACE_VERSION}, {"command", command_line()}}},
                     {"disk", disk_json(options)},
                     {"mount_options", options.mount_options},
                     {"load", load},
                     {"seed", options.seed},
                     {"cuts_wanted", options.cuts},
                     {"cuts", ordered_json::array()},
                     {"idle_cuts", result.idle_cuts},
                     {"stopped", result.stopped},
                     {"promised", sums.promised},
                     {"lost", sums.lost},
                     {"torn", sums.torn},
                     {"bad_cuts", sums.bad_cuts},
                     {"writes_dropped", {{"min", sums.dropped_min}, {"max", sums.dropped_max}}},
                     {"syncs_in_flight", nullptr},
                     {"verdict", verdict_of(sums, result.cuts.size())}};
  if (sums.syncs_min) {
    value["syncs_in_flight"] = {{"min", *sums.syncs_min}, {"max", *sums.syncs_max}};
  }
  for (const PowercutCut& cut : result.cuts) value["cuts"].push_back(cut_json(cut));
  if (!error.empty()) value["error"] = error;
  return value;
}

void print_faults(const PowercutResult& result) {
  size_t shown = 0;
  size_t total = 0;
  for (const PowercutCut& cut : result.cuts) {
    for (const std::string& fault : cut.faults) {
      if (++total > kFaultsShown) continue;
      fmt::print("  cut {}: {}\n", cut.number, fault);
      ++shown;
    }
  }
  if (total > shown) fmt::print("  and {} more (--json has them)\n", total - shown);
}

void print_table(const PowercutOptions& options, const PowercutResult& result) {
  const PowercutSums sums = sums_of(result);
  const auto row = [](const char* name, const std::string& value) {
    fmt::print("{:<26}{}\n", name, value);
  };
  const bool own = options.command.empty();
  row("disk", disk_words(options));
  row("file system", "ext4" + (options.mount_options.empty() ? "" : ", " + options.mount_options));
  row("load", own ? fmt::format("{} threads make, write and fsync files of {}", options.threads,
                                format_size(options.file_bytes))
                  : options.command.front());
  row("power cuts",
      fmt::format("{}{}", result.cuts.size(),
                  result.stopped ? fmt::format(" of {}, stopped", options.cuts) : ""));
  row(own ? "files promised" : "promised", std::to_string(sums.promised));
  row("lost", std::to_string(sums.lost));
  if (own) row("torn", std::to_string(sums.torn));
  row("writes dropped per cut", fmt::format("{} .. {}", sums.dropped_min, sums.dropped_max));
  if (sums.syncs_min) {
    row("syncs in flight per cut", fmt::format("{} .. {}", *sums.syncs_min, *sums.syncs_max));
  }
  if (result.idle_cuts > 0) {
    row("cuts not counted",
        fmt::format("{} (no sync in flight, or nothing to lose)", result.idle_cuts));
  }
  if (sums.bad_cuts == 0) {
    row("verdict", verdict_of(sums, result.cuts.size()));
    return;
  }
  row("verdict", fmt::format("LOST: {} of {} cuts lost what had been promised (seed {})",
                             sums.bad_cuts, result.cuts.size(), options.seed));
  print_faults(result);
}

void show_cut(const PowercutCut& cut, unsigned cuts) {
  if (isatty(STDERR_FILENO) == 0) return;
  const std::string syncs =
      cut.syncs_in_flight ? fmt::format(", {} syncs in flight", *cut.syncs_in_flight) : "";
  fmt::print(stderr,
             "cut {:>3}/{}: {} promised, {} lost, {} torn; {} writes dropped, {} kept{}{}\n",
             cut.number, cuts, cut.promised, cut.lost, cut.torn, cut.disk.writes_dropped,
             cut.disk.writes_kept, syncs, cut.is_good() ? "" : "  <- " + cut.faults.front());
}

int powercut(const PowercutWords& words) {
  const PowercutOptions options = options_of(words);
  if (!words.json.empty()) check_writable(words.json, "--json");
  StopSignals signals;
  PowercutResult result;
  std::string error;
  ExitCode code = ExitCode::kOk;
  try {
    workloads::run_powercut(options,
                            {.stop = [&] { return signals.stop_requested(); },
                             .done = [&](const PowercutCut& cut) { show_cut(cut, options.cuts); }},
                            result);
  } catch (const Error& failure) {
    if (result.cuts.empty()) throw;
    error = failure.what();
    code = failure.code();
  }
  if (!words.quiet && words.json != "-") print_table(options, result);
  if (!words.json.empty()) {
    write_text(words.json, "--json", to_json(options, result, error).dump(1) + "\n");
  }
  if (!error.empty()) throw Error(code, error);
  return sums_of(result).bad_cuts == 0 ? 0 : static_cast<int>(ExitCode::kFailed);
}

void add_powercut_load(CLI::App& command, PowercutWords& words) {
  PowercutOptions& options = words.options;
  command.add_option("-t,--threads", options.threads, "threads that make and sync files")
      ->capture_default_str();
  command
      .add_option("-n,--files", options.files,
                  "the cut comes before each thread has made so many, on average")
      ->capture_default_str();
  command.add_option("-s,--file-size", words.file_size, "size of a file")
      ->capture_default_str()
      ->type_name("SIZE");
  command
      .add_option("--check", options.checker,
                  "with -- CMD: run with the directory as its argument and the promised tokens on "
                  "its standard input; status 0: all there, else a line per thing lost")
      ->type_name("SCRIPT");
  command.add_option("CMD", options.command,
                     "after --: instead of our load; works in $STALLTRACE_DIR, prints 'promised "
                     "TOKEN' for each thing that must last, and goes on until it is killed");
}

}  // namespace

void add_powercut_command(CLI::App& run, int& status) {
  auto words = std::make_shared<PowercutWords>();
  CLI::App* command = run.add_subcommand(
      "powercut", "power cuts under a syncing load: nothing whose sync had returned may be lost");
  PowercutOptions& options = words->options;
  command->add_option("--cuts", options.cuts, "how many")->capture_default_str();
  command->add_option("--seed", options.seed, "of the moments, the disk and what survives")
      ->capture_default_str();
  command->add_flag("--until-lost", options.until_lost, "end with the first cut that loses");
  command->add_option("--mount-options", options.mount_options, "as for mount -o, like nobarrier")
      ->type_name("LIST");
  command->add_option("--size", words->disk_size, "of the disk")
      ->capture_default_str()
      ->type_name("SIZE");
  add_disk_words(*command, words->disk);
  add_powercut_load(*command, *words);
  command->add_option("--json", words->json, "write the result as JSON (- for standard output)")
      ->type_name("FILE")
      ->check(kNamed);
  command->add_flag("--quiet", words->quiet, "no table");
  command->footer(
      "Makes its own disk in memory (without a profile: volatile cache, flush 2ms) with an ext4,\n"
      "and cuts its power at random moments: any part of what no flush had drained is lost.\n"
      "Exit status: 0 nothing lost, 1 something lost.\n"
      "Examples:\n"
      "  stalltrace run powercut --cuts 20 --seed 1\n"
      "  stalltrace run powercut --cuts 20 --mount-options nobarrier --until-lost\n"
      "  stalltrace run powercut --check ./check -- sh -c 'i=0; while :; do i=$((i+1));\n"
      "    echo $i > $STALLTRACE_DIR/$i && sync $STALLTRACE_DIR/$i && echo promised $i; done'");
  command->callback([words, &status] { status = powercut(*words); });
}

}  // namespace stalltrace::cli

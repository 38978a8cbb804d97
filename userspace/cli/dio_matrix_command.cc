// `stalltrace run dio-matrix`: direct reads and writes, alone and beside each other.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/base/version.h"
#include "userspace/cli/assemble.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/dio_matrix.h"
#include "userspace/cli/durations.h"
#include "userspace/cli/output.h"
#include "userspace/cli/scenario_options.h"
#include "userspace/kernel/capabilities.h"
#include "userspace/kernel/counters.h"

namespace stalltrace::cli {
namespace {

struct DioMatrixWords {
  OutputWords output;
  LoadOptions load;
  std::vector<std::string> targets;
  std::vector<std::string> remounts;
  std::vector<std::string> block_sizes{"4k", "16k", "64k", "128k", "1024k"};
  std::vector<unsigned> threads{1, 4, 32};
  std::vector<std::string> tests = workloads::dio_test_names();
  std::string seconds = "2";
  std::string size = "128m";
  std::string layout = "written";
  std::string writers = "direct";
  unsigned loops = 1;
  bool destroy_data = false;
  bool no_trace = false;
};

DioMatrixSpec::Target named_target(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == word.size()) {
    throw usage_error("--target {}: write NAME=PATH, such as raw=/dev/sdx or ext4=/mnt/file", word);
  }
  return {word.substr(0, equals), word.substr(equals + 1)};
}

DioMatrixSpec::Remount named_remount(const std::string& word) {
  if (word == "dioread_nolock") return {word, word, "1"};
  if (word == "dioread_lock") return {word, "dioread_nolock", "0"};
  if (word.find('=') == std::string::npos) {
    throw usage_error(
        "--remount {}: it is dioread_nolock, dioread_lock or a knob of `batch --try` as KNOB=VALUE",
        word);
  }
  const kernel::KnobTrial trial = kernel::parse_knob_trial(word);
  if (trial.name == "data" || trial.name == "fast_commit") {
    throw usage_error("--remount {}: that takes unmounting, which the matrix's file forbids", word);
  }
  return {word, trial.name, trial.values.front()};
}

// A row or column that is named twice is one.
template <typename Value>
void add_once(std::vector<Value>& values, Value value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

DioMatrixSpec spec_of(const DioMatrixWords& words) {
  DioMatrixSpec spec;
  std::set<std::string> names;
  for (const std::string& word : words.targets) {
    spec.targets.push_back(named_target(word));
    if (!names.insert(spec.targets.back().name).second) {
      throw usage_error("--target {}: that name is taken; give each target its own", word);
    }
  }
  for (const std::string& word : words.remounts) spec.remounts.push_back(named_remount(word));
  spec.size_bytes = parse_size(words.size, "--size");
  for (const std::string& word : words.block_sizes) {
    const uint64_t bytes = parse_size(word, "--bs");
    if (bytes == 0 || bytes % 512 != 0 || bytes > (uint64_t{1} << 30U)) {
      throw usage_error("--bs {}: direct I/O needs a multiple of 512, up to 1 GiB", word);
    }
    add_once(spec.block_bytes, bytes);
  }
  for (unsigned threads : words.threads) {
    constexpr unsigned kMost = 1000;
    if (threads == 0 || threads > kMost) {
      throw usage_error("--threads {}: choose 1 to {}", threads, kMost);
    }
    add_once(spec.threads, threads);
    for (uint64_t bytes : spec.block_bytes) {
      if (spec.size_bytes / bytes >= threads) continue;
      throw usage_error("--size {} has no block of {} for each of {} threads", words.size,
                        format_size(bytes), threads);
    }
  }
  for (const std::string& word : words.tests) {
    add_once(spec.tests, *workloads::dio_test_of(word));
  }
  spec.writers = *workloads::dio_writers_of(words.writers);
  spec.layout = *workloads::dio_layout_of(words.layout);
  spec.cell_ns = parse_duration_ns(words.seconds, "--seconds");
  if (spec.cell_ns == 0) throw usage_error("--seconds 0: a cell needs some time");
  if (words.loops == 0) throw usage_error("--loops 0: choose 1 or more");
  spec.loops = words.loops;
  spec.destroy_data = words.destroy_data;
  spec.trace = !words.no_trace;
  if (!words.output.threshold.empty()) {
    spec.bound_ns = parse_time_ns(words.output.threshold, "--threshold");
  }
  spec.disabled_hooks = words.output.disabled_hooks;
  spec.ops_log = {.path = words.load.ops_log,
                  .floor_ns = parse_time_ns(words.load.ops_log_floor, "--ops-log-floor")};
  return spec;
}

report::Report report_of(const DioMatrix& matrix, uint64_t start_ns) {
  const kernel::Capabilities host = kernel::detect_capabilities();
  report::Report report;
  report.version = STALLTRACE_VERSION;
  report.kernel = host.release;
  report.arch = host.arch;
  report.cpus = host.cpus;
  report.command = command_line();
  report.start_ns = start_ns;
  report.end_ns = monotonic_ns();
  report.overhead.self_cpu_s = kernel::self_cpu_s();
  report.overhead.self_rss_mib = kernel::self_rss_mib();
  add_devices(report, matrix.devices());
  return report;
}

int run_matrix(const DioMatrixWords& words) {
  const DioMatrixSpec spec = spec_of(words);
  check_outputs(words.output);
  for (const std::string& line : kernel::restore_leftover_knobs()) say(line);
  StopSignals signals;
  DioMatrix matrix(spec, signals);
  const uint64_t start_ns = monotonic_ns();
  std::optional<Error> broken;
  try {
    matrix.run();
  } catch (const Error& error) {
    broken = error;
  }
  clear_progress();
  report::Report report = report_of(matrix, start_ns);
  report.workload = {{"scenario", "dio-matrix"},
                     {"options",
                      {{"targets", words.targets},
                       {"remount", words.remounts},
                       {"bs", spec.block_bytes},
                       {"threads", spec.threads},
                       {"tests", words.tests},
                       {"seconds", static_cast<double>(spec.cell_ns) / 1e9},
                       {"size", spec.size_bytes},
                       {"layout", words.layout},
                       {"writers", words.writers},
                       {"loops", spec.loops}}}};
  report.workload.update(matrix.figures());
  if (broken) {
    if (report.workload.at("cells").empty()) throw *broken;
    report.notes.emplace_back(broken->what());
  }
  if (signals.stop_requested()) {
    report.notes.emplace_back(fmt::format("interrupted: {} of {} cells were run",
                                          report.workload.at("cells_done").get<uint64_t>(),
                                          report.workload.at("cells_planned").get<uint64_t>()));
  }
  if (report.workload.contains("loss")) report.notes.push_back(report.workload.at("loss"));
  write_report(report, words.output);
  if (broken) throw *broken;
  return 0;
}

template <typename Value>
CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<Value>& values,
                      const std::string& help) {
  return command.add_option(name, values, help)->delimiter(',')->capture_default_str();
}

void add_matrix_options(CLI::App& command, DioMatrixWords& words) {
  command
      .add_option("--target", words.targets,
                  "A column of the tables: a device, or a file that is made and removed; "
                  "repeatable. Each cell runs on all of them in turn")
      ->type_name("NAME=PATH")
      ->required()
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--remount", words.remounts,
                  "Run file targets on ext4 with each of these: dioread_nolock, dioread_lock, or a "
                  "knob of `batch --try` as KNOB=VALUE; compared with the first, put back after it")
      ->type_name("WAY,WAY")
      ->delimiter(',');
  command.add_flag("--destroy-data", words.destroy_data,
                   "What is on a target that is a device may be overwritten");
  add_list(command, "--bs", words.block_sizes, "Block sizes")->type_name("SIZE,...");
  add_list(command, "--threads", words.threads,
           "Threads; as many of each kind where a test reads and writes")
      ->type_name("N,...");
  add_list(command, "--tests", words.tests,
           "read and write (linear), randread and randwrite, mixed (random reads and random writes "
           "at once)")
      ->type_name("TEST,...")
      ->check(CLI::IsMember(workloads::dio_test_names()));
  command.add_option("--seconds", words.seconds, "How long each cell runs")
      ->type_name("TIME")
      ->capture_default_str();
  command.add_option("--loops", words.loops, "How often each cell is run")->capture_default_str();
  command.add_option("--size", words.size, "Size of the files, and how much of a device is used")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("--layout", words.layout,
                  "The files before each cell: written, fallocated or sparse (no blocks at all)")
      ->check(CLI::IsMember(workloads::dio_layout_names()))
      ->capture_default_str();
  command
      .add_option("--writers", words.writers,
                  "How writers write: direct (overwrites), buffered (through the page cache) or "
                  "extending (direct, at the end of the file)")
      ->check(CLI::IsMember(workloads::dio_writers_names()))
      ->capture_default_str();
  command
      .add_option("--ops-log", words.load.ops_log,
                  "Write every operation of the last cell to this CSV file")
      ->type_name("FILE");
  command
      .add_option("--ops-log-floor", words.load.ops_log_floor,
                  "Leave operations shorter than this out of the log")
      ->type_name("TIME")
      ->capture_default_str();
}

}  // namespace

void add_dio_matrix_command(CLI::App& run, int& status) {
  auto words = std::make_shared<DioMatrixWords>();
  CLI::App* command = run.add_subcommand(
      "dio-matrix", "direct reads and writes, alone and at once, on several targets in turn");
  add_matrix_options(*command, *words);
  add_output_options(*command, words->output);
  command->get_option("--threshold")
      ->description(
          "read calls this long are looked into, in mixed cells (by the threads: 0.1 to 10 ms)")
      ->default_str("");
  command->add_flag("--no-trace", words->no_trace,
                    "do not trace the mixed cells: no shares of the readers' time");
  command->footer(
      "MB/s by block size, threads and test, summed over the threads; for the mixed test, where "
      "the\nreaders' time went, who held the inode's lock, and how unfair it was. Ctrl-C prints "
      "what is there.\n\n"
      "Examples:\n"
      "  stalltrace run dio-matrix --target raw=/dev/sdx --target ext4=/mnt/file --destroy-data\n"
      "  stalltrace run dio-matrix --target ext4=/mnt/file --remount dioread_nolock,dioread_lock "
      "\\\n    --tests mixed --bs 4k,64k --threads 1,32 --loops 5\n"
      "  stalltrace run dio-matrix --target ext4=/mnt/file --writers extending --tests "
      "randread,randwrite,mixed");
  command->callback([words, command, &status] {
    if (command->count("--threshold") == 0) words->output.threshold.clear();
    status = run_matrix(*words);
  });
}

}  // namespace stalltrace::cli

// `stalltrace run osync`: durable writes to one device or file, and what serializes them.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/durations.h"
#include "userspace/cli/osync_figures.h"
#include "userspace/cli/osync_watch.h"
#include "userspace/cli/run_scenario.h"
#include "userspace/cli/scenario_options.h"
#include "userspace/kernel/counters.h"
#include "workloads/device_guard.h"

namespace stalltrace::cli {
namespace {

struct OsyncWords {
  OutputWords output;
  LoadOptions load;
  bool no_trace = false;
  std::string device, dir;
  bool destroy_data = false;
  std::string size;
  unsigned threads = 8;
  std::string bs = "4k";
  unsigned iodepth = 1;
  std::string rw = "write";
  std::string sync = "osync";
  std::string engine = "psync";
  std::string layout = "written";
  std::string runtime = "10s";
};

workloads::Scenario scenario_of(const OsyncWords& words) {
  workloads::Scenario scenario;
  scenario.name = "osync";
  workloads::OsyncSpec& spec = scenario.osync.emplace();
  spec.device = words.device;
  spec.directory = words.dir;
  spec.destroy_data = words.destroy_data;
  const std::string usual_size = words.dir.empty() ? "0" : "64m";
  spec.size_bytes = parse_size(words.size.empty() ? usual_size : words.size, "--size");
  if (words.dir.empty() && words.layout != "written") {
    throw usage_error("--layout {}: that is for a file (--dir), a device has none", words.layout);
  }
  spec.fallocated = words.layout == "fallocated";
  spec.threads = words.threads;
  spec.block_bytes = parse_size(words.bs, "--bs");
  spec.iodepth = words.iodepth;
  spec.random = words.rw == "randwrite";
  spec.sync = *workloads::write_sync_of(words.sync);
  spec.engine = *workloads::write_engine_of(words.engine);
  spec.runtime_ns = parse_duration_ns(words.runtime, "--runtime");
  spec.live = std::make_shared<workloads::LiveCounts>();
  check_osync(spec, "osync");
  scenario.options = {{"threads", spec.threads},
                      {"bs", spec.block_bytes},
                      {"iodepth", spec.iodepth},
                      {"rw", words.rw},
                      {"sync", words.sync},
                      {"engine", words.engine},
                      {"runtime_s", static_cast<double>(spec.runtime_ns) / 1e9}};
  if (spec.raw()) {
    scenario.options["device"] = spec.device;
  } else {
    scenario.options["dir"] = spec.directory;
    scenario.options["layout"] = words.layout;
  }
  if (spec.size_bytes > 0) scenario.options["size"] = spec.size_bytes;
  scenario.ops_log = {.path = words.load.ops_log,
                      .floor_ns = parse_time_ns(words.load.ops_log_floor, "--ops-log-floor")};
  scenario.keep_files = words.load.keep_files;
  return scenario;
}

// The journal of the file system that the device's node lies on: each write changes the node's
// mtime. Mostly there is none, /dev being in memory.
class NodeJournal {
 public:
  explicit NodeJournal(const std::string& node) {
    // By the folder, for the node itself leads to its device.
    const size_t slash = node.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : node.substr(0, slash + 1);
    device_ = kernel::device_of_path(folder);
    before_ = commits();
  }
  [[nodiscard]] nlohmann::json figures() const {
    if (!device_ || !before_) return nullptr;
    return {{"file_system", device_->name},
            {"mountpoint", device_->mountpoint},
            {"commits", commits().value_or(*before_) - *before_}};
  }

 private:
  [[nodiscard]] std::optional<uint64_t> commits() const {
    if (!device_ || !device_->has_journal) return std::nullopt;
    return kernel::jbd2_transactions(device_->journal_name);
  }

  std::optional<kernel::Device> device_;
  std::optional<uint64_t> before_;
};

class OsyncRun {
 public:
  OsyncRun(const OsyncWords& words, workloads::Scenario scenario)
      : words_(words), scenario_(std::move(scenario)) {}

  int run() {
    const workloads::OsyncSpec& spec = *scenario_.osync;
    if (spec.raw()) {
      workloads::claim_device(spec.device, spec.destroy_data);  // and lets it go until the load
      devices_ = devices_for_name(spec.device);
      node_journal_.emplace(spec.device);
    } else {
      workloads::check_directory(spec.directory);
      devices_ = devices_for_path(spec.directory);
    }
    const kernel::Device& device = devices_.front();
    disks_ = device.disks_below.empty() ? std::vector{device.disk} : device.disks_below;
    return run_scenario(
        scenario_, words_.output, words_.no_trace,
        {.devices = [this] { return devices_; },
         .begun = [this](workloads::WorkloadProcess& load,
                         Tracing* tracing) { begun(load, tracing); },
         .ended =
             [this] {
               watch_->stop();
               flushes_after_ = flushes_now();
             },
         .finish = [this](report::Report& report, Tracing* tracing) { finish(report, tracing); }});
  }

 private:
  [[nodiscard]] std::optional<uint64_t> flushes_now() const {
    uint64_t flushes = 0;
    for (uint32_t disk : disks_) {
      const std::optional<uint64_t> of_disk = kernel::disk_stats(disk).flushes;
      if (!of_disk) return std::nullopt;
      flushes += *of_disk;
    }
    return flushes;
  }

  void begun(workloads::WorkloadProcess& load, Tracing* tracing) {
    flushes_before_ = flushes_now();
    OsyncWatch::Subject subject{.pid = load.pid(),
                                .threads = load.threads(),
                                .disks = disks_,
                                .disk_names = {},
                                .counts = scenario_.osync->live.get(),
                                .flushing = {},
                                .line = {}};
    for (uint32_t disk : disks_) {
      subject.disk_names.push_back(kernel::device_of_kdev(disk).disk_name);
    }
    if (tracing != nullptr) {
      subject.flushing = [tracing, this] {
        return std::any_of(disks_.begin(), disks_.end(),
                           [&](uint32_t disk) { return tracing->executes_flush(disk); });
      };
    }
    if (!words_.output.quiet && words_.output.json != "-") {
      subject.line = [](const std::string& line) {
        clear_progress();
        fmt::print("{}\n", line);
        std::fflush(stdout);
      };
    }
    for (const workloads::LoadThread& thread : load.threads()) {
      tids_.insert(static_cast<uint32_t>(thread.tid));
    }
    watch_.emplace(std::move(subject));
  }

  void finish(report::Report& report, Tracing* tracing) {
    nlohmann::json& workload = report.workload;
    workload.update(watch_->figures());
    std::optional<uint64_t> diskstats;
    if (flushes_before_ && flushes_after_) diskstats = *flushes_after_ - *flushes_before_;
    if (tracing != nullptr) {
      workload["flushes"] = flush_figures(tracing->sealed_trace(), devices_.front(), disks_,
                                          workload.at("writes"), diskstats);
      const double writers_us = workload.at("elapsed_s").get<double>() * 1e6 *
                                scenario_.osync->threads * scenario_.osync->iodepth;
      workload["writers"] = root_figures(report, tids_, writers_us);
    }
    workload["node_journal"] = node_journal_ ? node_journal_->figures() : nullptr;
    workload["verdict"] = osync_verdict(workload);
  }

  const OsyncWords& words_;
  workloads::Scenario scenario_;
  std::vector<kernel::Device> devices_;
  std::vector<uint32_t> disks_;
  std::optional<NodeJournal> node_journal_;
  std::set<uint32_t> tids_;
  std::optional<uint64_t> flushes_before_, flushes_after_;
  std::optional<OsyncWatch> watch_;
};

void add_osync_options(CLI::App& command, OsyncWords& words) {
  command.add_option("--device", words.device, "Write to this block device; all on it is lost")
      ->type_name("DEV");
  command.add_option("--dir", words.dir, "Instead: write to a file made in this directory")
      ->type_name("DIR");
  command.add_flag("--destroy-data", words.destroy_data,
                   "What is on the device may be overwritten. One that is mounted, swap, part of "
                   "an array or volume group, or behind a loop device is refused all the same");
  command
      .add_option("--size", words.size,
                  "Size of the file (64m), or how much of the device (all); the threads divide it")
      ->type_name("SIZE");
  command.add_option("--threads", words.threads, "Writing threads, each in a region of its own")
      ->capture_default_str();
  command.add_option("--bs", words.bs, "Bytes per write")->type_name("SIZE")->capture_default_str();
  command
      .add_option("--sync", words.sync,
                  "How writes are made durable: osync or dsync (the file is opened so), or "
                  "rwf_dsync (each write says so); all of them by direct I/O")
      ->check(CLI::IsMember(workloads::write_sync_names()))
      ->capture_default_str();
  command.add_option("--engine", words.engine, "How writes are sent: psync, libaio or io_uring")
      ->check(CLI::IsMember(workloads::write_engine_names()))
      ->capture_default_str();
  command
      .add_option("--iodepth", words.iodepth,
                  "Writes in flight per thread, with libaio and io_uring")
      ->capture_default_str();
  command.add_option("--rw", words.rw, "Where in its region a thread writes: write, randwrite")
      ->check(CLI::IsMember({"write", "randwrite"}))
      ->capture_default_str();
  command
      .add_option("--layout", words.layout,
                  "The file beforehand: written, or fallocated (the first write of each block "
                  "changes metadata)")
      ->check(CLI::IsMember({"written", "fallocated"}))
      ->capture_default_str();
  command.add_option("--runtime", words.runtime, "Run for this long; 0 is until Ctrl-C")
      ->type_name("TIME")
      ->capture_default_str();
  add_load_options(command, words.load);
}

}  // namespace

void add_osync_command(CLI::App& run, int& status) {
  auto words = std::make_shared<OsyncWords>();
  CLI::App* command = run.add_subcommand(
      "osync", "durable direct writes to one device or file, and what serializes them");
  add_osync_options(*command, *words);
  add_output_options(*command, words->output);
  command->add_flag("--no-trace", words->no_trace, "run the load only, to compare its figures");
  command->footer(
      "Each second a line: how many writers run, wait for a lock, for the journal, in the queue, "
      "for a\nflush, for the device; MB/s; writes per flush; and vmstat's columns.\n\n"
      "Examples:\n"
      "  stalltrace run osync --device /dev/sdx --destroy-data --threads 16 --runtime 20s\n"
      "  stalltrace run osync --device /dev/sdx --destroy-data --sync dsync --engine libaio\n"
      "  stalltrace run osync --dir /mnt/test --threads 16 --bs 4k --json osync.json");
  command->callback([words, &status] { status = OsyncRun(*words, scenario_of(*words)).run(); });
}

}  // namespace stalltrace::cli

// `stalltrace batch`: what sharing commits and flushes gains on this device.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/base/version.h"
#include "userspace/cli/assemble.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/input.h"
#include "userspace/cli/output.h"
#include "userspace/cli/profile_disk.h"
#include "userspace/cli/run_load.h"
#include "userspace/cli/scenario_options.h"
#include "userspace/cli/signals.h"
#include "userspace/cli/tracing.h"
#include "userspace/kernel/capabilities.h"
#include "userspace/kernel/knobs.h"
#include "userspace/report/batch.h"
#include "workloads/disk/profile.h"
#include "workloads/layout.h"
#include "workloads/process.h"

namespace stalltrace::cli {
namespace {

using batching::Rung;
using batching::Tally;
using kernel::Device;

struct BatchWords {
  FsmarkOptions load;
  std::vector<unsigned> threads{1, 2, 4, 8, 16, 32};
  std::vector<std::string> syncs{"fsync"};
  std::vector<std::string> trials;
  std::vector<std::string> profiles;
  std::vector<std::string> beside;
  std::string json;
  std::vector<std::string> disabled_hooks;
  bool quiet = false;
};

// One way of syncing under one setting of one knob (none: the file system as it is).
struct Setting {
  std::string sync;
  std::string knob, value;
  std::string name;       // of what differs between the settings
  std::string reference;  // the setting to compare with: the knob's first value, the first sync
};

std::string joined(const std::string& sync, const std::string& knob) {
  return sync.empty() || knob.empty() ? sync + knob : sync + " " + knob;
}

std::vector<Setting> settings_of(const BatchWords& words) {
  std::vector<Setting> settings;
  bool several = words.syncs.size() > 1;
  for (const std::string& sync : words.syncs) {
    std::string label = several ? sync : "";
    if (words.trials.empty()) {
      settings.push_back({sync, "", "", label, several ? words.syncs.front() : ""});
    }
    for (const std::string& text : words.trials) {
      kernel::KnobTrial trial = kernel::parse_knob_trial(text);
      for (const std::string& value : trial.values) {
        settings.push_back({sync, trial.name, value, joined(label, trial.name + "=" + value),
                            joined(label, trial.name + "=" + trial.values.front())});
      }
    }
  }
  return settings;
}

class Batch {
 public:
  // `device`: what it is called where there are several.
  Batch(const BatchWords& words, StopSignals& signals, std::vector<std::string> directories,
        const std::string& device)
      : words_(words),
        signals_(signals),
        directories_(std::move(directories)),
        devices_(devices_for_path(directories_.front())),
        knobs_(devices_.front()),
        settings_(settings_of(words)) {
    if (devices_.front().fs != "ext4" || !devices_.front().has_journal) {
      throw usage_error("{} is {}: batching is counted on ext4 with a journal",
                        directories_.front(),
                        devices_.front().fs == "ext4" ? "ext4 without one" : devices_.front().fs);
    }
    for (const std::string& other : directories_) {
      if (devices_for_path(other).front().kdev == devices_.front().kdev) continue;
      throw usage_error("{} and {} are on different file systems: analyze them one by one",
                        directories_.front(), other);
    }
    for (const std::string& trial : words_.trials) knobs_.check(kernel::parse_knob_trial(trial));
    for (const Setting& setting : settings_) {
      for (unsigned threads : words_.threads) {
        rungs_.push_back({.device = device,
                          .threads = threads,
                          .setting = setting.name,
                          .reference = setting.reference,
                          .sync = setting.sync,
                          .knobs = {},
                          .bounds = {},
                          .loops = {}});
        if (!setting.knob.empty()) rungs_.back().knobs[setting.knob] = setting.value;
      }
    }
  }

  // Until the end, or until it is stopped: what was gathered is there.
  void run() {
    for (unsigned loop = 0; loop < words_.load.loops; ++loop) {
      for (size_t i = 0; i < settings_.size(); ++i) {
        // Another one begins each loop, so that none always runs on the older file system.
        size_t turn = (i + loop) % settings_.size();
        if (!settings_[turn].knob.empty()) knobs_.set(settings_[turn].knob, settings_[turn].value);
        kernel::BatchBounds bounds = current_bounds();
        for (size_t step = 0; step < words_.threads.size(); ++step) {
          show(loop, step);
          std::optional<Tally> tally = run_once(words_.threads[step], settings_[turn].sync);
          if (!tally) return;
          Rung& rung = rungs_[turn * words_.threads.size() + step];
          rung.bounds = bounds;
          rung.loops.push_back(std::move(*tally));
        }
        knobs_.restore();
      }
    }
  }

  // What was gathered so far goes to `report`.
  void add_to(report::BatchReport& report) const {
    report::Report with_devices;
    add_devices(with_devices, devices_);
    report.devices.insert(report.devices.end(), with_devices.devices.begin(),
                          with_devices.devices.end());
    for (const Rung& rung : rungs_) {
      if (!rung.loops.empty()) report.rungs.push_back(rung);
    }
    if (!losses_.empty()) report.notes.push_back(losses_);
    for (const std::string& reason : unseen_.reasons) {
      std::string note = "not seen, and no figure is made of it: " + reason;
      auto& notes = report.notes;
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    }
  }

 private:
  void show(unsigned loop, size_t step) {
    size_t per_loop = settings_.size() * words_.threads.size();
    ++runs_;
    show_progress(fmt::format("run {} of {}: loop {}, {} threads", runs_,
                              per_loop * words_.load.loops, loop + 1, words_.threads[step]));
  }

  [[nodiscard]] kernel::BatchBounds current_bounds() const {
    for (const Device& device : devices_for_path(directories_.front())) {
      if (device.kdev == devices_.front().kdev) return kernel::batch_bounds(device.options);
    }
    return {};
  }

  std::optional<Tally> run_once(unsigned threads, const std::string& sync) {
    FsmarkOptions options = words_.load;
    options.sync = sync;
    options.threads = threads;
    options.loops = 1;
    options.dirs = directories_;
    workloads::Scenario scenario = make_scenario(options);
    workloads::WorkloadProcess load(scenario);
    Tracing tracing({.devices = devices_,
                     .threshold_ns = kNoStalls,
                     .disabled_hooks = words_.disabled_hooks,
                     .filter = {}});
    bool ready = load.prepare([this](uint64_t, uint64_t) { return !signals_.stop_requested(); });
    if (!ready || signals_.stop_requested()) return std::nullopt;
    tracing.open_window();
    load.start();
    bool complete = wait_for_load(load, signals_);
    tracing.close_window();
    const workloads::WorkloadResult& result = load.result();
    if (result.errors > 0) throw failed_error("the load failed: {}", result.first_error);
    load.finish();
    if (!complete) return std::nullopt;
    return tally_of_run(tracing, result);
  }

  Tally tally_of_run(Tracing& tracing, const workloads::WorkloadResult& result) {
    Tally tally = batching::tally_of(tracing.sealed_trace(), devices_.front().kdev,
                                     disks_of(devices_.front(), devices_));
    const nlohmann::json& iteration = result.workload.at("iterations").at(0);
    tally.ns = static_cast<uint64_t>(iteration.at("elapsed_s").get<double>() * 1e9);
    tally.files = result.workload.at("files_written");
    tally.file_ns = result.file_ns;
    tally.unseen = tracing.unseen();
    unseen_ |= tally.unseen;
    OutsideCounts outside = tracing.outside_growth();
    for (const auto& [dev, commits] : outside.transactions) tally.proc_commits += commits;
    for (const auto& [disk, flushes] : outside.flushes) tally.diskstats_flushes += flushes;
    if (uint64_t lost = tracing.lost_events(); lost > 0) {
      losses_ =
          fmt::format("{} events were lost in a run: the counts from inside are too low", lost);
    }
    return tally;
  }

  // Single calls do not matter here, only the sums.
  static constexpr uint64_t kNoStalls = 3'600'000'000'000;

  const BatchWords& words_;
  StopSignals& signals_;
  std::vector<std::string> directories_;  // of one file system; threads take them in turn
  std::vector<Device> devices_;
  kernel::Knobs knobs_;
  std::vector<Setting> settings_;
  std::vector<Rung> rungs_;
  std::string losses_;
  batching::Unseen unseen_;
  size_t runs_ = 0;
};

report::BatchReport empty_report(const BatchWords& words) {
  kernel::Capabilities host = kernel::detect_capabilities();
  report::BatchReport report;
  report.version = STALLTRACE_VERSION;
  report.host = {.kernel = host.release, .arch = host.arch, .cpu = host.cpu, .cpus = host.cpus};
  report.command = command_line();
  report.load = {.files = words.load.files, .file_bytes = parse_size(words.load.file_size, "-s")};
  report.work = fmt::format("{} files of {} per thread and loop, {} loops, {}", words.load.files,
                            format_size(report.load.file_bytes), words.load.loops,
                            fmt::join(words.syncs, ", "));
  return report;
}

void run_on(const BatchWords& words, StopSignals& signals,
            const std::vector<std::string>& directories, const std::string& device,
            report::BatchReport& report) {
  Batch batch(words, signals, directories, device);
  try {
    batch.run();
  } catch (...) {
    batch.add_to(report);
    throw;
  }
  batch.add_to(report);
}

// A rung is told from the others by what is different about it.
template <typename T>
void check_once(const std::vector<T>& values, std::string_view option) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values[i]) !=
        values.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw usage_error("{}: {} is there twice", option, values[i]);
    }
  }
}

void check_words(const BatchWords& words) {
  check_once(words.threads, "-t");
  check_once(words.syncs, "--sync");
  check_once(words.profiles, "--profiles");
  std::vector<std::string> knobs;
  for (const std::string& trial : words.trials) {
    knobs.push_back(kernel::parse_knob_trial(trial).name);
  }
  check_once(knobs, "--try");
  if (!words.json.empty()) check_writable(words.json, "--json");
  if (words.load.dirs.empty() == words.profiles.empty()) {
    throw usage_error("give either a directory (--dir) or emulated disks (--profiles)");
  }
  for (const std::string& dir : words.load.dirs) workloads::check_directory(dir);
  for (unsigned threads : words.threads) {
    FsmarkOptions options = words.load;
    options.threads = threads;
    if (options.dirs.empty()) options.dirs = {"/"};
    make_scenario(options);  // says what is wrong with it
  }
}

int batch(const BatchWords& words) {
  check_words(words);
  std::vector<report::OtherBatch> beside;
  for (const std::string& file : words.beside) {
    beside.push_back(report::read_batch_json(read_file(file), file));
  }
  std::vector<std::string> profiles = profiles_named(words.profiles);
  for (const std::string& line : kernel::restore_leftover_knobs()) say(line);
  StopSignals signals;
  report::BatchReport report = empty_report(words);
  report.beside = std::move(beside);
  std::optional<Error> broken;
  try {
    if (profiles.empty()) run_on(words, signals, words.load.dirs, "", report);
    for (const std::string& profile : profiles) {
      if (signals.stop_requested()) break;
      ProfileDisk disk(profile);
      run_on(words, signals, {disk.directory()}, profile, report);
    }
  } catch (const Error& error) {
    if (report.rungs.empty()) throw;
    broken = error;
  }
  clear_progress();
  report.verdicts = batching::verdicts_of(report.rungs);
  for (const report::OtherBatch& other : report.beside) {
    for (std::string& note : report::notes_beside(report, other)) {
      report.notes.push_back(std::move(note));
    }
  }
  for (batching::Verdict& verdict : report::verdicts_beside(report)) {
    report.verdicts.push_back(std::move(verdict));
  }
  if (broken) report.notes.insert(report.notes.begin(), broken->what());
  if (!words.quiet && words.json != "-") {
    write_text("-", "", report::to_text(report, terminal_style()));
  }
  if (!words.json.empty()) {
    write_text(words.json, "--json", report::to_json(report).dump(1) + "\n");
  }
  if (broken) throw *broken;
  return 0;
}

}  // namespace

void add_batch_command(CLI::App& app, int& status) {
  auto words = std::make_shared<BatchWords>();
  words->load.files = 500;
  words->load.loops = 5;
  words->load.file_size = "20480";
  CLI::App* command =
      app.add_subcommand("batch", "what sharing commits and flushes gains on this device");
  add_fsmark_options(*command, words->load);
  command->remove_option(command->get_option("-t"));
  command->remove_option(command->get_option("--sync"));
  command->get_option("--dir")->required(false);
  command
      ->add_option("--profiles", words->profiles,
                   "Instead of a directory: emulated disks of these kinds, one after the other "
                   "(" +
                       disk::profile_names() + "), or all")
      ->type_name("KIND,...")
      ->delimiter(',');
  command->add_option("-t,--threads", words->threads, "The ladder of thread counts")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option(
          "--sync", words->syncs,
          "How files are put on disk (see run fsmark); several are compared with the first")
      ->type_name("METHOD,...")
      ->delimiter(',')
      ->check(kSyncMethod)
      ->capture_default_str();
  command
      ->add_option("--try", words->trials,
                   "Turn a knob and compare each value with the first: max_batch_time, "
                   "min_batch_time (us), commit, barrier, lazytime, dioread_nolock, data, "
                   "fast_commit, write_cache, scheduler, wbt_lat_usec; repeatable, put back "
                   "afterwards")
      ->type_name("KNOB=V1,V2")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--beside", words->beside,
                   "Set another batch's JSON beside this run, in the table and as ratios: made on "
                   "another kernel or machine; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(kNamed);
  command->add_option("--json", words->json, "write the analysis as JSON (- for standard output)")
      ->type_name("FILE")
      ->check(kNamed);
  command->add_flag("--quiet", words->quiet, "no text report");
  add_hook_option(*command, words->disabled_hooks);
  command->footer(
      "Runs fs_mark's work with each number of threads, traces it, and tells how much of the gain "
      "is\nshared commits, how much shared flushes, and what is lost in waiting.\n\n"
      "Examples:\n"
      "  stalltrace batch --dir /mnt/test\n"
      "  stalltrace batch --dir /mnt/test -t 1,4,8 -n 200 -L 5 --json b.json\n"
      "  stalltrace batch --profiles all -t 1,8 -n 100 -L 3\n"
      "  stalltrace batch --profiles all -t 1,4,8 --sync fsync,group,syncfs-every=50ms\n"
      "  stalltrace batch --dir /mnt/test --sync fsync,group,syncfs -t 1,8\n"
      "  stalltrace batch --dir /mnt/test --sync dirsync --try max_batch_time=0,15000\n"
      "  stalltrace batch --profiles hdd7200 -t 1,8 -n 50 --json here.json    # on another kernel\n"
      "  stalltrace batch --profiles hdd7200 -t 1,8 -n 50 --beside here.json  # and on this one");
  command->callback([words, &status] { status = batch(*words); });
}

}  // namespace stalltrace::cli

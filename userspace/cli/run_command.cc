// `stalltrace run SCENARIO`: a load of ours, traced, its stalls explained.

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/output.h"
#include "userspace/cli/run_load.h"
#include "userspace/cli/run_scenario.h"
#include "userspace/cli/scenario_options.h"
#include "userspace/cli/signals.h"
#include "userspace/cli/tracing.h"
#include "workloads/job_devices.h"
#include "workloads/layout.h"
#include "workloads/process.h"

namespace stalltrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct RunWords {
  OutputWords output;
  bool no_trace = false;
  ChunkServerOptions chunk_server;
  ProbeOptions probe;
  JobOptions job;
  FsmarkOptions fsmark;
};

// Where the scenario's files are. Every job of a scenario lies in one directory.
std::string directory_of(const workloads::Scenario& scenario) {
  if (scenario.fsmark) return scenario.fsmark->directories.front();
  if (scenario.osync) return scenario.osync->directory;
  return scenario.jobs.empty() ? scenario.probe->directory : scenario.jobs.front().directory;
}

// Below each of the jobs' directories, and the devices that they name themselves.
std::vector<kernel::Device> devices_of(const workloads::Scenario& scenario) {
  if (scenario.jobs.empty()) return devices_for_path(directory_of(scenario));
  std::vector<kernel::Device> devices;
  std::set<std::string> places;
  for (const workloads::JobSpec& job : scenario.jobs) {
    for (const workloads::JobFile& file : workloads::job_files(job, 0)) {
      const bool device = workloads::is_block_device(file.path);
      const std::string& place = device ? file.path : job.directory;
      if (!places.insert(place).second) continue;
      for (kernel::Device& one : device ? devices_for_name(place) : devices_for_path(place)) {
        const bool listed = std::any_of(devices.begin(), devices.end(),
                                        [&](const auto& other) { return other.kdev == one.kdev; });
        if (!listed) devices.push_back(std::move(one));
      }
    }
  }
  return devices;
}

void run_to_the_end(workloads::WorkloadProcess& load, const workloads::Scenario& scenario,
                    StopSignals& signals) {
  const auto begin = Clock::now();
  const uint64_t planned_ns = workloads::planned_runtime_ns(scenario);
  wait_for_load(load, signals, [&] {
    auto elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    if (planned_ns > 0) {
      show_progress(fmt::format("{} running, {:.0f} of {:.0f} s", scenario.name, elapsed,
                                static_cast<double>(planned_ns) / 1e9));
    } else {
      show_progress(fmt::format("{} running, {:.0f} s", scenario.name, elapsed));
    }
  });
  clear_progress();
}

void prepare(workloads::WorkloadProcess& load, StopSignals& signals) {
  bool ready = load.prepare([&](uint64_t done, uint64_t total) {
    if (total > 0) {
      show_progress(fmt::format("making files, {} of {}", format_size(done), format_size(total)));
    }
    return !signals.stop_requested();
  });
  clear_progress();
  if (!ready) throw failed_error("stopped before the load began; its files were removed");
}

report::Report untraced_report(uint64_t threshold_ns) {
  report::Report report;
  report.threshold_ns = threshold_ns;
  report.notes.emplace_back("--no-trace: nothing was traced, the figures are the load's own");
  return report;
}

void write_fio_json(const nlohmann::ordered_json& json, const std::string& path) {
  auto replace = nlohmann::ordered_json::error_handler_t::replace;
  write_text(path, "--fio-json", json.dump(2, ' ', false, replace) + '\n');
}

template <typename Options>
void finish_scenario(CLI::App* command, std::shared_ptr<RunWords> words, Options RunWords::*options,
                     int& status) {
  add_output_options(*command, words->output);
  command->add_flag("--no-trace", words->no_trace, "run the load only, to compare its figures");
  command->callback([words, options, &status] {
    RunHooks hooks;
    hooks.fio_json = words->job.fio_json;
    status = run_scenario(make_scenario((*words).*options), words->output, words->no_trace, hooks);
  });
}

}  // namespace

int run_scenario(const workloads::Scenario& scenario, const OutputWords& output, bool no_trace,
                 const RunHooks& hooks) {
  if (!hooks.devices) workloads::check_directory(directory_of(scenario));
  check_outputs(output);
  if (scenario.fio_json) check_writable(hooks.fio_json, "--fio-json");
  TracingOptions options{.devices = {},
                         .threshold_ns = parse_time_ns(output.threshold, "--threshold"),
                         .disabled_hooks = output.disabled_hooks,
                         .filter = {}};
  StopSignals signals;
  // Forked first: it must not hold our BPF links open, and it is one thread still.
  workloads::WorkloadProcess load(scenario);
  std::unique_ptr<Tracing> tracing;
  if (!no_trace) {
    options.devices = hooks.devices ? hooks.devices() : devices_of(scenario);
    tracing = std::make_unique<Tracing>(options);
  }
  prepare(load, signals);
  if (tracing) tracing->open_window();
  const uint64_t load_start_ns = load.start();
  if (hooks.begun) hooks.begun(load, tracing.get());
  std::string broken;  // why the load ended without a result
  try {
    run_to_the_end(load, scenario, signals);
  } catch (const Error& error) {
    clear_progress();
    broken = error.what();
  }
  if (hooks.ended) hooks.ended();
  if (tracing) tracing->close_window();
  load.finish();

  report::Report report = tracing ? tracing->make_report() : untraced_report(options.threshold_ns);
  report.command = command_line();
  if (!broken.empty()) {
    // What was gathered until then is reported all the same.
    report.notes.insert(report.notes.begin(), broken);
    write_report(report, output);
    throw failed_error("{}", broken);
  }
  const workloads::WorkloadResult& result = load.result();
  if (!tracing) {
    report.start_ns = load_start_ns;
    report.end_ns = result.end_ns;
  }
  if (!result.workload.empty()) report.workload = result.workload;
  if (result.fio) write_fio_json(*result.fio, hooks.fio_json);
  if (result.probe) report.probe = workloads::probe_json(*result.probe, report.start_ns);
  if (hooks.finish) hooks.finish(report, tracing.get());
  write_report(report, output);
  if (result.errors > 0) {
    say(fmt::format("the load met {} errors, first: {}", result.errors, result.first_error));
    return static_cast<int>(ExitCode::kFailed);
  }
  return 0;
}

void add_run_command(CLI::App& app, int& status) {
  auto words = std::make_shared<RunWords>();
  CLI::App* command = app.add_subcommand("run", "run a load, trace it, explain its stalls");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  stalltrace run chunk-server --dir /mnt/test --jobs 8 --runtime 20s --json r.json\n"
      "  stalltrace run fsmark -d /mnt/test -s 20480 -n 500 -L 5 -t 4\n"
      "  stalltrace run dio-matrix --target raw=/dev/sdx --target ext4=/mnt/file --destroy-data\n"
      "  stalltrace run osync --device /dev/sdx --destroy-data --threads 16 --runtime 20s\n"
      "  stalltrace run probe --dir /mnt/test --runtime 1m\n"
      "  stalltrace run job chunk-server.fio --dir /mnt/test --runtime 20s");

  CLI::App* chunk_server = command->add_subcommand(
      "chunk-server", "direct AIO writes to preallocated files that are synced meanwhile");
  add_chunk_server_options(*chunk_server, words->chunk_server);
  finish_scenario(chunk_server, words, &RunWords::chunk_server, status);

  CLI::App* probe =
      command->add_subcommand("probe", "one small direct AIO write now and then, like ioping");
  add_probe_options(*probe, words->probe);
  finish_scenario(probe, words, &RunWords::probe, status);

  CLI::App* fsmark =
      command->add_subcommand("fsmark", "fs_mark's work: threads make, write and sync files");
  add_fsmark_options(*fsmark, words->fsmark);
  finish_scenario(fsmark, words, &RunWords::fsmark, status);

  add_dio_matrix_command(*command, status);
  add_osync_command(*command, status);
  add_powercut_command(*command, status);

  CLI::App* job = command->add_subcommand("job", "a fio job file");
  add_job_options(*job, words->job);
  job->footer(
      "Examples:\n"
      "  stalltrace run job chunk-server.fio --dir /mnt/test --runtime 20s\n"
      "  stalltrace run job oltp.fio --dir /mnt/test --json report.json --fio-json fio.json\n"
      "  stalltrace run job oltp.fio --dir /mnt/test --no-trace   # as fio would run it\n"
      "  stalltrace run job raw.fio --destroy-data   # filename=/dev/sdx, and it writes\n"
      "\n"
      "What a file may say is in docs/fio-jobs.md. A key that is not known, or that would be done\n"
      "otherwise than fio does it, is an error that names it and its line.");
  finish_scenario(job, words, &RunWords::job, status);
}

}  // namespace stalltrace::cli

#include "userspace/cli/scenario_options.h"

#include <utility>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/cli/durations.h"
#include "workloads/fio_job.h"
#include "workloads/job_devices.h"

namespace stalltrace::cli {
namespace {

using workloads::Engine;
using workloads::Fill;
using workloads::JobSpec;
using workloads::ProbeSpec;
using workloads::Scenario;

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

void add_runtime_option(CLI::App& command, std::string& runtime) {
  command.add_option("--runtime", runtime, "Run for this long; 0 is until Ctrl-C")
      ->type_name("TIME")
      ->capture_default_str();
}

void add_probe_interval_option(CLI::App& command, std::string& interval) {
  command
      .add_option("--probe-interval", interval,
                  "Beside the load, write 4 KiB by direct AIO to a file of its own once per "
                  "interval, and time submission and completion apart; 0 is no probe")
      ->type_name("TIME")
      ->capture_default_str();
}

void set_load_options(Scenario& scenario, const LoadOptions& options) {
  scenario.ops_log = {.path = options.ops_log,
                      .floor_ns = parse_time_ns(options.ops_log_floor, "--ops-log-floor"),
                      .room = options.ops_log_room};
  scenario.keep_files = options.keep_files;
}

// A probe beside the jobs in the same directory, unless the interval is 0.
void set_probe(Scenario& scenario, const std::string& directory, const std::string& interval) {
  uint64_t interval_ns = parse_time_ns(interval, "--probe-interval");
  scenario.options["probe_interval_s"] = seconds(interval_ns);
  if (interval_ns == 0) return;
  ProbeSpec& probe = scenario.probe.emplace();
  probe.directory = directory;
  probe.interval_ns = interval_ns;
}

std::string_view fill_name(Fill fill) {
  switch (fill) {
    case Fill::kPreallocate:
      return "fallocate";
    case Fill::kWrite:
      return "written";
    case Fill::kNone:
      return "none";
    case Fill::kTruncate:
      return "truncate";
    case Fill::kKeepSize:
      break;
  }
  return "keep";
}

nlohmann::json job_json(const JobSpec& job) {
  nlohmann::json json{{"name", job.name},
                      {"dir", job.directory},
                      {"engine", engine_name(job.engine)},
                      {"rw", pattern_name(job.pattern)},
                      {"files", job_files(job, 0).size()},
                      {"jobs", job.jobs},
                      {"iodepth", job.iodepth},
                      {"bs", job.max_block()},
                      {"size", job.size_bytes},
                      {"direct", job.direct},
                      {"layout", fill_name(job.fill)},
                      {"fsync", job.fsync_every},
                      {"fdatasync", job.fdatasync_every},
                      {"sync_threads", job.sync_threads},
                      {"runtime_s", seconds(job.runtime_ns)},
                      {"time_based", job.time_based}};
  return json;
}

}  // namespace

void add_load_options(CLI::App& command, LoadOptions& options) {
  command
      .add_option("--ops-log", options.ops_log,
                  "Write every operation of the load to this CSV file after the run, with its id, "
                  "CLOCK_MONOTONIC start and end in ns, and result")
      ->type_name("FILE");
  command
      .add_option("--ops-log-floor", options.ops_log_floor,
                  "Leave operations shorter than this out of the log (they are counted)")
      ->type_name("TIME")
      ->capture_default_str();
  command
      .add_option("--ops-log-room", options.ops_log_room,
                  "Room in the log for so many operations of each thread, 48 bytes each")
      ->check(CLI::Range(size_t{1}, size_t{1} << 28))
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--keep-files", options.keep_files, "Do not remove the load's files afterwards");
}

const CLI::Validator kSyncMethod(
    [](const std::string& word) {
      try {
        workloads::parse_sync_method(word);
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    },
    "");

void add_chunk_server_options(CLI::App& command, ChunkServerOptions& options) {
  command.add_option("--dir", options.dir, "Directory for the chunk files")
      ->type_name("DIR")
      ->required();
  command.add_option("--jobs", options.jobs, "Writing threads, each with a chunk file of its own")
      ->capture_default_str();
  command.add_option("--iodepth", options.iodepth, "Writes in flight per thread")
      ->capture_default_str();
  command.add_option("--bs", options.bs, "Bytes per write")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--size", options.size, "Size of each chunk file")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--fdatasync", options.fdatasync,
                     "Writers call fdatasync after every so many writes; 0 is never "
                     "(default 32, or 0 with --sync-threads)");
  command
      .add_option("--sync-threads", options.sync_threads,
                  "Writers never sync; so many other threads fdatasync files with completed "
                  "writes, and the time until each write is acknowledged is reported")
      ->capture_default_str();
  command.add_option("--engine", options.engine, "How writes are submitted: libaio or io_uring")
      ->check(CLI::IsMember({"libaio", "io_uring"}))
      ->capture_default_str();
  command
      .add_option("--layout", options.layout,
                  "How chunk files are made: fallocate (as fio does; the first write of each block "
                  "changes metadata) or written (every write is a plain overwrite)")
      ->check(CLI::IsMember({"fallocate", "written"}))
      ->capture_default_str();
  add_runtime_option(command, options.runtime);
  add_probe_interval_option(command, options.probe_interval);
  add_load_options(command, options);
}

void add_probe_options(CLI::App& command, ProbeOptions& options) {
  command.add_option("--dir", options.dir, "Directory for the probe's file of 1 MiB")
      ->type_name("DIR")
      ->required();
  add_runtime_option(command, options.runtime);
  command
      .add_option("--probe-interval", options.probe_interval,
                  "Time from the start of one request to the start of the next")
      ->type_name("TIME")
      ->capture_default_str();
  add_load_options(command, options);
}

void add_job_options(CLI::App& command, JobOptions& options) {
  command.add_option("file", options.file, "A fio job file")->type_name("FILE.fio")->required();
  command.add_option("--dir", options.dir, "Instead of the file's directory=")->type_name("DIR");
  command.add_option("--jobs", options.jobs, "Instead of the file's numjobs=");
  command.add_option("--size", options.size, "Instead of the file's size=")->type_name("SIZE");
  command.add_option("--runtime", options.runtime, "Instead of the file's runtime=")
      ->type_name("TIME");
  command
      .add_option("--fio-json", options.fio_json,
                  "Write the figures to this file as `fio --output-format=json` does, for scripts "
                  "that read fio; with '-', --quiet keeps the report out of it")
      ->type_name("FILE");
  command.add_flag("--destroy-data", options.destroy_data,
                   "Block devices that the file names (filename=/dev/...) may be written to; what "
                   "they hold is lost. One in use is refused all the same");
  add_probe_interval_option(command, options.probe_interval);
  add_load_options(command, options);
}

void add_fsmark_options(CLI::App& command, FsmarkOptions& options) {
  command
      .add_option("-d,--dir", options.dirs,
                  "Directory for the files, in a folder of its own; repeatable: threads take them "
                  "in turn")
      ->type_name("DIR")
      ->required()
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("-s,--size", options.file_size, "Size of each file")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("-n", options.files, "Files per thread and iteration")->capture_default_str();
  command.add_option("-L", options.loops, "Iterations")->capture_default_str();
  command.add_option("-t,--threads", options.threads, "Threads")->capture_default_str();
  command
      .add_option(
          "-S", options.method,
          "When files are synced: 0 never, 1 before close, 2 sync() and one fsync after all "
          "files, 3 fsync of all in reverse order, 4 sync() and that, 5 fsync of all in "
          "order, 6 sync() and that")
      ->capture_default_str();
  command.add_option("-D", options.subdirs, "Subdirectories")->capture_default_str();
  command
      .add_option(
          "-N", options.files_per_subdir,
          "Files in a subdirectory before the next one is taken; 0: they change every 180 s")
      ->capture_default_str();
  command.add_option("-w", options.write_size, "Bytes per write")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option(
          "--sync", options.sync,
          "How a file is put on disk: fsync, fdatasync, osync or dsync (opened so, no call), "
          "syncfs, sync_file_range (its data only), group (one syncfs for all that wait), "
          "syncfs-every=TIME (a thread calls it at intervals, files wait for the next call), "
          "dirsync (the directory's entries only)")
      ->type_name("METHOD")
      ->check(kSyncMethod)
      ->capture_default_str();
  command.add_flag("--processes", options.processes, "Each thread is a process, as in fs_mark");
  add_load_options(command, options);
}

Scenario make_scenario(const ChunkServerOptions& options) {
  JobSpec job;
  job.directory = options.dir;
  job.jobs = options.jobs;
  job.iodepth = options.iodepth;
  job.block_bytes = parse_size(options.bs, "--bs");
  job.size_bytes = parse_size(options.size, "--size");
  job.engine = options.engine == "io_uring" ? Engine::kIoUring : Engine::kLibaio;
  job.fill = options.layout == "written" ? Fill::kWrite : Fill::kPreallocate;
  job.sync_threads = options.sync_threads;
  job.fdatasync_every = options.fdatasync.value_or(options.sync_threads > 0 ? 0 : 32);
  job.runtime_ns = parse_duration_ns(options.runtime, "--runtime");
  check_job(job, "chunk-server");
  Scenario scenario;
  scenario.name = "chunk-server";
  scenario.options = job_json(job);
  set_probe(scenario, options.dir, options.probe_interval);
  scenario.jobs.push_back(std::move(job));
  set_load_options(scenario, options);
  return scenario;
}

Scenario make_scenario(const ProbeOptions& options) {
  Scenario scenario;
  scenario.name = "probe";
  scenario.options["dir"] = options.dir;
  set_probe(scenario, options.dir, options.probe_interval);
  if (!scenario.probe) throw usage_error("--probe-interval: a probe needs one, such as 1s");
  scenario.probe->runtime_ns = parse_duration_ns(options.runtime, "--runtime");
  scenario.options["runtime_s"] = seconds(scenario.probe->runtime_ns);
  set_load_options(scenario, options);
  return scenario;
}

Scenario make_scenario(const FsmarkOptions& options) {
  Scenario scenario;
  scenario.name = "fsmark";
  workloads::FsmarkSpec& spec = scenario.fsmark.emplace();
  spec.directories = options.dirs;
  spec.file_bytes = parse_size(options.file_size, "-s");
  spec.files = options.files;
  spec.loops = options.loops;
  spec.threads = options.threads;
  spec.method = options.method;
  spec.sync = workloads::parse_sync_method(options.sync);
  spec.subdirs = options.subdirs;
  spec.files_per_subdir = options.files_per_subdir;
  spec.write_bytes = parse_size(options.write_size, "-w");
  spec.processes = options.processes;
  check_fsmark(spec, "fsmark");
  scenario.options = {{"dirs", spec.directories},
                      {"size", spec.file_bytes},
                      {"files", spec.files},
                      {"loops", spec.loops},
                      {"threads", spec.threads},
                      {"method", spec.method},
                      {"sync", options.sync},
                      {"subdirs", spec.subdirs},
                      {"files_per_subdir", spec.files_per_subdir},
                      {"write_size", spec.write_bytes},
                      {"processes", spec.processes}};
  set_load_options(scenario, options);
  return scenario;
}

Scenario make_scenario(const JobOptions& options) {
  workloads::JobOverrides overrides{
      .directory = options.dir, .runtime_ns = {}, .jobs = options.jobs, .size_bytes = {}};
  if (options.runtime) overrides.runtime_ns = parse_duration_ns(*options.runtime, "--runtime");
  if (options.size) overrides.size_bytes = parse_size(*options.size, "--size");
  Scenario scenario;
  scenario.name = "job";
  scenario.jobs = workloads::read_fio_job(options.file, overrides);
  scenario.options["file"] = options.file;
  scenario.fio_json = !options.fio_json.empty();
  scenario.options["jobs"] = nlohmann::json::array();
  for (const JobSpec& job : scenario.jobs) scenario.options["jobs"].push_back(job_json(job));
  scenario.destroy_data = options.destroy_data;
  set_probe(scenario, scenario.jobs.front().directory, options.probe_interval);
  if (scenario.probe && workloads::is_block_device(scenario.jobs.front().path(0))) {
    throw usage_error("--probe-interval: the probe writes a file, which a device does not have");
  }
  set_load_options(scenario, options);
  return scenario;
}

}  // namespace stalltrace::cli

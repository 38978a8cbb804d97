// st_loadgen: a scenario without tracing.
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/cli/scenario_options.h"
#include "workloads/process.h"

namespace {

using stalltrace::workloads::File;
using stalltrace::workloads::Scenario;
using stalltrace::workloads::WorkloadProcess;
using stalltrace::workloads::WorkloadResult;

File watch_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return File(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool signalled(const File& signals) {
  signalfd_siginfo info{};
  return read(signals.get(), &info, sizeof(info)) == sizeof(info);
}

int run(const Scenario& scenario, const std::string& json_file) {
  File signals = watch_signals();
  WorkloadProcess process(scenario);
  uint64_t began_ns = stalltrace::monotonic_ns();
  if (!process.prepare(
          [&signals](uint64_t /*done*/, uint64_t /*total*/) { return !signalled(signals); })) {
    fmt::print(stderr, "st_loadgen: cancelled\n");
    return 1;
  }
  fmt::print(stderr, "pid {}, {} threads, prepared in {}\n", process.pid(),
             process.threads().size(),
             stalltrace::format_time(stalltrace::monotonic_ns() - began_ns));
  process.start();
  do {
    std::array<pollfd, 2> wait{{{.fd = process.fd(), .events = POLLIN, .revents = 0},
                                {.fd = signals.get(), .events = POLLIN, .revents = 0}}};
    poll(wait.data(), wait.size(), -1);
    if (wait[1].revents != 0 && signalled(signals)) process.stop();
  } while (!process.wait(0));
  const WorkloadResult& result = process.result();
  if (result.probe) fmt::print("{}", probe_text(*result.probe));
  fmt::print("{}", stalltrace::workloads::workload_text(result.workload));
  if (!json_file.empty()) {
    nlohmann::json json{{"workload", result.workload}};
    if (result.probe) json["probe"] = probe_json(*result.probe, result.start_ns);
    std::ofstream(json_file) << json.dump(2) << '\n';
  }
  process.finish();
  return result.errors > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs a load of stalltrace without tracing it"};
  app.require_subcommand(1);
  app.fallthrough();
  std::string json_file;
  app.add_option("--json", json_file, "Write the results to this file");
  stalltrace::cli::ChunkServerOptions chunk_server;
  stalltrace::cli::ProbeOptions probe;
  stalltrace::cli::JobOptions job;
  CLI::App* chunk_server_command = app.add_subcommand("chunk-server", "Direct AIO to chunk files");
  CLI::App* probe_command = app.add_subcommand("probe", "One small write per interval");
  CLI::App* job_command = app.add_subcommand("job", "A fio job file");
  add_chunk_server_options(*chunk_server_command, chunk_server);
  add_probe_options(*probe_command, probe);
  add_job_options(*job_command, job);
  CLI11_PARSE(app, argc, argv);
  try {
    if (chunk_server_command->parsed()) return run(make_scenario(chunk_server), json_file);
    if (probe_command->parsed()) return run(make_scenario(probe), json_file);
    return run(make_scenario(job), json_file);
  } catch (const stalltrace::Error& error) {
    fmt::print(stderr, "st_loadgen: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}

// One load, run and traced, and its report written; what a scenario does beyond that hooks in.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "userspace/cli/output.h"
#include "userspace/cli/tracing.h"
#include "workloads/process.h"
#include "workloads/scenario.h"

namespace stalltrace::cli {

struct RunHooks {
  // Instead of the devices of the scenario's directory.
  std::function<std::vector<kernel::Device>()> devices;
  // The load has just begun; null where nothing is traced.
  std::function<void(workloads::WorkloadProcess&, Tracing*)> begun;
  // It has ended, the window is about to close.
  std::function<void()> ended;
  // To add to the report, whose `workload` is there.
  std::function<void(report::Report&, Tracing*)> finish;
  // Where the jobs' figures go in fio's layout, if the scenario has them.
  std::string fio_json = {};
};

// The exit status. Throws as Tracing and WorkloadProcess do.
int run_scenario(const workloads::Scenario& scenario, const OutputWords& output, bool no_trace,
                 const RunHooks& hooks);

}  // namespace stalltrace::cli

// Waiting for a load, with Ctrl-C ending it and not us.
#pragma once

#include <functional>

#include "userspace/cli/signals.h"
#include "workloads/process.h"

namespace stalltrace::cli {

// Until the load has ended; `show` is called now and then meanwhile. False: it was stopped.
// Throws as WorkloadProcess::wait.
bool wait_for_load(workloads::WorkloadProcess& load, StopSignals& signals,
                   const std::function<void()>& show = {});

}  // namespace stalltrace::cli

#pragma once

#include <sys/types.h>

#include "workloads/channel.h"
#include "workloads/scenario.h"

namespace stalltrace::workloads {

// The life of a load's process, told over `channel` (see child.cc for the messages); `parent` is
// the process that has to be alive. Ends the process.
[[noreturn]] void run_child(const Scenario& scenario, Channel& channel, pid_t parent);

}  // namespace stalltrace::workloads

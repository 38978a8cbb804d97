// Orders to a disk's daemon: a file in its folder and SIGUSR2; the daemon answers with a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "workloads/disk/server.h"
#include "workloads/disk/state.h"

namespace stalltrace::disk {

// The daemon's side: reads the order, does it, answers. `record` learns whether there is power.
// Throws nothing; what went wrong is the answer, or goes to `log`.
void obey_order(Server& server, const StateFolder& folder, DaemonRecord& record,
                const std::function<void(const std::string&)>& log);

}  // namespace stalltrace::disk

// The process that serves a disk.
#pragma once

#include <string>

#include "workloads/disk/schedule.h"
#include "workloads/disk/state.h"

namespace stalltrace::disk {

struct DaemonConfig {
  DiskOptions options;
  StateFolder folder;
  Schedule schedule;
  int truth_fd = -1;  // -1: no truth log
  int lock_fd = -1;   // the folder's lock; kept until the daemon is ready
};

// Starts the daemon, detached from this process, its session and its descriptors, and returns when
// it has mounted its file system. Throws the daemon's own Error if it could not.
void start_daemon(const DaemonConfig& config);

}  // namespace stalltrace::disk

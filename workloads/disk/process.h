// Processes by pid and start time, so that a recycled pid is never taken for the one we knew.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "userspace/base/clock.h"

namespace stalltrace::disk {

struct ProcessId {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
};

// start_ticks is 0 if there is no such process.
ProcessId identify(pid_t pid);

// False for a zombie: it serves nothing any more, and its parent may never reap it.
bool is_alive(const ProcessId& process);

// Nothing happens if the process is gone.
void send_signal(const ProcessId& process, int signal);

// True once it is gone (or a zombie).
bool wait_gone(const ProcessId& process, uint64_t timeout_ns);

void sleep_ns(uint64_t ns);

}  // namespace stalltrace::disk

// Names of tasks that are still alive.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace stalltrace::kernel {

// Of a process or thread id. Nothing when it has ended. (Kernel threads give their full name where
// the kernel keeps it, else 15 characters.)
std::optional<std::string> comm_of(pid_t tid);

// Arguments joined by blanks; empty for kernel threads and for tasks that have ended.
std::string cmdline_of(pid_t pid);

// The process a thread belongs to. Nothing when it has ended.
std::optional<pid_t> process_of(pid_t tid);

}  // namespace stalltrace::kernel

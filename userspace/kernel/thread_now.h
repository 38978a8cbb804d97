// What a thread does at this moment, without tracing it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/kernel/wait_class.h"

namespace stalltrace::kernel {

// The functions of a /proc/PID/stack, innermost first; they point into `text`.
std::vector<std::string_view> functions_in(std::string_view text);

// kCpuRun where it runs or could run; else what its stack waits for. Nothing when the thread has
// ended or its stack cannot be read. `writes`: its calls write, see WaitContext.
std::optional<WaitClass> waits_for_now(pid_t pid, pid_t tid, bool writes);

}  // namespace stalltrace::kernel

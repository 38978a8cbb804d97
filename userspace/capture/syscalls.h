// Which syscalls are calls of which kind, and where their file is: x86-64 numbers.
#pragma once

#include <cstdint>
#include <span>

#include "bpf/wire.h"

namespace stalltrace::capture {

struct SyscallRule {
  uint32_t number;
  wire::wire_call_kind call;
  wire::wire_target target;
};

std::span<const SyscallRule> syscall_rules();

}  // namespace stalltrace::capture

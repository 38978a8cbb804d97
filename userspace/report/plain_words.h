// What the names of a report mean, for people who have never read the kernel's journal.
#pragma once

#include <string>
#include <string_view>

#include "userspace/blame/stall.h"
#include "userspace/kernel/wait_class.h"

namespace stalltrace::report {

// One clause: "wants to change a metadata block that a commit is writing just now".
std::string_view meaning_of(kernel::WaitClass wait_class);
std::string_view meaning_of(blame::RootKind kind);

// Completes "96 % of it ...": "waited for flushes of loop0 (/mnt)". `place` is the device in
// words, or empty.
std::string what_happened(blame::RootKind kind, std::string_view place);

// "1 stall", "3 stalls".
std::string counted(uint64_t count, std::string_view one, std::string_view many);

}  // namespace stalltrace::report

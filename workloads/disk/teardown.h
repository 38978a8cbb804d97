// Taking a disk apart, from whatever state a crash left it in.
#pragma once

#include "workloads/disk/disk.h"
#include "workloads/disk/state.h"

namespace stalltrace::disk {

// How long a command waits for another one that works on the same disk: longer than a destroy that
// has to use all its patience.
inline constexpr uint64_t kLockTimeoutNs = 120'000'000'000;

// The caller holds the folder's lock. Removes the folder at the end; a failed Error leaves it.
void tear_down(const std::string& name, const StateFolder& folder, const Notice& notice);

// The disk's loop device if it is attached, else -1.
int attached_loop(const StateFolder& folder, const DiskRecord& record);

}  // namespace stalltrace::disk

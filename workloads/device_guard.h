// What keeps a load from writing over a device that something needs.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/layout.h"

namespace stalltrace::workloads {

// Where the kernel tells what devices are used for; tests have others.
struct SystemFolders {
  std::string sys = "/sys";
  std::string proc = "/proc";
};

// The number (as the kernel keeps it) of the block device at `path`. Throws a usage Error if there
// is none.
uint32_t block_device_number(const std::string& path);

// What the device, a partition of it or the disk it is a partition of is used for: "is mounted on
// /srv", "is swap", "is part of md0", "is the backing device of loop3". Empty: for nothing.
std::string use_of_device(uint32_t kdev, const SystemFolders& folders = {});

// Opens the device so that nobody can mount it or build on it as long as the result lives. Throws
// a usage Error, before anything is written, where it is used, holds a part of an array or volume
// group (active or not), or `destroy_data` was not said.
File claim_device(const std::string& path, bool destroy_data);

uint64_t device_bytes(const File& device, const std::string& path);

}  // namespace stalltrace::workloads

// The block devices that jobs name as their files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/layout.h"

namespace stalltrace::workloads {

bool is_block_device(const std::string& path);

// How much each of them holds, at least; nothing where one of `paths` is no block device.
std::optional<uint64_t> size_of_devices(const std::vector<std::string>& paths);

class JobDevices {
 public:
  // Takes the devices out of `specs`; what is left are files. Those that are written to are claimed
  // as long as this lives. Throws what claim_device() throws, and a usage Error for a device that
  // is too small or that a job would make or append to.
  void take_from(std::vector<FileSpec>& specs, bool destroy_data);

 private:
  std::vector<File> claims_;
};

}  // namespace stalltrace::workloads

#pragma once

#include <string>

namespace stalltrace::workloads {

struct MountName {
  std::string fs_type;  // "ext4"
  std::string source;   // "/dev/loop0"
};

// The file system that `path` is on, from the mount table; empty strings where it is not known.
MountName mount_name(const std::string& path);

}  // namespace stalltrace::workloads

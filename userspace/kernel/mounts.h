// Mounted file systems as /proc/self/mountinfo lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stalltrace::kernel {

struct Mount {
  int id = 0;           // as statx reports it
  uint32_t st_dev = 0;  // kdev; major 0: anonymous (tmpfs, btrfs, overlay...)
  std::string root;     // of this mount inside the file system; not "/" for bind mounts
  std::string mountpoint;
  std::string fs;
  std::string source;
  std::string options;  // of the mount and the superblock, merged
};

// Throws a usage Error for text that is not in mountinfo's format.
std::vector<Mount> parse_mountinfo(const std::string& text);

// This process's. Throws a refused Error when it cannot be read.
std::vector<Mount> current_mounts();

// On which of them an absolute path lies, by its text alone (no symbolic link is followed): the
// deepest mount point, of two at one place the later one. Null for a relative path.
const Mount* mount_of(const std::vector<Mount>& mounts, const std::string& path);

}  // namespace stalltrace::kernel

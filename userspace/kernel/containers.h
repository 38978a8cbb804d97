// What processes in containers call things: cgroups by id, paths as another mount namespace has
// them. Asked while the process lives, kept for when it is gone.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "userspace/base/fd.h"
#include "userspace/kernel/mounts.h"

namespace stalltrace::kernel {

class Containers {
 public:
  Containers();

  // Notes what can be known of them now. From any thread; cheap once both are known.
  void note(uint64_t cgroup, uint32_t mnt_ns, uint32_t tid);

  // "/system.slice/docker-1234.scope"; "" if unknown (no cgroup2 is mounted, or it was gone).
  [[nodiscard]] std::string cgroup_path(uint64_t id) const;
  // A path inside of a file system, as it is reached in that namespace. "" if it is not, if the
  // namespace is our own, or if nobody of it lived long enough to be asked.
  [[nodiscard]] std::string path_inside(uint32_t mnt_ns, uint32_t st_dev,
                                        const std::string& path_in_fs) const;

 private:
  const uint32_t own_mnt_ns_;
  const Fd cgroup_root_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::string> cgroups_;
  std::map<uint32_t, std::vector<Mount>> mounts_;  // by namespace
};

// The process that a thread belongs to; 0: it is gone.
uint32_t process_of(uint32_t tid);

// This process's and all that descend from it just now, by their parents in /proc.
std::vector<uint32_t> descendants_of(uint32_t pid);

// By their text alone: `path` is `folder`, or in it at any depth.
bool is_below(const std::string& path, const std::string& folder);

// Where a path inside of a file system is mounted: of several mounts the one that shows it by the
// shortest path. "" if none does.
std::string mounted_path(const std::vector<Mount>& mounts, uint32_t st_dev,
                         const std::string& path_in_fs);

}  // namespace stalltrace::kernel

#include "workloads/mount_name.h"

#include <libmount/libmount.h>

#include <cstdlib>
#include <memory>

namespace stalltrace::workloads {

MountName mount_name(const std::string& path) {
  // By mount point and not by device number: a btrfs file's st_dev is not in the mount table.
  std::unique_ptr<char, decltype(&std::free)> target(mnt_get_mountpoint(path.c_str()), &std::free);
  std::unique_ptr<libmnt_table, decltype(&mnt_unref_table)> table(
      mnt_new_table_from_file("/proc/self/mountinfo"), &mnt_unref_table);
  if (!target || !table) return {};
  // Backward: of several mounts on one point the last is the one that is seen.
  libmnt_fs* fs = mnt_table_find_target(table.get(), target.get(), MNT_ITER_BACKWARD);
  if (fs == nullptr) return {};
  auto text = [](const char* value) { return std::string(value != nullptr ? value : ""); };
  return {.fs_type = text(mnt_fs_get_fstype(fs)), .source = text(mnt_fs_get_source(fs))};
}

}  // namespace stalltrace::workloads

#include "userspace/kernel/mounts.h"

#include <gtest/gtest.h>

namespace stalltrace::kernel {
namespace {

TEST(Mounts, APathIsOnTheDeepestMountPointAboveIt) {
  std::vector<Mount> mounts = parse_mountinfo(
      "20 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "21 20 7:0 / /mnt rw - ext4 /dev/loop0 rw\n"
      "22 21 7:1 / /mnt/deep rw - xfs /dev/loop1 rw\n"
      "23 21 7:2 / /mnt/deep rw - xfs /dev/loop2 rw\n");
  auto on = [&](const char* path) { return mount_of(mounts, path)->st_dev; };
  constexpr uint32_t kLoop = 7 << 20;
  EXPECT_EQ(on("/mnt"), kLoop);
  EXPECT_EQ(on("/mnt/file"), kLoop);
  EXPECT_EQ(on("/mnt/deep/a"), kLoop + 2);  // mounted over the other
  EXPECT_EQ(on("/mnt/deeper/a"), kLoop);
  EXPECT_EQ(on("/mntx"), 254U << 20);
  EXPECT_EQ(mount_of(mounts, "relative"), nullptr);
}

}  // namespace
}  // namespace stalltrace::kernel

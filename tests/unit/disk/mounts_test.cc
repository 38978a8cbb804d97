#include "workloads/disk/mounts.h"

#include <gtest/gtest.h>

namespace stalltrace::disk {
namespace {

TEST(Mountinfo, ReadsDeviceMountpointTypeAndSource) {
  const auto mounts = parse_mountinfo(
      "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
      "40 22 7:8 /sub /mnt/a rw shared:2 master:1 - ext4 /dev/loop8 rw,stripe=4\n"
      "41 22 0:52 / /mnt/b rw - btrfs /dev/loop9 rw\n");
  ASSERT_EQ(mounts.size(), 3U);
  EXPECT_EQ(mounts[1].id, 40);
  EXPECT_EQ(mounts[1].kdev, 7U << 20 | 8U);
  EXPECT_EQ(mounts[1].mountpoint, "/mnt/a");
  EXPECT_EQ(mounts[1].type, "ext4");
  EXPECT_EQ(mounts[1].source, "/dev/loop8");
  EXPECT_EQ(mounts[2].kdev, 52U);
}

TEST(Mountinfo, UndoesTheEscapes) {
  const auto mounts =
      parse_mountinfo("40 22 7:8 / /mnt/a\\040b\\134\\011c rw - ext4 /dev/my\\040disk rw\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].mountpoint, "/mnt/a b\\\tc");
  EXPECT_EQ(mounts[0].source, "/dev/my disk");
}

TEST(Mountinfo, SkipsWhatIsNoMount) {
  EXPECT_TRUE(parse_mountinfo("\nnonsense\n1 2 3:4 / /x rw\n").empty());
}

TEST(Holders, AreListedInOneLine) {
  EXPECT_EQ(describe({{"fio[42]", true}, {"swap on /dev/loop3", false}}),
            "fio[42], swap on /dev/loop3");
  EXPECT_FALSE(describe({}).empty());
}

}  // namespace
}  // namespace stalltrace::disk

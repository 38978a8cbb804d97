#include "workloads/device_guard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/workloads/temp_dir.h"
#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kdev(uint32_t major, uint32_t minor) {
  return major << 20 | minor;
}

// A machine with a disk sdx (8:16) with the partitions sdx1 and sdx2, and a loop device.
class Machine {
 public:
  Machine() {
    add("block/sdx", "8:16", false);
    add("block/sdx/sdx1", "8:17", true);
    add("block/sdx/sdx2", "8:18", true);
    add("block/loop9", "7:9", false);
    write("proc/swaps", "Filename\tType\tSize\n");
    write("proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw\n");
  }
  void write(const std::string& name, const std::string& text) {
    const fs::path path = fs::path(dir_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] std::string use(uint32_t number) const {
    return use_of_device(number, {.sys = dir_.path() + "/sys", .proc = dir_.path() + "/proc"});
  }

 private:
  void add(const std::string& folder, const std::string& number, bool partition) {
    write("sys/" + folder + "/dev", number + "\n");
    if (partition) write("sys/" + folder + "/partition", "1\n");
    fs::create_directories(fs::path(dir_.path()) / "sys" / folder / "holders");
    fs::create_directories(fs::path(dir_.path()) / "sys/dev/block");
    fs::create_symlink(fs::path("../..") / folder,
                       fs::path(dir_.path()) / "sys/dev/block" / number);
  }

  TempDir dir_;
};

TEST(DeviceGuard, AnIdleDiskHasNoUse) {
  Machine machine;
  EXPECT_EQ(machine.use(kdev(8, 16)), "");
  EXPECT_EQ(machine.use(kdev(8, 17)), "");
}

TEST(DeviceGuard, AMountIsFoundOnTheDiskItsPartitionsAndTheDiskOfAPartition) {
  Machine machine;
  machine.write("proc/self/mountinfo", "30 1 8:17 / /srv rw - ext4 /dev/sdx1 rw\n");
  EXPECT_EQ(machine.use(kdev(8, 17)), "is mounted on /srv");
  EXPECT_EQ(machine.use(kdev(8, 16)), "has sdx1, which is mounted on /srv");
  EXPECT_EQ(machine.use(kdev(8, 18)), "") << "a neighbour's mount is no reason";
  machine.write("proc/self/mountinfo", "30 1 8:16 / /all rw - xfs /dev/sdx rw\n");
  EXPECT_EQ(machine.use(kdev(8, 18)), "has sdx, which is mounted on /all");
}

TEST(DeviceGuard, SwapIsFound) {
  Machine machine;
  machine.write("proc/swaps", "Filename\tType\tSize\n/dev/sdx2  partition  1024\n");
  EXPECT_EQ(machine.use(kdev(8, 18)), "is swap");
  EXPECT_EQ(machine.use(kdev(8, 16)), "has sdx2, which is swap");
}

TEST(DeviceGuard, MembersOfOtherDevicesAreFound) {
  Machine machine;
  machine.write("sys/block/sdx/sdx1/holders/dm-0", "");
  EXPECT_EQ(machine.use(kdev(8, 17)), "is part of dm-0");
  EXPECT_EQ(machine.use(kdev(8, 16)), "has sdx1, which is part of dm-0");
}

TEST(DeviceGuard, WhatALoopDeviceLiesOnIsFound) {
  Machine machine;
  machine.write("sys/block/loop9/loop/backing_file", "/dev/sdx\n");
  EXPECT_EQ(machine.use(kdev(8, 16)), "is the backing device of loop9");
  EXPECT_EQ(machine.use(kdev(7, 9)), "");
}

TEST(DeviceGuard, WhatIsNoDeviceIsRefusedInOneLine) {
  for (const char* path : {"", "/no/such", "/dev/null", "/etc/passwd"}) {
    try {
      claim_device(path, true);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << path;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace stalltrace::workloads

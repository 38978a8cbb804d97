#include "userspace/kernel/devices.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "userspace/base/error.h"
#include "userspace/kernel/counters.h"
#include "userspace/kernel/mounts.h"

namespace stalltrace::kernel {
namespace {

// ---- text

TEST(Mounts, Samples) {
  // Debian 12; a bind mount; a btrfs subvolume; a blank in a path; a shared mount without tags.
  std::vector<Mount> mounts = parse_mountinfo(
      "25 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
      "60 25 259:3 /srv/data /data rw,noatime shared:31 - xfs /dev/nvme0n1p3 "
      "rw,attr2,logdev=/dev/sdb1\n"
      "61 25 0:45 /@home /home rw,relatime shared:32 master:1 - btrfs /dev/sdc1 rw,subvol=/@home\n"
      "62 25 0:50 / /mnt/two\\040words rw - tmpfs tmpfs rw,size=1k\n");
  ASSERT_EQ(mounts.size(), 4U);
  EXPECT_EQ(mounts[0].id, 25);
  EXPECT_EQ(mounts[0].st_dev, 254U << 20);
  EXPECT_EQ(mounts[0].mountpoint, "/");
  EXPECT_EQ(mounts[0].fs, "ext4");
  EXPECT_EQ(mounts[0].source, "/dev/vda");
  EXPECT_NE(mounts[0].options.find("relatime"), std::string::npos);
  EXPECT_NE(mounts[0].options.find("discard"), std::string::npos);
  EXPECT_EQ(mounts[1].st_dev, (259U << 20) + 3);
  EXPECT_EQ(mounts[1].root, "/srv/data");
  EXPECT_EQ(mounts[2].fs, "btrfs");
  EXPECT_EQ(mounts[2].source, "/dev/sdc1");
  EXPECT_EQ(kdev_major(mounts[2].st_dev), 0U);
  EXPECT_EQ(mounts[3].mountpoint, "/mnt/two words");
  EXPECT_TRUE(parse_mountinfo("").empty());
  EXPECT_THROW(parse_mountinfo("this is not a table\n"), Error);
}

TEST(Devices, NumbersAsTheKernelKeepsThem) {
  EXPECT_EQ(make_kdev(259, 3), 0x10300003U);
  EXPECT_EQ(kdev_major(0x10300003U), 259U);
  EXPECT_EQ(kdev_minor(0x10300003U), 3U);
  EXPECT_EQ(kdev_text(make_kdev(7, 12)), "7:12");
  // glibc's dev_t is laid out otherwise, above all for large minors.
  EXPECT_EQ(kdev_of_stat(makedev(259, 70000)), make_kdev(259, 70000));
}

TEST(Devices, Scheduler) {
  EXPECT_EQ(parse_scheduler("[none] mq-deadline kyber bfq"), "none");
  EXPECT_EQ(parse_scheduler("none [mq-deadline]"), "mq-deadline");
  EXPECT_EQ(parse_scheduler("none"), "none");
  EXPECT_EQ(parse_scheduler(""), "");
}

TEST(Devices, JournalFolders) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(pick_journal_folder("loop0", "jbd2/loop0-8", Names{"loop1-8", "loop0-8"}), "loop0-8");
  EXPECT_EQ(pick_journal_folder("loop0", "", Names{"loop0-8"}), "loop0-8");
  EXPECT_EQ(pick_journal_folder("sda", "", Names{"sda1-8", "sda-x"}), "");
  EXPECT_EQ(pick_journal_folder("dm-1", "jbd2/dm-1-8", Names{"dm-10-8", "dm-1-8"}), "dm-1-8");
  EXPECT_EQ(pick_journal_folder("cciss/c0d0p1", "", Names{"cciss!c0d0p1-8"}), "cciss!c0d0p1-8");
  // A journal on a device of its own; a comm that the kernel cut to 15 characters.
  EXPECT_EQ(pick_journal_folder("sda1", "jbd2/sdb1", Names{"sdc1-8", "sdb1"}), "sdb1");
  EXPECT_EQ(pick_journal_folder("sda1", "jbd2/nvme10n1p1", Names{"sda2-8", "nvme10n1p12"}),
            "nvme10n1p12");
  EXPECT_EQ(pick_journal_folder("sda1", "jbd2/nvme0", Names{"nvme0n1"}), "");
  EXPECT_EQ(pick_journal_folder("sda1", "<none>", Names{"sdb1-8"}), "");
}

TEST(Devices, PathsUnderAMount) {
  Device device;
  device.mountpoint = "/mnt";
  device.root = "/";
  EXPECT_EQ(path_under(device, {"a", "b"}), "/mnt/a/b");
  EXPECT_EQ(path_under(device, {}), "/mnt");
  device.mountpoint = "/";
  EXPECT_EQ(path_under(device, {"a"}), "/a");
  EXPECT_EQ(path_under(device, {}), "/");
  // A bind mount of /srv/data at /data.
  device.mountpoint = "/data";
  device.root = "/srv/data";
  EXPECT_EQ(path_under(device, {"srv", "data", "x"}), "/data/x");
  EXPECT_EQ(path_under(device, {"srv", "data"}), "/data");
  EXPECT_EQ(path_under(device, {"srv", "database"}), "/data:/srv/database");
}

// ---- this machine

std::string shell(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    output.append(buffer, got);
  }
  pclose(pipe);
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output;
}

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

TEST(Devices, EveryMountedBlockDeviceOfLsblk) {
  std::string text = shell("lsblk -J -l -o NAME,MAJ:MIN,PKNAME,TYPE,MOUNTPOINT 2>/dev/null");
  if (text.empty()) GTEST_SKIP() << "no lsblk here";
  std::vector<Device> devices = mounted_block_devices();
  nlohmann::json listed = nlohmann::json::parse(text);
  for (const auto& item : listed["blockdevices"]) {
    if (item["mountpoint"].is_null() || item["mountpoint"] == "[SWAP]") continue;
    auto found = std::find_if(devices.begin(), devices.end(), [&](const Device& device) {
      return kdev_text(device.kdev) == item["maj:min"].get<std::string>();
    });
    // Others mount and unmount beside us.
    if (found == devices.end() && !run("mountpoint " + item["mountpoint"].get<std::string>())) {
      continue;
    }
    ASSERT_NE(found, devices.end()) << item;
    EXPECT_EQ(found->name, item["name"]);
    if (item["type"] == "part") {
      EXPECT_EQ(found->disk_name, item["pkname"]);
    }
    if (item["type"] == "disk") {
      EXPECT_EQ(found->disk, found->kdev);
    }
  }
}

TEST(Devices, RootFileSystemAsFindmntShowsIt) {
  auto root = device_of_path("/");
  if (!root) GTEST_SKIP() << "the root file system has no block device";
  EXPECT_EQ(root->fs, shell("findmnt -n -o FSTYPE /"));
  EXPECT_EQ(root->mountpoint, "/");
  struct stat info {};
  ASSERT_EQ(stat("/", &info), 0);
  EXPECT_EQ(root->st_dev, kdev_of_stat(info.st_dev));
  if (root->fs == "ext4") {
    EXPECT_EQ(root->kdev, kdev_of_stat(info.st_dev));
    // "<none>" there means: no journal.
    std::string task = shell("cat /sys/fs/ext4/" + root->name + "/journal_task 2>/dev/null");
    if (!task.empty()) {
      EXPECT_EQ(root->has_journal, task != "<none>");
    }
  }
  std::string queue = "/sys/class/block/" + root->disk_name + "/queue/";
  EXPECT_EQ(root->write_cache, shell("cat " + queue + "write_cache"));
  EXPECT_EQ(std::to_string(root->nr_requests), shell("cat " + queue + "nr_requests"));
}

TEST(Devices, FileSystemsWithoutABlockDevice) {
  EXPECT_FALSE(device_of_path("/proc"));
  EXPECT_FALSE(device_of_path("/sys"));
  if (shell("findmnt -n -o FSTYPE /dev/shm") == "tmpfs") {
    EXPECT_FALSE(device_of_path("/dev/shm"));
  }
  for (const Device& device : mounted_block_devices()) EXPECT_NE(device.fs, "tmpfs");
}

TEST(Devices, MissingOnesAreOneLine) {
  for (const char* path : {"/no/such/file", ""}) {
    try {
      device_of_path(path);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_THROW(device_of_kdev(make_kdev(4095, 1)), Error);
}

// ---- file systems of our own on loop devices

class LoopDevices : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    folder_ = "/dev/shm/kernel-test-" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }

  void TearDown() override {
    if (folder_.empty()) return;
    std::reverse(mounts_.begin(), mounts_.end());
    for (const std::string& mount : mounts_) run("umount " + mount);
    for (const std::string& loop : loops_) run("losetup -d " + loop);
    std::filesystem::remove_all(folder_);
  }

  // "/dev/loopN" of a new, empty disk; empty when the machine gives none.
  std::string make_loop(const std::string& name, int mib) {
    std::string file = folder_ + "/" + name;
    if (!run("truncate -s " + std::to_string(mib) + "M " + file)) return "";
    std::string loop = shell("losetup --find --show " + file + " 2>/dev/null");
    if (!loop.empty()) loops_.push_back(loop);
    return loop;
  }

  // The mount point, or empty.
  std::string mount(const std::string& device, const std::string& name,
                    const std::string& options = "defaults") {
    std::string target = folder_ + "/" + name;
    std::filesystem::create_directories(target);
    if (!run("mount -o " + options + " " + device + " " + target)) return "";
    mounts_.push_back(target);
    return target;
  }

  static std::string base(const std::string& node) { return node.substr(node.rfind('/') + 1); }

  static uint32_t kdev_of(const std::string& node) {
    struct stat info {};
    EXPECT_EQ(stat(node.c_str(), &info), 0) << node;
    return kdev_of_stat(info.st_rdev);
  }

  std::string folder_;
  std::vector<std::string> mounts_;
  std::vector<std::string> loops_;
};

TEST_F(LoopDevices, Ext4WithItsJournalInside) {
  std::string loop = make_loop("disk", 64);
  if (loop.empty()) GTEST_SKIP() << "no loop device to be had";
  ASSERT_TRUE(run("mkfs.ext4 -q -F " + loop));

  Device bare = device_of_path(loop).value();
  EXPECT_EQ(bare.kdev, kdev_of(loop));
  EXPECT_EQ(bare.fs, "");
  EXPECT_FALSE(bare.has_journal);

  std::string target = mount(loop, "mnt", "noatime,commit=30,noinit_itable");
  ASSERT_FALSE(target.empty());
  std::ofstream(target + "/file") << "x";
  Device device = device_of_path(target + "/file").value();
  EXPECT_EQ(device.kdev, kdev_of(loop));
  EXPECT_EQ(device.disk, kdev_of(loop));
  EXPECT_EQ(device.name, base(loop));
  EXPECT_EQ(device.fs, "ext4");
  EXPECT_EQ(device.mountpoint, target);
  EXPECT_NE(device.options.find("noatime"), std::string::npos);
  EXPECT_NE(device.options.find("commit=30"), std::string::npos);
  EXPECT_TRUE(device.has_journal);
  EXPECT_FALSE(device.journal);
  EXPECT_EQ(device.journal_name, base(loop) + "-8");
  EXPECT_TRUE(std::filesystem::exists("/proc/fs/jbd2/" + device.journal_name + "/info"));
  EXPECT_EQ(device.write_cache, shell("cat /sys/block/" + base(loop) + "/queue/write_cache"));
  // By its node and by its number it is the same.
  EXPECT_EQ(device_of_path(loop)->mountpoint, target);
  EXPECT_EQ(device_of_kdev(device.kdev).journal_name, device.journal_name);

  // Each sync after a change is one transaction; and the counts are those of awk.
  uint64_t before = jbd2_transactions(device.journal_name);
  DiskStats stats_before = disk_stats(device.disk);
  for (int i = 0; i < 5; ++i) {
    std::ofstream(target + "/f" + std::to_string(i)) << i;
    ASSERT_TRUE(run("sync -f " + target));
  }
  EXPECT_EQ(jbd2_transactions(device.journal_name), before + 5);
  EXPECT_EQ(std::to_string(before + 5),
            shell("awk 'NR==1{print $1}' /proc/fs/jbd2/" + device.journal_name + "/info"));
  std::string line = "awk '$3==\"" + base(loop) + "\"{print $8, $19 + 0}' /proc/diskstats";
  std::istringstream earlier(shell(line));
  DiskStats stats = disk_stats(device.disk);
  std::istringstream later(shell(line));
  uint64_t writes[2];
  uint64_t flushes[2];
  earlier >> writes[0] >> flushes[0];
  later >> writes[1] >> flushes[1];
  EXPECT_GT(stats.writes, stats_before.writes);
  EXPECT_TRUE(writes[0] <= stats.writes && stats.writes <= writes[1]) << stats.writes;
  if (stats.flushes) {
    EXPECT_TRUE(flushes[0] <= *stats.flushes && *stats.flushes <= flushes[1]) << *stats.flushes;
  }
}

TEST_F(LoopDevices, BindMountsAreOneFileSystem) {
  std::string loop = make_loop("disk", 64);
  if (loop.empty()) GTEST_SKIP() << "no loop device to be had";
  ASSERT_TRUE(run("mkfs.ext4 -q -F " + loop));
  std::string target = mount(loop, "mnt");
  ASSERT_FALSE(target.empty());
  std::filesystem::create_directories(target + "/sub/deep");
  std::string bind = mount(target + "/sub", "bind", "bind");
  std::string second = mount(loop, "second");
  ASSERT_FALSE(bind.empty() || second.empty());

  std::vector<Device> devices = mounted_block_devices();
  EXPECT_EQ(std::count_if(devices.begin(), devices.end(),
                          [&](const Device& d) { return d.kdev == kdev_of(loop); }),
            1);
  EXPECT_EQ(device_of_kdev(kdev_of(loop)).mountpoint, target);
  Device through_bind = device_of_path(bind + "/deep").value();
  EXPECT_EQ(through_bind.kdev, kdev_of(loop));
  EXPECT_EQ(through_bind.mountpoint, bind);
  EXPECT_EQ(through_bind.root, "/sub");
  EXPECT_TRUE(std::filesystem::exists(path_under(through_bind, {"sub", "deep"})));
  EXPECT_EQ(device_of_path(second)->mountpoint, second);
}

TEST_F(LoopDevices, Ext4WithoutAJournal) {
  std::string loop = make_loop("disk", 32);
  if (loop.empty()) GTEST_SKIP() << "no loop device to be had";
  ASSERT_TRUE(run("mkfs.ext4 -q -F -O ^has_journal " + loop));
  std::string target = mount(loop, "mnt");
  ASSERT_FALSE(target.empty());
  Device device = device_of_path(target).value();
  EXPECT_EQ(device.fs, "ext4");
  EXPECT_FALSE(device.has_journal);
  EXPECT_EQ(device.journal_name, "");
}

TEST_F(LoopDevices, Ext4WithItsJournalElsewhere) {
  std::string data = make_loop("data", 64);
  std::string log = make_loop("log", 16);
  if (data.empty() || log.empty()) GTEST_SKIP() << "no loop device to be had";
  ASSERT_TRUE(run("mke2fs -q -F -O journal_dev -b 4096 " + log));
  ASSERT_TRUE(run("mkfs.ext4 -q -F -b 4096 -J device=" + log + " " + data));
  std::string target = mount(data, "mnt");
  ASSERT_FALSE(target.empty());
  Device device = device_of_path(target).value();
  EXPECT_EQ(device.kdev, kdev_of(data));
  EXPECT_TRUE(device.has_journal);
  EXPECT_EQ(device.journal_name, base(log));
  ASSERT_TRUE(device.journal);
  EXPECT_EQ(*device.journal, kdev_of(log));
  EXPECT_NO_THROW(jbd2_transactions(device.journal_name));
}

TEST_F(LoopDevices, PartitionsBelongToTheirDisk) {
  std::string loop = make_loop("disk", 64);
  if (loop.empty()) GTEST_SKIP() << "no loop device to be had";
  if (!run("addpart " + loop + " 1 2048 120000")) GTEST_SKIP() << "no partitions on loops here";
  std::string part = loop + "p1";
  for (int i = 0; i < 200 && !std::filesystem::exists(part); ++i) usleep(10000);
  if (!run("mkfs.ext4 -q -F " + part)) GTEST_SKIP() << part << " did not appear";
  std::string target = mount(part, "mnt");
  ASSERT_FALSE(target.empty());
  Device device = device_of_path(target).value();
  EXPECT_EQ(device.kdev, kdev_of(part));
  EXPECT_EQ(device.disk, kdev_of(loop));
  EXPECT_EQ(device.name, base(part));
  EXPECT_EQ(device.disk_name, base(loop));
  EXPECT_EQ(device.journal_name, base(part) + "-8");
  EXPECT_GT(device.nr_requests, 0U);
  run("umount " + target + " && delpart " + loop + " 1");
}

TEST_F(LoopDevices, XfsHasNoJbd2Journal) {
  std::string loop = make_loop("disk", 320);
  if (loop.empty() || !run("mkfs.xfs -q -f " + loop)) GTEST_SKIP() << "no loop device or mkfs.xfs";
  std::string target = mount(loop, "mnt");
  if (target.empty()) GTEST_SKIP() << "this kernel has no XFS";
  Device device = device_of_path(target).value();
  EXPECT_EQ(device.fs, "xfs");
  EXPECT_FALSE(device.has_journal);
  EXPECT_FALSE(device.journal);
}

TEST_F(LoopDevices, BtrfsIsFoundBehindItsAnonymousNumber) {
  std::string loop = make_loop("disk", 256);
  if (loop.empty() || !run("mkfs.btrfs -q -f " + loop)) {
    GTEST_SKIP() << "no loop device or mkfs.btrfs";
  }
  std::string target = mount(loop, "mnt");
  if (target.empty()) GTEST_SKIP() << "this kernel has no btrfs";
  Device device = device_of_path(target).value();
  EXPECT_EQ(device.fs, "btrfs");
  EXPECT_EQ(device.kdev, kdev_of(loop));
  struct stat info {};
  ASSERT_EQ(stat(target.c_str(), &info), 0);
  EXPECT_EQ(device.st_dev, kdev_of_stat(info.st_dev));
  EXPECT_EQ(kdev_major(device.st_dev), 0U);
}

}  // namespace
}  // namespace stalltrace::kernel

// A disk of its own for each test, looked at from outside: the clock, sysfs, /proc and the log of
// the truth. Needs root, /dev/fuse and loop devices.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "userspace/base/error.h"
#include "workloads/disk/disk.h"
#include "workloads/disk/process.h"

namespace stalltrace::disk {

inline constexpr uint64_t kMs = 1'000'000;
inline constexpr uint64_t kMiB = 1ULL << 20;
inline constexpr size_t kBlock = 4096;

struct TruthRow {
  std::string op;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t offset;
  uint64_t bytes;
};

struct Span {
  uint64_t begin_ns;
  uint64_t end_ns;
  [[nodiscard]] uint64_t length_ns() const { return end_ns - begin_ns; }
};

inline std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

inline std::vector<TruthRow> read_truth(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "op,start_ns,end_ns,offset,bytes");
  std::vector<TruthRow> rows;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    TruthRow row;
    char comma = 0;
    std::getline(fields, row.op, ',');
    fields >> row.start_ns >> comma >> row.end_ns >> comma >> row.offset >> comma >> row.bytes;
    EXPECT_TRUE(fields && fields.eof()) << line;
    rows.push_back(row);
  }
  return rows;
}

inline int run_command(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class DiskFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/fuse";
    if (access("/dev/loop-control", R_OK | W_OK) != 0) GTEST_SKIP() << "needs loop devices";
    options_.name = "unit-" + std::to_string(getpid());
    options_.size_bytes = 256 * kMiB;
    options_.truth_path = "/dev/shm/" + options_.name + ".csv";
    mountpoint_ = "/tmp/" + options_.name;
  }

  void TearDown() override {
    if (device_fd_ >= 0) close(device_fd_);
    if (buffer_ != MAP_FAILED) munmap(buffer_, kBlock);
    if (options_.name.empty()) return;
    try {
      destroy(options_.name);
    } catch (const Error&) {
      // The test destroyed it.
    }
    unlink(options_.truth_path.c_str());
    unlink(schedule_path().c_str());
    std::filesystem::remove(mountpoint_);
  }

  [[nodiscard]] std::string schedule_path() const {
    return "/dev/shm/" + options_.name + ".faults";
  }

  void write_schedule(const std::string& text) {
    std::ofstream(schedule_path()) << text;
    options_.schedule_path = schedule_path();
  }

  void make() { info_ = create(options_); }

  [[nodiscard]] std::string queue(const std::string& name) const {
    return line_of("/sys/block/" + info_.device.substr(5) + "/queue/" + name);
  }

  void open_device() {
    device_fd_ = open(info_.device.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
    ASSERT_GE(device_fd_, 0) << std::strerror(errno);
    buffer_ = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(buffer_, MAP_FAILED);
  }

  void write_block(off_t offset, int value) {
    std::memset(buffer_, value, kBlock);
    ASSERT_EQ(pwrite(device_fd_, buffer_, kBlock, offset), static_cast<ssize_t>(kBlock))
        << std::strerror(errno);
  }

  [[nodiscard]] Span timed_flush() const {
    const uint64_t begin_ns = monotonic_ns();
    EXPECT_EQ(fdatasync(device_fd_), 0) << std::strerror(errno);
    return {begin_ns, monotonic_ns()};
  }

  void make_file_system() {
    ASSERT_EQ(run_command("mkfs.ext4 -q " + info_.device), 0);
    std::filesystem::create_directory(mountpoint_);
    ASSERT_EQ(mount(info_.device.c_str(), mountpoint_.c_str(), "ext4", 0, nullptr), 0)
        << std::strerror(errno);
  }

  // A loop device's number may be another disk's as soon as ours is gone, so the backing file
  // decides whose it is.
  void expect_nothing_left(const std::vector<pid_t>& processes) const {
    EXPECT_FALSE(std::filesystem::exists("/run/stalltrace/disks/" + options_.name));
    EXPECT_EQ(slurp("/proc/mounts").find(options_.name), std::string::npos);
    for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
      EXPECT_EQ(line_of(entry.path() / "loop/backing_file").find("/" + options_.name + "/"),
                std::string::npos)
          << entry.path();
    }
    for (const pid_t pid : processes) {
      const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
      EXPECT_TRUE(stat.empty() || stat.find(") Z ") != std::string::npos) << stat;
    }
  }

  // The daemon and its children.
  [[nodiscard]] std::vector<pid_t> processes() const {
    std::vector<pid_t> pids{info_.daemon_pid};
    const std::string task = "/proc/" + std::to_string(info_.daemon_pid) + "/task/" +
                             std::to_string(info_.daemon_pid) + "/children";
    std::ifstream children(task);
    for (pid_t pid = 0; children >> pid;) pids.push_back(pid);
    return pids;
  }

  DiskOptions options_;
  DiskInfo info_;
  std::string mountpoint_;
  int device_fd_ = -1;
  void* buffer_ = MAP_FAILED;
};

}  // namespace stalltrace::disk

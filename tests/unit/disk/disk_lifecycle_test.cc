// Creation, listing and destruction, also after a crash.
#include <linux/loop.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <csignal>
#include <functional>

#include "tests/unit/disk/disk_fixture.h"

namespace stalltrace::disk {
namespace {

using DiskLife = DiskFixture;

TEST_F(DiskLife, ABrokenScheduleMakesNoDisk) {
  write_schedule("1s 2s flush 300ms\n1s 2s flash 300ms\n");
  try {
    make();
    FAIL() << "took a broken schedule";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
  expect_nothing_left({});
}

TEST_F(DiskLife, ANameIsTakenOnce) {
  make();
  const std::string truth = slurp(options_.truth_path);
  try {
    create(options_);
    FAIL() << "made a second disk of the same name";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
  }
  EXPECT_EQ(find(options_.name).daemon_pid, info_.daemon_pid);
  settle_truth(options_.name);
  EXPECT_EQ(slurp(options_.truth_path).compare(0, truth.size(), truth), 0);
}

TEST_F(DiskLife, IsListedWithItsMounts) {
  options_.flush_ns = kMs;
  make();
  make_file_system();
  const DiskInfo listed = find(options_.name);
  EXPECT_EQ(listed.device, info_.device);
  EXPECT_EQ(listed.kdev, info_.kdev);
  EXPECT_EQ(listed.size_bytes, options_.size_bytes);
  EXPECT_EQ(listed.flush_ns, kMs);
  EXPECT_EQ(listed.truth_path, options_.truth_path);
  EXPECT_EQ(listed.mountpoints, std::vector<std::string>{mountpoint_});
  EXPECT_EQ(listed.state, DiskState::kServing);
}

TEST_F(DiskLife, DestroyUnmountsAndLeavesNothing) {
  make();
  make_file_system();
  std::ofstream(mountpoint_ + "/file") << std::string(kMiB, 'x');
  const auto pids = processes();
  ASSERT_EQ(pids.size(), 2U);  // the server and the log's writer
  destroy(options_.name);
  expect_nothing_left(pids);
  EXPECT_THROW(destroy(options_.name), Error);
}

TEST_F(DiskLife, DestroyWaitsForAFlushUnderWay) {
  options_.flush_ns = 700 * kMs;
  make();
  open_device();
  write_block(0, 1);
  const pid_t child = fork();
  if (child == 0) _exit(fdatasync(device_fd_) == 0 ? 0 : errno);
  close(device_fd_);
  device_fd_ = -1;
  sleep_ns(200 * kMs);
  destroy(options_.name);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the flush failed";
  expect_nothing_left({info_.daemon_pid});
  const auto rows = read_truth(options_.truth_path);
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const TruthRow& row) {
    return row.op == "flush" && row.end_ns - row.start_ns >= 700 * kMs;
  }));
}

TEST_F(DiskLife, AKilledServerLeavesNothingThatDestroyCannotRemove) {
  make();
  make_file_system();
  std::ofstream(mountpoint_ + "/file") << std::string(kMiB, 'x');
  const auto pids = processes();
  ASSERT_EQ(kill(info_.daemon_pid, SIGKILL), 0);
  while (is_alive(identify(info_.daemon_pid))) sleep_ns(kMs);
  EXPECT_EQ(find(options_.name).state, DiskState::kDead);
  destroy(options_.name);
  expect_nothing_left(pids);
}

// What was answered is in the log: the copier outlives the server.
TEST_F(DiskLife, AKilledServerLosesNoLineOfTheLog) {
  make();
  open_device();
  constexpr off_t kWrites = 500;
  const uint64_t begin_ns = monotonic_ns();
  for (off_t i = 0; i < kWrites; ++i) write_block(i * static_cast<off_t>(kBlock), 1);
  ASSERT_EQ(kill(info_.daemon_pid, SIGKILL), 0);
  close(device_fd_);
  device_fd_ = -1;
  destroy(options_.name);
  off_t seen = 0;
  for (const TruthRow& row : read_truth(options_.truth_path)) {
    if (row.op != "write" || row.start_ns < begin_ns) continue;
    EXPECT_EQ(row.offset, static_cast<uint64_t>(seen) * kBlock);
    ++seen;
  }
  EXPECT_EQ(seen, kWrites);
}

TEST_F(DiskLife, AGapInTheTruthLogIsTold) {
  std::filesystem::create_directory(mountpoint_);
  ASSERT_EQ(mount("none", mountpoint_.c_str(), "tmpfs", 0, "size=16k"), 0) << std::strerror(errno);
  options_.truth_path = mountpoint_ + "/truth.csv";
  make();
  open_device();
  for (off_t i = 0; i < 1000; ++i) write_block(i * static_cast<off_t>(kBlock), 1);
  close(device_fd_);
  device_fd_ = -1;
  std::string notices;
  destroy(options_.name, [&](const std::string& text) { notices += text + "\n"; });
  EXPECT_NE(notices.find("No space left"), std::string::npos) << notices;
  ASSERT_EQ(umount(mountpoint_.c_str()), 0) << std::strerror(errno);
}

TEST_F(DiskLife, AStoppedServerDoesNotHoldUpDestroy) {
  make();
  make_file_system();
  std::ofstream(mountpoint_ + "/file") << std::string(kMiB, 'x');
  ASSERT_EQ(kill(info_.daemon_pid, SIGSTOP), 0);
  const uint64_t begin_ns = monotonic_ns();
  destroy(options_.name);
  EXPECT_LT(monotonic_ns() - begin_ns, 20'000 * kMs);
  expect_nothing_left({info_.daemon_pid});
}

TEST_F(DiskLife, WhoHoldsTheDeviceIsNamedAndALaterDestroyFinishes) {
  make();
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(info_.device.c_str(), O_RDONLY | O_CLOEXEC);
    pause();
    _exit(fd);
  }
  sleep_ns(100 * kMs);
  try {
    destroy(options_.name);
    ADD_FAILURE() << "destroyed a disk that is in use";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailed);
    EXPECT_NE(std::string(error.what()).find("[" + std::to_string(child) + "]"), std::string::npos)
        << error.what();
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  destroy(options_.name);
  expect_nothing_left({info_.daemon_pid});
}

TEST_F(DiskLife, ABusyMountIsUnmountedLazilyAndItsHolderNamed) {
  make();
  make_file_system();
  const pid_t child = fork();
  if (child == 0) {
    if (chdir(mountpoint_.c_str()) == 0) pause();
    _exit(1);
  }
  sleep_ns(100 * kMs);
  std::string notices;
  EXPECT_THROW(destroy(options_.name, [&](const std::string& text) { notices += text + "\n"; }),
               Error);
  EXPECT_NE(notices.find("[" + std::to_string(child) + "]"), std::string::npos) << notices;
  EXPECT_TRUE(find(options_.name).mountpoints.empty());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  destroy(options_.name);
  expect_nothing_left({info_.daemon_pid});
}

// The loop device stays, as somebody else uses it by now: with the settings of a new one.
TEST_F(DiskLife, ADeviceThatSomebodyTookOverGetsItsSettingsBack) {
  options_.nr_requests = 32;
  options_.scheduler = "mq-deadline";
  make();
  const int other = memfd_create("other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(other, kMiB), 0);
  const int loop = open(info_.device.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(ioctl(loop, LOOP_CLR_FD, 0), 0);
  close(loop);
  const int again = open(info_.device.c_str(), O_RDWR | O_CLOEXEC);
  loop_config config{};
  config.fd = static_cast<__u32>(other);
  ASSERT_EQ(ioctl(again, LOOP_CONFIGURE, &config), 0) << std::strerror(errno);
  EXPECT_EQ(queue("nr_requests"), "32");
  destroy(options_.name);
  EXPECT_NE(queue("nr_requests"), "32");
  EXPECT_EQ(queue("scheduler").find("[mq-deadline]"), std::string::npos);
  EXPECT_NE(queue("wbt_lat_usec"), "0");
  EXPECT_EQ(ioctl(again, LOOP_CLR_FD, 0), 0);
  close(again);
  close(other);
  const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  const int number = std::stoi(info_.device.substr(9));
  EXPECT_EQ(ioctl(control, LOOP_CTL_REMOVE, number), 0) << std::strerror(errno);
  close(control);
}

TEST_F(DiskLife, OptionsThatCannotBeAreRefusedBeforeAnythingIsMade) {
  const auto code_of = [](const DiskOptions& options) {
    try {
      create(options);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kOk;
  };
  for (const auto& change : std::vector<std::function<void(DiskOptions&)>>{
           [](DiskOptions& o) { o.name = "a/b"; }, [](DiskOptions& o) { o.size_bytes = 4095; },
           [](DiskOptions& o) { o.size_bytes = kMiB + 512; },
           [](DiskOptions& o) { o.block_size = 1000; },
           [](DiskOptions& o) { o.schedule_path = "/nonexistent"; },
           [](DiskOptions& o) { o.truth_path = "/nonexistent/truth"; },
           [](DiskOptions& o) { o.truth_path = "/dev/null"; }}) {
    DiskOptions options = options_;
    change(options);
    EXPECT_EQ(code_of(options), ExitCode::kUsage);
    expect_nothing_left({});
  }
  DiskOptions options = options_;
  options.scheduler = "nonsense";
  EXPECT_EQ(code_of(options), ExitCode::kUsage);
  expect_nothing_left({});
}

}  // namespace
}  // namespace stalltrace::disk

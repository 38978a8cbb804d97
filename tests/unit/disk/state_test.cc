#include "workloads/disk/state.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "userspace/base/error.h"

namespace stalltrace::disk {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class State : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/disk-state-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    root_ = base_ + "/run/disks";
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  std::string base_;
  std::string root_;
};

DiskRecord sample() {
  DiskRecord record;
  record.options.name = "slow-1";
  record.options.size_bytes = 1ULL << 40;
  record.options.read_ns = 1;
  record.options.write_ns = 22;
  record.options.flush_ns = 333;
  record.options.profile = "hdd7200";
  record.options.cache = Cache::kVolatile;
  record.options.lie_one_in = 50;
  record.options.seed = 1234567890123456789;
  record.options.schedule_path = "/tmp/a b\"c";
  record.options.truth_path = "/tmp/truth";
  record.options.block_size = 4096;
  record.options.scheduler = "mq-deadline";
  record.options.nr_requests = 64;
  record.options.wbt_lat_us = 2000;
  record.boot_id = "boot";
  record.ready = true;
  record.loop = 11;
  record.node_made = true;
  record.old_settings = QueueSettings{"write through", "none", 128, 75000};
  return record;
}

TEST(DiskName, AllowsWhatAFolderAndAShellAllow) {
  for (const char* name : {"a", "slow", "A-b_c.9", "9", "x-"}) EXPECT_NO_THROW(check_name(name));
  EXPECT_NO_THROW(check_name(std::string(64, 'x')));
}

TEST(DiskName, RefusesTheRest) {
  for (const char* name :
       {"", ".", "..", ".x", "-x", "a/b", "a b", "a\n", "\xc3\xa4", "a,b", "$x"}) {
    EXPECT_THROW(check_name(name), Error) << name;
  }
  EXPECT_THROW(check_name(std::string(65, 'x')), Error);
}

TEST_F(State, TheRecordsComeBackAsTheyWere) {
  const auto lock = FolderLock::make(root_, "slow-1", kSecond);
  const StateFolder folder(root_, "slow-1");
  EXPECT_FALSE(folder.read_disk());
  EXPECT_FALSE(folder.read_daemon());
  const DiskRecord written = sample();
  folder.write(written);
  folder.write(DaemonRecord{{12, 34}, {56, 78}, 910, false});

  const auto read = folder.read_disk();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->options.name, "slow-1");
  EXPECT_EQ(read->options.size_bytes, 1ULL << 40);
  EXPECT_EQ(read->options.read_ns, 1U);
  EXPECT_EQ(read->options.write_ns, 22U);
  EXPECT_EQ(read->options.flush_ns, 333U);
  EXPECT_EQ(read->options.profile, "hdd7200");
  EXPECT_EQ(read->options.cache, Cache::kVolatile);
  EXPECT_EQ(read->options.lie_one_in, 50U);
  EXPECT_EQ(read->options.seed, 1234567890123456789U);
  EXPECT_EQ(read->options.schedule_path, "/tmp/a b\"c");
  EXPECT_EQ(read->options.truth_path, "/tmp/truth");
  EXPECT_EQ(read->options.block_size, 4096U);
  EXPECT_EQ(read->options.scheduler, "mq-deadline");
  EXPECT_EQ(read->options.nr_requests, 64U);
  EXPECT_EQ(read->options.wbt_lat_us, 2000U);
  EXPECT_EQ(read->boot_id, "boot");
  EXPECT_TRUE(read->ready);
  EXPECT_EQ(read->loop, 11);
  EXPECT_TRUE(read->node_made);
  EXPECT_EQ(read->old_settings, written.old_settings);

  const auto daemon = folder.read_daemon();
  ASSERT_TRUE(daemon);
  EXPECT_EQ(daemon->daemon.pid, 12);
  EXPECT_EQ(daemon->daemon.start_ticks, 34U);
  EXPECT_EQ(daemon->logger.pid, 56);
  EXPECT_EQ(daemon->logger.start_ticks, 78U);
  EXPECT_EQ(daemon->created_monotonic_ns, 910U);
  EXPECT_FALSE(daemon->has_power);
}

TEST_F(State, ADiskWithoutSavedSettingsComesBackWithoutThem) {
  DiskRecord record = sample();
  record.old_settings.reset();
  EXPECT_EQ(disk_record_from_json(to_json(record)).old_settings, std::nullopt);
  record.old_settings = QueueSettings{"write back", "none", 128, std::nullopt};
  EXPECT_EQ(disk_record_from_json(to_json(record)).old_settings, record.old_settings);
}

TEST_F(State, TimesThatWereNotChosenComeBackSo) {
  DiskRecord record = sample();
  record.options.flush_ns.reset();
  record.options.cache.reset();
  const DiskRecord read = disk_record_from_json(to_json(record));
  EXPECT_EQ(read.options.flush_ns, std::nullopt);
  EXPECT_EQ(read.options.write_ns, 22U);
  EXPECT_EQ(read.options.cache, std::nullopt);
}

TEST_F(State, OnlyItsOwnerReadsIt) {
  const auto lock = FolderLock::make(root_, "x", kSecond);
  const StateFolder folder(root_, "x");
  folder.write(sample());
  struct stat status {};
  ASSERT_EQ(stat((folder.path() + "/state.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  ASSERT_EQ(stat(folder.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700U);
}

TEST_F(State, ADamagedFileIsToldWithItsName) {
  const auto lock = FolderLock::make(root_, "x", kSecond);
  const StateFolder folder(root_, "x");
  std::ofstream(folder.path() + "/state.json") << "{\"name\": ";
  try {
    static_cast<void>(folder.read_disk());
    FAIL() << "read a damaged file";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailed);
    EXPECT_NE(std::string(error.what()).find("/x/state.json"), std::string::npos);
  }
}

TEST_F(State, RemovingLeavesNeitherTheFolderNorAnEmptyRoot) {
  const auto lock = FolderLock::make(root_, "x", kSecond);
  const StateFolder folder(root_, "x");
  folder.write(sample());
  folder.write(DaemonRecord{});
  std::filesystem::create_directory(folder.mount_folder());
  folder.remove();
  EXPECT_FALSE(std::filesystem::exists(root_));
}

TEST_F(State, RemovingKeepsOtherDisks) {
  const auto lock = FolderLock::make(root_, "x", kSecond);
  const auto other = FolderLock::make(root_, "y", kSecond);
  EXPECT_EQ(list_names(root_), (std::vector<std::string>{"x", "y"}));
  StateFolder(root_, "x").remove();
  EXPECT_EQ(list_names(root_), std::vector<std::string>{"y"});
}

TEST_F(State, TheLockIsForOneAtATime) {
  {
    const auto lock = FolderLock::make(root_, "x", kSecond);
    EXPECT_THROW(FolderLock::take(root_, "x", kSecond / 20), Error);
    EXPECT_NO_THROW(FolderLock::make(root_, "y", kSecond / 20));
  }
  EXPECT_TRUE(FolderLock::take(root_, "x", kSecond));
  EXPECT_FALSE(FolderLock::take(root_, "z", kSecond));
}

TEST_F(State, WhoWaitedForAFolderThatWasRemovedLocksNoGhost) {
  std::optional<FolderLock> first(FolderLock::make(root_, "x", kSecond));
  bool locked = true;
  std::thread waiter([&] { locked = FolderLock::take(root_, "x", 20 * kSecond).has_value(); });
  sleep_ns(kSecond / 10);
  StateFolder(root_, "x").remove();
  first.reset();
  waiter.join();
  EXPECT_FALSE(locked);
}

TEST(Process, IsKnownByItsStartToo) {
  const ProcessId self = identify(getpid());
  EXPECT_GT(self.start_ticks, 0U);
  EXPECT_TRUE(is_alive(self));
  EXPECT_FALSE(is_alive({self.pid, self.start_ticks + 1}));
  EXPECT_FALSE(is_alive(ProcessId{}));
}

TEST(Process, AZombieIsGone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  const ProcessId id = identify(child);
  EXPECT_TRUE(wait_gone(id, 10 * kSecond));
  EXPECT_FALSE(is_alive(id));
}

}  // namespace
}  // namespace stalltrace::disk

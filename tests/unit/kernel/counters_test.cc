#include "userspace/kernel/counters.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "userspace/base/error.h"
#include "userspace/kernel/devices.h"

namespace stalltrace::kernel {
namespace {

JournalInfo info_of(const std::string& text) {
  std::istringstream stream(text);
  return parse_journal_info(stream);
}

std::optional<DiskStats> stats_of(const std::string& text, uint32_t kdev) {
  std::istringstream stream(text);
  return parse_disk_stats(stream, kdev);
}

TEST(JournalInfo, BeforeAndAfterTheFirstCommit) {
  JournalInfo fresh = info_of("0 transactions (0 requested), each up to 1024 blocks\n");
  EXPECT_EQ(fresh.transactions, 0U);
  EXPECT_FALSE(fresh.average_commit_us);

  JournalInfo used = info_of(
      "8841 transactions (8702 requested), each up to 8192 blocks\n"
      "average: \n"
      "  0ms waiting for transaction\n"
      "  0ms request delay\n"
      "  1284ms running transaction\n"
      "  4ms transaction was being locked\n"
      "  0ms flushing data (in ordered mode)\n"
      "  20ms logging transaction\n"
      "  21387us average transaction commit time\n"
      "  12 handles per transaction\n"
      "  5 blocks per transaction\n"
      "  6 logged blocks per transaction\n");
  EXPECT_EQ(used.transactions, 8841U);
  EXPECT_EQ(used.requested, 8702U);
  EXPECT_EQ(used.average_commit_us, 21387U);
}

TEST(JournalInfo, OtherTextIsAnError) {
  EXPECT_THROW(info_of(""), Error);
  EXPECT_THROW(info_of("transactions\n"), Error);
  EXPECT_THROW(info_of("12 apples (3 requested)\n"), Error);
  EXPECT_THROW(jbd2_transactions("no-such-journal"), Error);
}

// Fields as Documentation/admin-guide/iostats.rst numbers them.
TEST(DiskStats, AllGenerations) {
  const char* text =
      "   8       0 sda 11 12 13 14 15 16 17 18 19 20 21\n"                        // until 4.17
      "   8      16 sdb 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25\n"            // 4.18
      " 259       0 nvme0n1 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27\n"  // 5.5
      " 259       1 nvme0n1p1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 0 99 98\n";    // the future
  auto oldest = stats_of(text, make_kdev(8, 0));
  ASSERT_TRUE(oldest);
  EXPECT_EQ(oldest->reads, 11U);
  EXPECT_EQ(oldest->read_sectors, 13U);
  EXPECT_EQ(oldest->read_ms, 14U);
  EXPECT_EQ(oldest->writes, 15U);
  EXPECT_EQ(oldest->write_sectors, 17U);
  EXPECT_EQ(oldest->write_ms, 18U);
  EXPECT_EQ(oldest->in_flight, 19U);
  EXPECT_EQ(oldest->io_ms, 20U);
  EXPECT_FALSE(oldest->flushes);
  EXPECT_FALSE(stats_of(text, make_kdev(8, 16))->flushes);
  auto newest = stats_of(text, make_kdev(259, 0));
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->flushes, 26U);
  EXPECT_EQ(newest->flush_ms, 27U);
  EXPECT_EQ(stats_of(text, make_kdev(259, 1))->flushes, 0U);
  EXPECT_FALSE(stats_of(text, make_kdev(259, 2)));
  EXPECT_THROW(stats_of("8 0 sda 1 2 3\n", make_kdev(8, 0)), Error);
}

TEST(DiskStats, AgreesWithTheFile) {
  std::ifstream file("/proc/diskstats");
  uint32_t major = 0;
  uint32_t minor = 0;
  std::string name;
  if (!(file >> major >> minor >> name)) GTEST_SKIP() << "no block device here";
  std::vector<uint64_t> fields;
  std::string rest;
  std::getline(file, rest);
  std::istringstream words(rest);
  for (uint64_t field = 0; words >> field;) fields.push_back(field);
  DiskStats stats = disk_stats(make_kdev(major, minor));
  // Counters only grow.
  EXPECT_GE(stats.reads, fields.at(0));
  EXPECT_GE(stats.writes, fields.at(4));
  if (fields.size() >= 17) {
    EXPECT_GE(stats.flushes.value(), fields.at(15));
  }
  EXPECT_THROW(disk_stats(make_kdev(4095, 77)), Error);
}

TEST(Self, CpuTimeFollowsTheClock) {
  double before = self_cpu_s();
  std::clock_t clock_before = std::clock();
  volatile uint64_t sum = 0;
  while (std::clock() - clock_before < CLOCKS_PER_SEC / 10) {
    for (int i = 0; i < 1000; ++i) sum = sum + 1;
  }
  double used = self_cpu_s() - before;
  EXPECT_GE(used, 0.095);
  EXPECT_LT(used, 0.2);
}

TEST(Self, MemoryAgreesWithStatus) {
  auto status_kib = [] {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("VmRSS:")) return std::stod(line.substr(6));
    }
    return 0.0;
  };
  EXPECT_NEAR(self_rss_mib(), status_kib() / 1024, 2);
}

}  // namespace
}  // namespace stalltrace::kernel

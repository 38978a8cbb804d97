// Power cuts, lies and profiles on a real disk, seen through the kernel.
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <thread>

#include "tests/unit/disk/disk_fixture.h"

namespace stalltrace::disk {
namespace {

class DiskCut : public DiskFixture {
 protected:
  void SetUp() override {
    DiskFixture::SetUp();
    options_.cache = Cache::kVolatile;
  }

  void reopen() {
    close(device_fd_);
    device_fd_ = -1;
    munmap(buffer_, kBlock);
    open_device();
  }

  // The value of a block that write_block() wrote.
  int value_at(off_t offset) {
    EXPECT_EQ(pread(device_fd_, buffer_, kBlock, offset), static_cast<ssize_t>(kBlock))
        << std::strerror(errno);
    return *static_cast<unsigned char*>(buffer_);
  }

  static off_t block(int number) { return number * static_cast<off_t>(kBlock); }
};

TEST_F(DiskCut, EverythingFailsUntilThePowerIsBackAndFlushedBlocksSurvive) {
  make();
  open_device();
  for (int i = 0; i < 50; ++i) write_block(block(i), 1);
  ASSERT_GT(timed_flush().length_ns(), 0U);
  for (int i = 0; i < 50; ++i) write_block(block(i), 2);
  const uint64_t before_ns = monotonic_ns();
  const CutOutcome outcome = cut(options_.name, 17);
  EXPECT_GT(outcome.at_ns, before_ns);
  EXPECT_LT(outcome.at_ns, monotonic_ns());
  EXPECT_EQ(outcome.seed, 17U);
  EXPECT_EQ(outcome.writes_dropped + outcome.writes_kept, 50U);
  EXPECT_EQ(find(options_.name).state, DiskState::kCut);
  EXPECT_EQ(pread(device_fd_, buffer_, kBlock, 0), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(pwrite(device_fd_, buffer_, kBlock, 0), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(fdatasync(device_fd_), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_THROW(cut(options_.name), Error);

  close(device_fd_);
  device_fd_ = -1;
  munmap(buffer_, kBlock);
  power_on(options_.name);
  EXPECT_THROW(power_on(options_.name), Error);
  EXPECT_EQ(find(options_.name).state, DiskState::kServing);
  open_device();
  uint64_t old = 0;
  for (int i = 0; i < 50; ++i) {
    const int value = value_at(block(i));
    EXPECT_TRUE(value == 1 || value == 2) << value;
    old += value == 1 ? 1 : 0;
  }
  EXPECT_EQ(old, outcome.writes_dropped);
  EXPECT_GT(old, 0U);
}

TEST_F(DiskCut, ARequestUnderWayFailsAtOnce) {
  options_.flush_ns = 3'000 * kMs;
  make();
  open_device();
  write_block(0, 1);
  uint64_t end_ns = 0;
  int result = 0;
  std::thread flusher([&] {
    result = fdatasync(device_fd_);
    end_ns = monotonic_ns();
  });
  sleep_ns(200 * kMs);
  const CutOutcome outcome = cut(options_.name);
  flusher.join();
  EXPECT_EQ(result, -1);
  EXPECT_EQ(outcome.flushes_in_flight, 1U);
  EXPECT_EQ(outcome.writes_dropped, 1U);
  EXPECT_LT(end_ns - outcome.at_ns, 1000 * kMs);
  power_on(options_.name);
  reopen();
  EXPECT_EQ(value_at(0), 0);
}

TEST_F(DiskCut, ACutWaitsForSomethingToLose) {
  make();
  open_device();
  write_block(0, 1);
  ASSERT_GT(timed_flush().length_ns(), 0U);
  std::thread writer([&] {
    sleep_ns(300 * kMs);
    write_block(0, 2);
  });
  const uint64_t begin_ns = monotonic_ns();
  const CutOutcome outcome = cut(options_.name, {}, 5000 * kMs);
  writer.join();
  EXPECT_GE(outcome.at_ns - begin_ns, 250 * kMs);
  EXPECT_EQ(outcome.writes_dropped, 1U);
}

TEST_F(DiskCut, WithoutACacheNothingCompletedIsLost) {
  options_.cache = Cache::kOff;
  make();
  open_device();
  for (int i = 0; i < 20; ++i) write_block(block(i), 3);
  const CutOutcome outcome = cut(options_.name);
  EXPECT_EQ(outcome.writes_dropped + outcome.writes_kept, 0U);
  power_on(options_.name);
  reopen();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(value_at(block(i)), 3);
}

TEST_F(DiskCut, ADiskThatAlwaysLiesAnswersAtOnceAndLosesFlushedBlocks) {
  options_.lie_one_in = 1;
  options_.flush_ns = 5'000 * kMs;
  make();
  open_device();
  for (int i = 0; i < 20; ++i) write_block(block(i), 4);
  EXPECT_LT(timed_flush().length_ns(), 1000 * kMs);
  EXPECT_GT(cut(options_.name).writes_dropped, 0U);
}

TEST_F(DiskCut, ADiskThatLiesNowAndThenDoesSoAboutAsOftenAsAsked) {
  options_.lie_one_in = 10;
  options_.flush_ns = 10 * kMs;
  make();
  open_device();
  const uint64_t begin_ns = monotonic_ns();
  for (int i = 0; i < 300; ++i) {
    write_block(block(i), 4);
    ASSERT_GT(timed_flush().length_ns(), 0U);
  }
  settle_truth(options_.name);
  // Each has its line, the lies too: they are the quick ones.
  uint64_t flushes = 0;
  uint64_t lies = 0;
  for (const TruthRow& row : read_truth(options_.truth_path)) {
    if (row.op != "flush" || row.start_ns < begin_ns) continue;
    ++flushes;
    lies += row.end_ns - row.start_ns < *options_.flush_ns ? 1 : 0;
  }
  EXPECT_EQ(flushes, 300U);
  EXPECT_GE(lies, 10U);
  EXPECT_LE(lies, 60U);
  // What they skipped can be lost, and no more.
  const CutOutcome outcome = cut(options_.name);
  EXPECT_EQ(outcome.writes_dropped + outcome.writes_kept, lies);
  EXPECT_GE(outcome.writes_dropped, 1U);
}

TEST_F(DiskCut, DrainedIsSafeEvenOnADiskThatLies) {
  options_.lie_one_in = 1;
  make();
  open_device();
  write_block(0, 5);
  drain_cache(options_.name);
  EXPECT_EQ(cut(options_.name).writes_dropped, 0U);
}

TEST_F(DiskCut, NoFlushReachesAWriteThroughDisk) {
  options_.cache.reset();
  options_.profile = "ssd-plp";
  make();
  EXPECT_EQ(queue("write_cache"), "write through");
  EXPECT_TRUE(info_.write_through);
  open_device();
  const uint64_t begin_ns = monotonic_ns();
  for (int i = 0; i < 20; ++i) {
    write_block(block(i), 1);
    ASSERT_GT(timed_flush().length_ns(), 0U);
  }
  settle_truth(options_.name);
  std::vector<uint64_t> writes;
  for (const TruthRow& row : read_truth(options_.truth_path)) {
    if (row.start_ns < begin_ns) continue;
    EXPECT_NE(row.op, "flush");
    if (row.op == "write") writes.push_back(row.end_ns - row.start_ns);
  }
  ASSERT_GE(writes.size(), 20U);
  std::sort(writes.begin(), writes.end());
  EXPECT_GE(writes.front(), 25'000U);
  EXPECT_LE(writes[writes.size() / 2], 150'000U);
}

TEST_F(DiskCut, AProfilesFlushesTakeTheirTimeAndTheLogSaysSo) {
  options_.cache.reset();
  options_.profile = "ssd-consumer";
  make();
  EXPECT_EQ(queue("write_cache"), "write back");
  open_device();
  std::vector<Span> calls;
  for (int i = 0; i < 100; ++i) {
    write_block(block(i), 1);
    calls.push_back(timed_flush());
  }
  settle_truth(options_.name);
  std::vector<uint64_t> flushes;
  for (const TruthRow& row : read_truth(options_.truth_path)) {
    const auto in_call = [&](const Span& call) {
      return row.start_ns >= call.begin_ns && row.end_ns <= call.end_ns;
    };
    if (row.op == "flush" && std::any_of(calls.begin(), calls.end(), in_call)) {
      flushes.push_back(row.end_ns - row.start_ns);
    }
  }
  ASSERT_EQ(flushes.size(), 100U);
  std::sort(flushes.begin(), flushes.end());
  EXPECT_GE(flushes.front(), 1 * kMs);
  EXPECT_NEAR(static_cast<double>(flushes[50]) / 1e6, 2.6, 0.8);
}

TEST_F(DiskCut, TheScheduleOverridesAProfile) {
  options_.profile = "hdd7200";
  write_schedule("0 1h flush 200ms\n");
  make();
  open_device();
  write_block(0, 1);
  const uint64_t flush_ns = timed_flush().length_ns();
  EXPECT_GE(flush_ns, 200 * kMs);
  EXPECT_LT(flush_ns, 400 * kMs);
}

TEST_F(DiskCut, ADiskWithoutPowerCanBeDestroyedWhileMounted) {
  make();
  make_file_system();
  std::ofstream(mountpoint_ + "/file") << "text";
  const auto processes = this->processes();
  cut(options_.name);
  destroy(options_.name);
  expect_nothing_left(processes);
}

}  // namespace
}  // namespace stalltrace::disk

// What the disk does with requests.
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>

#include "tests/unit/disk/disk_fixture.h"

namespace stalltrace::disk {
namespace {

using Disk = DiskFixture;

TEST_F(Disk, IsADirectLoopDeviceWithTheQueueAskedFor) {
  options_.nr_requests = 64;
  make();
  EXPECT_EQ(queue("write_cache"), "write back");
  EXPECT_NE(queue("scheduler").find("[none]"), std::string::npos);
  EXPECT_EQ(queue("nr_requests"), "64");
  EXPECT_TRUE(queue("wbt_lat_usec") == "0" || queue("wbt_lat_usec").empty());
  EXPECT_EQ(queue("logical_block_size"), "512");
  const std::string block = "/sys/block/" + info_.device.substr(5);
  EXPECT_EQ(line_of(block + "/loop/dio"), "1");
  EXPECT_EQ(line_of(block + "/size"), std::to_string(options_.size_bytes / 512));
  EXPECT_EQ(line_of(block + "/dev"),
            std::to_string(info_.kdev >> 20) + ":" + std::to_string(info_.kdev & 0xfffff));
  EXPECT_EQ(info_.state, DiskState::kServing);
}

TEST_F(Disk, KeepsWhatIsWrittenAndReadsZerosElsewhere) {
  make();
  open_device();
  write_block(0, 0x11);
  write_block(200 * kMiB, 0x22);
  for (const auto& [offset, value] : std::vector<std::pair<off_t, int>>{
           {0, 0x11}, {kBlock, 0}, {200 * kMiB, 0x22}, {256 * kMiB - kBlock, 0}}) {
    ASSERT_EQ(pread(device_fd_, buffer_, kBlock, offset), static_cast<ssize_t>(kBlock));
    EXPECT_EQ(std::string(static_cast<char*>(buffer_), kBlock),
              std::string(kBlock, static_cast<char>(value)))
        << offset;
  }
}

TEST_F(Disk, DiscardReadsAsZerosAndGivesMemoryBack) {
  make();
  const auto resident_mib = [&] {
    std::ifstream statm("/proc/" + std::to_string(info_.daemon_pid) + "/statm");
    uint64_t total = 0;
    uint64_t resident = 0;
    statm >> total >> resident;
    return resident * kBlock / kMiB;
  };
  ASSERT_EQ(run_command("dd if=/dev/urandom of=" + info_.device +
                        " bs=1M count=64 oflag=direct status=none"),
            0);
  const uint64_t written_mib = resident_mib();
  EXPECT_GE(written_mib, 64U);
  open_device();
  std::array<uint64_t, 2> range{kMiB, 63 * kMiB};
  ASSERT_EQ(ioctl(device_fd_, BLKDISCARD, range.data()), 0) << std::strerror(errno);
  EXPECT_LE(resident_mib() + 60, written_mib);
  ASSERT_EQ(pread(device_fd_, buffer_, kBlock, 32 * kMiB), static_cast<ssize_t>(kBlock));
  EXPECT_EQ(std::string(static_cast<char*>(buffer_), kBlock), std::string(kBlock, '\0'));
  ASSERT_EQ(pread(device_fd_, buffer_, kBlock, 0), static_cast<ssize_t>(kBlock));
  EXPECT_NE(std::string(static_cast<char*>(buffer_), kBlock), std::string(kBlock, '\0'));
}

// The clock around the call and the log agree: no call is shorter than what the log says of it,
// and the middle one is longer by no more than what the way through the kernel takes.
TEST_F(Disk, AFlushTakesItsTimeAndTheLogSaysSo) {
  options_.flush_ns = 20 * kMs;
  make();
  open_device();
  std::vector<Span> calls;
  for (int i = 0; i < 20; ++i) {
    write_block(i * static_cast<off_t>(kBlock), i);
    calls.push_back(timed_flush());
  }
  settle_truth(options_.name);
  auto rows = read_truth(options_.truth_path);
  std::vector<uint64_t> differences;
  for (const Span& call : calls) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const TruthRow& candidate) {
      return candidate.op == "flush" && candidate.start_ns >= call.begin_ns &&
             candidate.end_ns <= call.end_ns;
    });
    ASSERT_NE(row, rows.end());
    EXPECT_GE(row->end_ns - row->start_ns, 20 * kMs);
    differences.push_back(call.length_ns() - (row->end_ns - row->start_ns));
  }
  std::sort(differences.begin(), differences.end());
  EXPECT_LE(differences[differences.size() / 2], kMs);  // 5 % of 20 ms
}

TEST_F(Disk, EveryRequestIsInTheLog) {
  options_.write_ns = 2 * kMs;
  options_.read_ns = 3 * kMs;
  make();
  open_device();
  const uint64_t begin_ns = monotonic_ns();
  for (off_t i = 0; i < 10; ++i) write_block((100 + i) * static_cast<off_t>(kBlock), 1);
  const uint64_t written_ns = monotonic_ns();
  for (off_t i = 0; i < 10; ++i) {
    ASSERT_EQ(pread(device_fd_, buffer_, kBlock, (100 + i) * static_cast<off_t>(kBlock)),
              static_cast<ssize_t>(kBlock));
  }
  const uint64_t end_ns = monotonic_ns();
  EXPECT_GE(written_ns - begin_ns, 20 * kMs);
  EXPECT_GE(end_ns - written_ns, 30 * kMs);
  settle_truth(options_.name);
  for (const char* op : {"write", "read"}) {
    std::vector<uint64_t> offsets;
    for (const TruthRow& row : read_truth(options_.truth_path)) {
      if (row.op != op || row.start_ns < begin_ns) continue;
      EXPECT_GE(row.end_ns - row.start_ns, op == std::string("write") ? 2 * kMs : 3 * kMs);
      EXPECT_EQ(row.bytes, kBlock);
      offsets.push_back(row.offset / kBlock);
    }
    EXPECT_EQ(offsets, (std::vector<uint64_t>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109}));
  }
}

// 100 writes of 20 ms each, sent together: a server with a thread per request or one at a time
// would need 2 s or its number of threads' share of it.
TEST_F(Disk, DelayedRequestsDoNotQueueBehindEachOther) {
  options_.write_ns = 20 * kMs;
  make();
  const std::string command = "dd if=/dev/zero of=" + info_.device +
                              " bs=4k count=100 conv=notrunc oflag=nonblock status=none; "
                              "blockdev --flushbufs " +
                              info_.device;
  ASSERT_EQ(run_command("echo 4 > /sys/block/" + info_.device.substr(5) + "/queue/max_sectors_kb"),
            0);
  const uint64_t begin_ns = monotonic_ns();
  ASSERT_EQ(run_command(command), 0);
  EXPECT_LT(monotonic_ns() - begin_ns, 1000 * kMs);
  settle_truth(options_.name);
  const auto rows = read_truth(options_.truth_path);
  EXPECT_GE(std::count_if(
                rows.begin(), rows.end(),
                [&](const TruthRow& row) { return row.op == "write" && row.start_ns > begin_ns; }),
            100);
}

TEST_F(Disk, TheScheduleHoldsInItsWindowOnly) {
  write_schedule("1s 2s flush 300ms\n");
  make();
  open_device();
  const auto at = [&](uint64_t ms) {
    const uint64_t due_ns = info_.created_monotonic_ns + ms * kMs;
    const uint64_t now_ns = monotonic_ns();
    if (due_ns > now_ns) sleep_ns(due_ns - now_ns);
  };
  EXPECT_LT(timed_flush().length_ns(), 250 * kMs);
  at(1050);
  write_block(0, 1);
  const Span slow = timed_flush();
  EXPECT_GE(slow.length_ns(), 300 * kMs);
  EXPECT_LT(slow.length_ns(), 500 * kMs);
  at(2050);
  write_block(0, 2);
  EXPECT_LT(timed_flush().length_ns(), 250 * kMs);
}

TEST_F(Disk, AScheduleIsReadAgainAndABrokenOneChangesNothing) {
  write_schedule("0 1h flush 200ms\n");
  make();
  open_device();
  EXPECT_GE(timed_flush().length_ns(), 200 * kMs);
  write_schedule("0 1h flush\n");
  try {
    reload_schedule(options_.name);
    FAIL() << "took a broken schedule";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("line 1"), std::string::npos) << error.what();
  }
  EXPECT_NE(slurp(info_.state_folder + "/log").find("line 1"), std::string::npos);
  EXPECT_GE(timed_flush().length_ns(), 200 * kMs);
  write_schedule("0 1h flush 0\n");
  reload_schedule(options_.name);
  EXPECT_LT(timed_flush().length_ns(), 150 * kMs);
}

}  // namespace
}  // namespace stalltrace::disk

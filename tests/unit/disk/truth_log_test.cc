#include "workloads/disk/truth_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

namespace stalltrace::disk {
namespace {

TEST(TruthLog, ALineIsFiveFields) {
  EXPECT_STREQ(kTruthHeader, "op,start_ns,end_ns,offset,bytes\n");
  EXPECT_EQ(format_truth_line({Op::kFlush, 1000, 2500, 0, 0}), "flush,1000,2500,0,0\n");
  EXPECT_EQ(format_truth_line({Op::kWrite, 1, 2, 4096, 65536}), "write,1,2,4096,65536\n");
  EXPECT_EQ(format_truth_line({Op::kRead, 1, 2, 0, 512}), "read,1,2,0,512\n");
  EXPECT_EQ(format_truth_line({Op::kDiscard, 1, 2, 0, 1ULL << 40}),
            "discard,1,2,0,1099511627776\n");
}

TEST(TruthLog, TheLongestLineIsWhole) {
  EXPECT_EQ(format_truth_line({Op::kDiscard, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}),
            "discard,18446744073709551615,18446744073709551615,18446744073709551615,"
            "18446744073709551615\n");
}

TEST(TruthLog, LinesOfManyThreadsReachTheFileWholeBeforeTheCopierEnds) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const int file = memfd_create("truth", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  std::thread copier([&] { copy_truth(ends[0], file); });
  const TruthWriter writer(ends[1]);
  std::vector<std::thread> threads;
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kLines = 5000;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&writer, thread] {
      for (uint64_t i = 0; i < kLines; ++i) writer.write({Op::kWrite, thread, i, 7, 7});
    });
  }
  for (auto& thread : threads) thread.join();
  close(ends[1]);
  copier.join();

  std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
  ASSERT_EQ(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  std::array<uint64_t, kThreads> next{};
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    unsigned long thread = 0;
    unsigned long number = 0;
    ASSERT_EQ(std::sscanf(text.c_str() + begin, "write,%lu,%lu,7,7\n", &thread, &number), 2);
    ASSERT_LT(thread, kThreads);
    EXPECT_EQ(number, next[thread]++);
    begin = end + 1;
  }
  EXPECT_EQ(begin, text.size());
  for (uint64_t count : next) EXPECT_EQ(count, kLines);
  close(ends[0]);
  close(file);
}

TEST(TruthLog, TheCopierGoesOnWhenTheFileTakesNoMore) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  std::thread copier([&] { copy_truth(ends[0], full); });
  const TruthWriter writer(ends[1]);
  // More than the pipe holds: a copier that had stopped would block this.
  for (uint64_t i = 0; i < 20'000; ++i) writer.write({Op::kFlush, i, i, 0, 0});
  close(ends[1]);
  copier.join();
  close(ends[0]);
  close(full);
}

}  // namespace
}  // namespace stalltrace::disk

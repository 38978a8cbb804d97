#include "userspace/kernel/thread_now.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace stalltrace::kernel {
namespace {

TEST(ThreadNow, FunctionsAreReadFromAProcStack) {
  const std::string text =
      "[<0>] blk_io_schedule+0x1a/0x30\n[<0>] __blkdev_direct_IO_simple.isra.0+0x1d/0x90\n"
      "[<0>] entry_SYSCALL_64_after_hwframe+0x76/0x7e\n";
  const std::vector<std::string_view> functions = functions_in(text);
  ASSERT_EQ(functions.size(), 3U);
  EXPECT_EQ(functions[0], "blk_io_schedule");
  EXPECT_EQ(functions[1], "__blkdev_direct_IO_simple");
  EXPECT_TRUE(functions_in("").empty());
  EXPECT_TRUE(functions_in("Operation not permitted\n").empty());
}

TEST(ThreadNow, OneThatLooksAtItselfRuns) {
  EXPECT_EQ(waits_for_now(getpid(), gettid(), true), WaitClass::kCpuRun);
}

TEST(ThreadNow, OneThatHasEndedSaysNothing) {
  EXPECT_EQ(waits_for_now(getpid(), 0x7ffffff0, true), std::nullopt);
}

}  // namespace
}  // namespace stalltrace::kernel

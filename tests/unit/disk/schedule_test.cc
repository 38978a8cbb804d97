#include "workloads/disk/schedule.h"

#include <gtest/gtest.h>

#include "tests/unit/disk/disk_fixture.h"
#include "userspace/base/error.h"

namespace stalltrace::disk {
namespace {

std::string error_of(const std::string& text) {
  try {
    Schedule::parse(text, "faults");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Schedule, ReadsLinesWithCommentsAndBlankLines) {
  const auto schedule = Schedule::parse(
      "# faults\n"
      "5s 5.5s flush 1.5s\n"
      "\n"
      "  0 250us\tread 10ms   # slow start\n",
      "faults");
  ASSERT_EQ(schedule.windows().size(), 2U);
  EXPECT_EQ(schedule.windows()[0].from_ns, 5000 * kMs);
  EXPECT_EQ(schedule.windows()[0].to_ns, 5500 * kMs);
  EXPECT_EQ(schedule.windows()[0].op, Op::kFlush);
  EXPECT_EQ(schedule.windows()[0].delay_ns, 1500 * kMs);
  EXPECT_EQ(schedule.windows()[1].from_ns, 0U);
  EXPECT_EQ(schedule.windows()[1].to_ns, 250'000U);
  EXPECT_EQ(schedule.windows()[1].op, Op::kRead);
}

TEST(Schedule, AWindowHoldsItsBeginningAndNotItsEnd) {
  const auto schedule = Schedule::parse("5s 5.5s flush 1.5s", "faults");
  EXPECT_EQ(schedule.delay_ns(Op::kFlush, 5000 * kMs - 1), std::nullopt);
  EXPECT_EQ(schedule.delay_ns(Op::kFlush, 5000 * kMs), 1500 * kMs);
  EXPECT_EQ(schedule.delay_ns(Op::kFlush, 5500 * kMs - 1), 1500 * kMs);
  EXPECT_EQ(schedule.delay_ns(Op::kFlush, 5500 * kMs), std::nullopt);
  EXPECT_EQ(schedule.delay_ns(Op::kWrite, 5200 * kMs), std::nullopt);
}

TEST(Schedule, TheLaterLineWinsAndZeroIsADelay) {
  const auto schedule = Schedule::parse("0 10s write 5ms\n2s 3s write 0\n", "faults");
  EXPECT_EQ(schedule.delay_ns(Op::kWrite, 1000 * kMs), 5 * kMs);
  EXPECT_EQ(schedule.delay_ns(Op::kWrite, 2500 * kMs), 0U);
  EXPECT_EQ(schedule.delay_ns(Op::kWrite, 3000 * kMs), 5 * kMs);
}

TEST(Schedule, ErrorsNameTheFileAndTheLine) {
  for (const char* text :
       {"1s 2s flush 1s\n1s 2s trim 1s\n", "\n1s 2s flush\n", "#\n2s 1s read 1s",
        "#\n1s 1s read 1s", "#\n1 2s read 1s", "#\n1s 2s read 1s 2s", "#\n1s -2s read 1s"}) {
    EXPECT_NE(error_of(text).find("faults line 2"), std::string::npos)
        << text << " gave: " << error_of(text);
    EXPECT_EQ(error_of(text).find('\n'), std::string::npos);
  }
}

TEST(Schedule, AFileThatCannotBeReadIsAUsageError) {
  EXPECT_THROW(Schedule::load("/nonexistent/faults"), Error);
  EXPECT_THROW(Schedule::load("/tmp"), Error);
}

TEST(Schedule, AnEmptyFileHasNoWindows) {
  EXPECT_TRUE(Schedule::parse("", "faults").windows().empty());
  EXPECT_TRUE(Schedule::load("/dev/null").windows().empty());
}

}  // namespace
}  // namespace stalltrace::disk

#include "userspace/base/units.h"

#include <gtest/gtest.h>

#include "userspace/base/error.h"

namespace stalltrace {
namespace {

TEST(Units, TimesNeedAUnit) {
  EXPECT_EQ(parse_time_ns("250us", "t"), 250'000u);
  EXPECT_EQ(parse_time_ns("10ms", "t"), 10'000'000u);
  EXPECT_EQ(parse_time_ns("1.5s", "t"), 1'500'000'000u);
  EXPECT_EQ(parse_time_ns("2m", "t"), 120'000'000'000u);
  EXPECT_EQ(parse_time_ns("0", "t"), 0u);
  for (const char* bad : {"", "10", "10 ms", "-1s", "1e3", "ms", "10parsec", "nan", "inf", "1e999s",
                          "999999999999s"}) {
    EXPECT_THROW(parse_time_ns(bad, "t"), Error) << bad;
  }
}

TEST(Units, SizesTakeFioSuffixes) {
  EXPECT_EQ(parse_size("64k", "s"), 65536u);
  EXPECT_EQ(parse_size("128M", "s"), 134217728u);
  EXPECT_EQ(parse_size("4GiB", "s"), 4294967296u);
  EXPECT_EQ(parse_size("512", "s"), 512u);
  EXPECT_EQ(parse_size("512b", "s"), 512u);
  for (const char* bad : {"", "k", "-4k", "4x", "4kk", "4bib", "99999999t"}) {
    EXPECT_THROW(parse_size(bad, "s"), Error) << bad;
  }
}

TEST(Units, TheErrorNamesTheOptionAndIsAUsageError) {
  try {
    parse_time_ns("5", "--runtime");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("--runtime"), std::string::npos);
  }
}

TEST(Units, TimesArePrintedWithThreeDigits) {
  EXPECT_EQ(format_time(0), "0 s");
  EXPECT_EQ(format_time(999), "999 ns");
  EXPECT_EQ(format_time(250'000), "250 us");
  EXPECT_EQ(format_time(12'340'000), "12.3 ms");
  EXPECT_EQ(format_time(1'860'000'000), "1.86 s");
  EXPECT_EQ(format_time(999'900'000), "1.00 s");  // never "1000 ms"
  EXPECT_EQ(format_size(4096), "4 KiB");
  EXPECT_EQ(format_size(1610612736), "1.5 GiB");
}

}  // namespace
}  // namespace stalltrace

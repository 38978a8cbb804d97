#include <gtest/gtest.h>

#include "tests/unit/report/checks.h"
#include "userspace/model/call_names.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/plain_words.h"

namespace stalltrace::report {
namespace {

TEST(CallNames, AreThoseOfTheContract) {
  const std::pair<const char*, wire::wire_call_kind> kinds[] = {
      {"io_submit", wire::CALL_IO_SUBMIT},
      {"io_uring_enter", wire::CALL_IO_URING_ENTER},
      {"uring_worker", wire::CALL_URING_WORKER},
      {"uring_sqpoll", wire::CALL_URING_SQPOLL},
      {"read", wire::CALL_READ},
      {"write", wire::CALL_WRITE},
      {"fsync", wire::CALL_FSYNC},
      {"fdatasync", wire::CALL_FDATASYNC},
      {"sync_file_range", wire::CALL_SYNC_FILE_RANGE},
      {"syncfs", wire::CALL_SYNCFS},
      {"sync", wire::CALL_SYNC},
      {"msync", wire::CALL_MSYNC},
      {"fallocate", wire::CALL_FALLOCATE},
      {"truncate", wire::CALL_TRUNCATE},
      {"open", wire::CALL_OPEN},
      {"unlink", wire::CALL_UNLINK},
      {"rename", wire::CALL_RENAME},
      {"mkdir", wire::CALL_MKDIR},
      {"rmdir", wire::CALL_RMDIR},
      {"link", wire::CALL_LINK},
      {"setattr", wire::CALL_SETATTR},
      {"xattr", wire::CALL_XATTR},
      {"fault", wire::CALL_FAULT},
      {"kworker", wire::CALL_KWORKER},
  };
  for (const auto& [name, kind] : kinds) {
    EXPECT_EQ(model::call_name(kind), name);
    EXPECT_EQ(model::call_kind_named(name), kind);
  }
  EXPECT_EQ(model::call_kind_named("teleport"), std::nullopt);
  EXPECT_EQ(model::call_kind_named("unknown"), std::nullopt);
  EXPECT_EQ(model::call_name(static_cast<wire::wire_call_kind>(31)), "unknown");
}

TEST(PlainWords, EveryNameHasAMeaning) {
  for (size_t i = 0; i < kernel::kWaitClassCount; ++i) {
    EXPECT_FALSE(meaning_of(static_cast<kernel::WaitClass>(i)).empty()) << i;
  }
  for (int i = 0; i <= static_cast<int>(blame::RootKind::kUnexplained); ++i) {
    auto kind = static_cast<blame::RootKind>(i);
    EXPECT_FALSE(meaning_of(kind).empty()) << i;
    EXPECT_FALSE(what_happened(kind, "loop0").empty()) << i;
    EXPECT_FALSE(what_happened(kind, "").empty()) << i;
  }
}

TEST(CleanText, InvalidBytesAreReplacedOneByOne) {
  EXPECT_EQ(valid_utf8("plain"), "plain");
  EXPECT_EQ(valid_utf8("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x92\xa9"), "grüß € 💩");
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a\uFFFDb");
  EXPECT_EQ(valid_utf8("\xc0\xaf"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(valid_utf8("\xe2\x82"), "\uFFFD\uFFFD");  // cut off
}

TEST(CleanText, EveryByteStringBecomesHarmless) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (uint32_t code = 0x80; code < 0x3000; ++code) {
    if (code < 0x800) {
      all += static_cast<char>(0xc0 | code >> 6);
    } else {
      all += static_cast<char>(0xe0 | code >> 12);
      all += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    }
    all += static_cast<char>(0x80 | (code & 0x3f));
  }
  for (bool utf8 : {false, true}) {
    std::string text = printable(all, utf8);
    std::vector<uint32_t> codes;
    ASSERT_TRUE(checks::decode_utf8(text, codes));
    for (uint32_t code : codes) {
      EXPECT_FALSE(code < 0x20 || (code >= 0x7f && code < 0xa0)) << code;
      EXPECT_FALSE(code >= 0x200e && code <= 0x200f) << "a direction mark";
      EXPECT_FALSE(code >= 0x2028 && code <= 0x202e) << "a line break or override";
      if (!utf8) {
        EXPECT_LT(code, 0x80U);
      }
    }
  }
  EXPECT_EQ(printable("\x1b[31m", true), "\\x1b[31m");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f", true), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(printable("gr\xc3\xbc", false), "gr\\xc3\\xbc");
}

TEST(CleanText, ColumnsAreThoseOfATerminal) {
  EXPECT_EQ(columns_of("plain"), 5U);
  EXPECT_EQ(columns_of("gr\xc3\xbc\xc3\x9f"), 4U);
  EXPECT_EQ(columns_of("\xe6\xbc\xa2\xe5\xad\x97"), 4U);  // two wide characters
  EXPECT_EQ(columns_of("e\xcc\x81"), 1U);                 // a combining accent
  EXPECT_EQ(first_columns("\xe6\xbc\xa2\xe5\xad\x97", 3), "\xe6\xbc\xa2");
  EXPECT_EQ(last_columns("\xe6\xbc\xa2\xe5\xad\x97", 3), "\xe5\xad\x97");
  EXPECT_EQ(last_columns("abcdef", 2), "ef");
  EXPECT_EQ(first_columns("abc", 10), "abc");
}

}  // namespace
}  // namespace stalltrace::report

#include "userspace/report/page.h"

#include <gtest/gtest.h>

namespace stalltrace::report {
namespace {

using enum Column::Align;

constexpr const char* kLongName = "syncfs-every=50ms barrier=0";

std::string table_at(size_t width, std::vector<Column> columns, size_t names) {
  Table table(std::move(columns), names);
  table.row({"fsync", "1", "10.0", "x1.00", "20.0", "x1.10"});
  table.row({kLongName, "32", "30.0", "", "40.0", "x2.00"});
  Page page({.width = width});
  table.print(page);
  return page.take();
}

std::vector<Column> six() {
  return {{"mode", kLeft, 0, true},
          {"threads"},
          {"files/s"},
          {.title = "to ours", .joined = true},
          {"syncs/s"},
          {.title = "gain", .joined = true}};
}

TEST(Table, FitsInOneBlock) {
  EXPECT_EQ(table_at(80, six(), 2),
            "  mode                         threads  files/s  to ours  syncs/s   gain\n"
            "  fsync                              1     10.0    x1.00     20.0  x1.10\n"
            "  syncfs-every=50ms barrier=0       32     30.0              40.0  x2.00\n");
}

// Nothing is left out, and what belongs together stays so.
TEST(Table, GoesOnBelowWithItsNames) {
  EXPECT_EQ(table_at(60, six(), 2),
            "  mode                         threads  files/s  to ours\n"
            "  fsync                              1     10.0    x1.00\n"
            "  syncfs-every=50ms barrier=0       32     30.0\n"
            "  mode                         threads  syncs/s   gain\n"
            "  fsync                              1     20.0  x1.10\n"
            "  syncfs-every=50ms barrier=0       32     40.0  x2.00\n");
}

TEST(Table, NamesAreCutWhereNothingElseFitsBesideThem) {
  std::vector<Column> columns = six();
  columns[2].title = "files/s by the load's own clock";
  std::string text = table_at(60, columns, 2);
  EXPECT_NE(text.find("x2.00"), std::string::npos) << text;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 60U) << text;
    begin = end + 1;
  }
}

}  // namespace
}  // namespace stalltrace::report

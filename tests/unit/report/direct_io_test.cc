// The sections of `run osync` and `run dio-matrix`, from JSON that may be anything.
#include <gtest/gtest.h>

#include "userspace/report/text.h"

namespace stalltrace::report {
namespace {

using nlohmann::json;

std::string text_of(const json& workload) {
  Report report;
  report.workload = workload;
  return to_text(report, {.width = 120, .color = false, .utf8 = false});
}

json matrix() {
  return {
      {"scenario", "dio-matrix"},
      {"targets",
       {{{"name", "raw"}, {"path", "/dev/sdx"}, {"device", "sdx"}},
        {{"name", "ext4"}, {"path", "/mnt/f"}, {"device", "sdy"}, {"fs", "ext4"}}}},
      {"cells",
       {{{"target", "raw"},
         {"test", "mixed"},
         {"bs", 65536},
         {"threads", 32},
         {"read_mb_per_s", 57.94},
         {"write_mb_per_s", 73.31}},
        {{"target", "ext4"},
         {"test", "mixed"},
         {"bs", 65536},
         {"threads", 32},
         {"read_mb_per_s", 0.1},
         {"write_mb_per_s", 80},
         {"readers_share", 0.00125},
         {"fairness", 0.0025},
         {"readers",
          {{"lock.inode", 0.97},
           {"queue", 0.01},
           {"device", 0.02},
           {"holders", {{{"who", "writers"}, {"doing", "write, block.write"}, {"share", 0.99}}}}}}},
        {{"target", "raw"},
         {"test", "read"},
         {"bs", 4096},
         {"threads", 1},
         {"read_mb_per_s", 12.3}}}},
      {"verdicts", {{{"about", "a against b"}, {"text", "no effect: x1"}}}}};
}

TEST(DirectIoText, TheMatrixHasTheReportsColumns) {
  const std::string text = text_of(matrix());
  EXPECT_NE(text.find("57.9/73.3"), std::string::npos) << text;
  EXPECT_NE(text.find("0.1/80.0"), std::string::npos) << text;
  EXPECT_NE(text.find("LinRd"), std::string::npos) << text;
  EXPECT_NE(text.find("97.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("writers (write, block.write) 99 %"), std::string::npos) << text;
  EXPECT_NE(text.find("a against b: no effect"), std::string::npos) << text;
}

TEST(DirectIoText, OsyncTellsItsVerdictAndWhoSharedAFlush) {
  const std::string text = text_of({{"scenario", "osync"},
                                    {"verdict", "serialized by the device's flush"},
                                    {"writes", 100},
                                    {"mb_per_s", 1.5},
                                    {"states", {{"flush", 0.9}, {"run", 0.1}}},
                                    {"flushes",
                                     {{"executed", 40},
                                      {"diskstats", 40},
                                      {"writers_per_flush", 2.5},
                                      {"empty", 100},
                                      {"after_writes", 100}}}});
  EXPECT_NE(text.find("serialized by the device's flush"), std::string::npos) << text;
  EXPECT_NE(text.find("2.50 writes per flush"), std::string::npos) << text;
  EXPECT_NE(text.find("flush 90.0 %"), std::string::npos) << text;
}

TEST(DirectIoText, FiguresOfAnyTypeAreNoReasonToFail) {
  const json odd[] = {nullptr, 1, "x", json::array({1, nullptr}), json::object({{"a", 1}})};
  for (const char* key : {"targets", "cells", "verdicts", "states", "waits", "writers", "flushes",
                          "node_journal", "verdict"}) {
    for (const json& value : odd) {
      for (const char* scenario : {"osync", "dio-matrix"}) {
        json workload = matrix();
        workload["scenario"] = scenario;
        workload["verdict"] = "v";
        workload[key] = value;
        EXPECT_FALSE(text_of(workload).empty()) << key;
      }
    }
  }
}

}  // namespace
}  // namespace stalltrace::report

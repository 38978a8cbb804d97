#include "userspace/report/text.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/unit/report/checks.h"
#include "tests/unit/report/samples.h"
#include "userspace/report/clean_text.h"

namespace stalltrace::report {
namespace {

using checks::lines_of;
using samples::kMs;

std::vector<Report> all_samples() {
  return {samples::empty_report(), samples::mission_report(),
          samples::herd_report(),  samples::quiet_report(),
          samples::loss_report(),  samples::hostile_report(),
          samples::full_report(),  Report{}};
}

bool has(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

// The lines of the stall that `call` begins, up to the empty line.
std::vector<std::string> stall_lines(const std::string& text, const std::string& call) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(text)) {
    if (found.empty() && line.rfind(call + "  ", 0) != 0) continue;
    if (line.empty()) break;
    found.push_back(line);
  }
  return found;
}

TEST(Text, KeepsToTheTerminal) {
  for (size_t width : {80, 100, 137, 200}) {
    for (bool utf8 : {false, true}) {
      for (const Report& report : all_samples()) {
        std::string text = to_text(report, {width, false, utf8});
        ASSERT_FALSE(text.empty());
        EXPECT_EQ(text.back(), '\n');
        for (const std::string& line : lines_of(text)) {
          std::vector<uint32_t> codes;
          ASSERT_TRUE(checks::decode_utf8(line, codes)) << line;
          EXPECT_LE(columns_of(std::string_view(line)), width) << line;
          EXPECT_FALSE(line.ends_with(' ')) << '"' << line << '"';
          for (uint32_t code : codes) {
            EXPECT_FALSE(code < 0x20 || (code >= 0x7f && code < 0xa0)) << code << " in " << line;
            if (!utf8) {
              EXPECT_LT(code, 0x80U) << line;
            }
          }
        }
      }
    }
  }
}

TEST(Text, ColourAddsNothingButColour) {
  static const std::regex colour("\x1b\\[[0-9;]*m");
  for (const Report& report : all_samples()) {
    std::string plain = to_text(report, {100, false, true});
    std::string colored = to_text(report, {100, true, true});
    EXPECT_EQ(std::regex_replace(colored, colour, ""), plain);
  }
  EXPECT_TRUE(has(to_text(samples::mission_report(), {100, true, false}), "\x1b["));
}

TEST(Text, AStallTellsItsStory) {
  std::vector<std::string> lines =
      stall_lines(to_text(samples::mission_report(), {100, false, false}), "io_submit");
  ASSERT_GE(lines.size(), 8U);
  EXPECT_TRUE(has(lines[0], "fio[4242]"));
  EXPECT_TRUE(has(lines[0], "/mnt/chunk-017 (ino 1311, loop0)"));
  EXPECT_TRUE(lines[0].ends_with("1.91 s at 12.204 s"));
  EXPECT_TRUE(has(lines[1], "97.4 %"));
  EXPECT_TRUE(has(lines[1], "1.86 s  journal.locked  start_this_handle < "));
  // The chain in its order, one link a line.
  EXPECT_TRUE(has(lines[2], "commit 8841 was locked, waiting for 1 open handle"));
  EXPECT_TRUE(has(lines[3], "the handle: fio[4250]"));
  EXPECT_TRUE(has(lines[3] + lines[4], "(inferred"));
  std::string chain;
  for (const std::string& line : lines) chain += line + "\n";
  size_t buffer = chain.find("inode table block 1050");
  size_t flush = chain.find("1.84 s   commit 8840 was waiting for a flush of loop0  <- root cause");
  ASSERT_NE(buffer, std::string::npos) << chain;
  ASSERT_NE(flush, std::string::npos) << chain;
  EXPECT_LT(buffer, flush);
  EXPECT_TRUE(has(chain, "   2.6 %  50.0 ms  cpu.wait"));
  EXPECT_TRUE(has(chain, "\nroot cause: device.flush loop0, 1.84 s of 1.91 s"));
}

TEST(Text, TheMarkIsAtTheLongestLeafOnlyOnce) {
  for (size_t width : {80, 200}) {
    std::vector<std::string> lines =
        stall_lines(to_text(samples::mission_report(), {width, false, false}), "io_submit");
    int marks = 0;
    for (const std::string& line : lines) {
      if (!has(line, "<- root cause")) continue;
      ++marks;
      EXPECT_TRUE(has(line, "a flush of loop0")) << line;
    }
    EXPECT_EQ(marks, 1);
  }
}

TEST(Text, PercentagesOfAStallAddUpToAHundred) {
  static const std::regex figure(R"(^ +(?:and )?([0-9]+)(?:\.([0-9]))? % .*)");
  for (uint64_t parts : {1, 3, 7, 11, 300}) {
    Report report = samples::empty_report();
    blame::Stall stall = samples::mission_stall();
    stall.parts.clear();
    uint64_t at = stall.start_ns;
    for (uint64_t i = 0; i < parts; ++i) {
      blame::Part part;
      part.wait_class = static_cast<kernel::WaitClass>(i % 30);
      part.start_ns = at;
      part.ns = 1000000 + i * i * 7777;
      part.root = samples::root(blame::RootKind::kSelf, part.ns, 0, stall.task);
      at += part.ns;
      stall.parts.push_back(part);
    }
    stall.ns = at - stall.start_ns;
    stall.roots = {samples::root(blame::RootKind::kSelf, stall.ns, 0, stall.task)};
    report.stalls = {stall};
    int tenths = 0;
    for (const std::string& line : stall_lines(to_text(report), "io_submit")) {
      std::smatch match;
      if (!std::regex_match(line, match, figure)) continue;
      tenths += std::stoi(match[1]) * 10 + (match[2].matched ? std::stoi(match[2]) : 0);
    }
    EXPECT_EQ(tenths, 1000) << parts;
  }
}

TEST(Text, ShortPartsAreFoldedIntoOneLine) {
  Report report = samples::mission_report();
  blame::Stall& stall = report.stalls[0];
  uint64_t at = stall.start_ns + stall.ns;
  for (int i = 0; i < 4; ++i) {
    blame::Part part;
    part.wait_class = i % 2 == 0 ? kernel::WaitClass::kCpuRun : kernel::WaitClass::kBlockTag;
    part.start_ns = at;
    part.ns = kMs;
    part.root = samples::root(blame::RootKind::kSelf, kMs);
    at += kMs;
    stall.parts.push_back(part);
    stall.ns += kMs;
  }
  std::string text = to_text(report);
  EXPECT_TRUE(has(text, "and 0.2 % in 4 shorter parts")) << text;
  std::vector<std::string> lines = stall_lines(text, "io_submit");
  for (const std::string& line : lines) EXPECT_FALSE(has(line, "block.tag")) << line;
}

TEST(Text, LikePartsAreOneRow) {
  Report report = samples::empty_report();
  blame::Stall stall = samples::simple_stall(
      1, wire::CALL_READ, 0, 0, kernel::WaitClass::kBlockRead, blame::RootKind::kDeviceRead);
  blame::Part one = stall.parts[0];
  stall.parts.clear();
  for (uint64_t i = 0; i < 100; ++i) {
    one.start_ns = stall.start_ns + i * kMs;
    one.ns = one.root.ns = kMs;
    stall.parts.push_back(one);
  }
  stall.ns = 100 * kMs;
  stall.roots[0].ns = stall.ns;
  report.stalls = {stall};
  std::vector<std::string> lines = stall_lines(to_text(report), "read");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_TRUE(has(lines[1], "100 %  100 ms  block.read"));
  EXPECT_TRUE(has(lines[1], "100 times"));
}

TEST(Text, LossComesFirst) {
  Report report = samples::loss_report();
  report.notes = {"a note"};
  std::vector<std::string> lines = lines_of(to_text(report));
  EXPECT_TRUE(has(lines[0], "LOSS")) << lines[0];
  EXPECT_TRUE(has(lines[1], "1204 events"));
  std::string text = to_text(report);
  EXPECT_TRUE(has(text, "1 stall was lost"));
  EXPECT_TRUE(has(text, "7 times"));
  EXPECT_LT(text.find("LOSS"), text.find("a note"));
  EXPECT_FALSE(has(to_text(samples::mission_report()), "LOSS"));
}

TEST(Text, EveryKindOfLossIsSaid) {
  for (uint64_t Loss::*field : {&Loss::events, &Loss::stalls, &Loss::folded_parts, &Loss::unmatched,
                                &Loss::map_full, &Loss::missed_probes}) {
    Report report = samples::quiet_report();
    report.loss.*field = 31337;
    std::vector<std::string> lines = lines_of(to_text(report));
    EXPECT_TRUE(has(lines[0], "LOSS"));
    EXPECT_TRUE(has(lines[1], "31337"));
  }
}

TEST(Text, NotesAndMissingResultsComeBeforeTheSummary) {
  std::string text = to_text(samples::full_report(), {200, false, false});
  size_t note = text.find("ext4 without a journal");
  size_t missing = text.find("holders of inode locks");
  size_t summary = text.find("71 stalls");
  ASSERT_NE(note, std::string::npos);
  ASSERT_NE(missing, std::string::npos);
  ASSERT_NE(summary, std::string::npos);
  EXPECT_LT(note, summary);
  EXPECT_LT(missing, summary);
}

TEST(Text, TheSummaryIsInWords) {
  std::string text = to_text(samples::herd_report(), {200, false, false});
  // 40 x 1.91 s less 10 ms for each step; the flush's share by hand: 1.84 s of 1.91 s and so on.
  EXPECT_TRUE(has(text,
                  "40 stalls over 10 ms in 40 tasks, 68.6 s of blocked time in 20.0 s; 96 % waited "
                  "for flushes of loop0 (/mnt)"))
      << text;
}

TEST(Text, AQuietWindowSaysSo) {
  std::string text = to_text(samples::quiet_report());
  EXPECT_TRUE(has(text, "no stall over 10 ms in 20.0 s of tracing; 12039 calls seen")) << text;
  EXPECT_TRUE(has(text, "io_submit  loop0   12034"));
  EXPECT_FALSE(has(text, "root cause:"));
}

TEST(Text, AHerdIsToldOnce) {
  std::string text = to_text(samples::herd_report());
  EXPECT_TRUE(has(text, "39 more like it, 1.52 to 1.90 s")) << text;
  EXPECT_TRUE(has(text, "io_submit of chunk-01[4243]"));
  size_t told = 0;
  for (const std::string& line : lines_of(text))
    told += has(line, "journal.locked  start_") ? 1 : 0;
  EXPECT_EQ(told, 1U);
}

TEST(Text, MoreGroupsThanTheLimitAreCounted) {
  Report report = samples::full_report();
  TextStyle style{100, false, false, 2};
  std::string text = to_text(report, style);
  EXPECT_TRUE(has(text, "more groups (30 stalls")) << text;
  EXPECT_TRUE(has(text, "--json"));
  style.most_groups = 100;
  EXPECT_FALSE(has(to_text(report, style), "more groups"));
}

TEST(Text, EdgesOfTheWindowAreSaid) {
  Report report = samples::mission_report();
  report.stalls[0].unfinished = true;
  EXPECT_TRUE(has(to_text(report), "still blocked: the time"));
  EXPECT_TRUE(has(to_text(report), "1 still blocked at the end"));
  report.stalls[0].unfinished = false;
  report.stalls[0].cut = blame::Cut::kEnd;
  EXPECT_TRUE(has(to_text(report), "cut off by the end of tracing"));
  report.stalls[0].cut = blame::Cut::kStart;
  EXPECT_TRUE(has(to_text(report), "began before tracing did"));
}

TEST(Text, WhatIsUnexplainedIsSaidWithItsWholeStack) {
  Report report = samples::empty_report();
  blame::Stall stall = samples::simple_stall(
      1, wire::CALL_WRITE, 0, 50 * kMs, kernel::WaitClass::kOther, blame::RootKind::kUnexplained);
  stall.parts[0].stack = {"first_function", "second_function", "third_function_with_a_long_name",
                          "the_last_function_of_them_all"};
  report.stalls = {stall};
  std::string text = to_text(report, {80, false, false});
  EXPECT_TRUE(has(text, "unexplained: nothing that was seen")) << text;
  EXPECT_TRUE(has(text, "the_last_function_of_them_all"));
}

TEST(Text, HostileNamesAreVisibleButHarmless) {
  std::string text = to_text(samples::hostile_report(), {200, false, true});
  EXPECT_TRUE(has(text, "\\x1b[31mred\\x07\\xff\\xc0\\xaf[4242]")) << text;
  EXPECT_TRUE(has(text, "line\\x0abreak"));
  EXPECT_TRUE(has(text, "\\xe2\\x80\\xae")) << "a right-to-left override";
}

TEST(Text, CountsStandBesideTheKernelsOwn) {
  std::string text = to_text(samples::full_report(), {200, false, false});
  EXPECT_TRUE(has(text, "13 in 20.0 s (0.65 a second); /proc/fs/jbd2: 13, equal")) << text;
  EXPECT_TRUE(has(text, "27 in 20.0 s (1.35 a second); /proc/diskstats: 28, NOT EQUAL"));
}

TEST(Text, EveryFigureOfTheWorkloadIsThere) {
  std::string text = to_text(samples::full_report(), {100, false, false});
  for (const char* what : {"chunk-server", "libaio", "writes_per_s", "1234.6", "117.7 MiB",
                           "20.0 s", "acknowledge", "8.12 ms", "1, 4, 8", "errors 0, ok yes"}) {
    EXPECT_TRUE(has(text, what)) << what;
  }
}

TEST(Text, OddFiguresOfAWorkloadAreNoTrap) {
  for (const char* json :
       {R"({})", R"([])", R"("text")", R"({"a":null})", R"({"count":1,"mean":2})",
        R"({"d":{"count":0,"mean":0}})", R"({"x_us":-5,"y_bytes":-1,"z_us":1e300})",
        R"({"a":[[[[[[[[[[[[1]]]]]]]]]]]]})", R"({"a":[{"b":1},{"b":2}]})", R"({"":""})"}) {
    Report report = samples::quiet_report();
    report.workload = nlohmann::json::parse(json);
    report.probe = report.workload;
    EXPECT_FALSE(to_text(report).empty()) << json;
  }
  Report report = samples::quiet_report();
  report.probe = nlohmann::json::parse(R"({"requests":[1,"a",null,{"us":"x"},{"at_us":5}]})");
  EXPECT_FALSE(to_text(report).empty());
  for (int i = 0; i < 1000; ++i) report.workload["figure" + std::to_string(i)] = i;
  EXPECT_TRUE(has(to_text(report), "more figures"));
}

TEST(Text, TheProbesWorstRequestsAreListed) {
  std::string text = to_text(samples::full_report());
  EXPECT_TRUE(has(text, "       10   9.001 s  1.81 s")) << text;
  EXPECT_TRUE(has(text, "        1   0.000 s  380 us"));
}

TEST(Text, VeryDeepChainsEnd) {
  Report report = samples::mission_report();
  blame::Cause cause =
      samples::leaf(blame::CauseKind::kTask, "the end", report.stalls[0].start_ns,
                    report.stalls[0].parts[0].ns, samples::root(blame::RootKind::kTaskCpu, 0));
  for (int i = 0; i < 200; ++i) {
    cause = samples::link(blame::CauseKind::kTask, "", "waits for the next", {cause});
  }
  report.stalls[0].parts[0].causes = {cause};
  EXPECT_LT(lines_of(to_text(report)).size(), 150U);
}

}  // namespace
}  // namespace stalltrace::report

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "tests/unit/dump/write_forms.h"
#include "userspace/dump/explain.h"
#include "userspace/dump/parse.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/explain_json.h"
#include "userspace/report/explain_text.h"

namespace stalltrace::dump {
namespace {

std::string shown(const std::string& text, size_t width) {
  const Dump dump = parse(text);
  return report::explain_text(dump, explain(dump), "hang.txt", {.width = width, .utf8 = true});
}

nlohmann::ordered_json as_json(const std::string& text) {
  const Dump dump = parse(text);
  // Through text: what a program gets.
  return nlohmann::ordered_json::parse(
      report::explain_json(dump, explain(dump), "hang.txt", "1.2", {"stalltrace", "explain"})
          .dump(1));
}

TEST(ExplainText, ConclusionComesFirstAndFits) {
  for (size_t width : {60, 80, 100, 200}) {
    for (const char* report : {"R01", "R17", "R43", "R44", "R47", "R53", "R60"}) {
      std::istringstream lines(shown(sysrq(of_report(report)), width));
      std::string first;
      std::getline(lines, first);
      EXPECT_TRUE(first.starts_with("root candidate: ") ||
                  first.starts_with("no root in this text"))
          << first;
      for (std::string line = first; std::getline(lines, line);) {
        EXPECT_LE(report::columns_of(line), width) << line;
      }
    }
  }
}

TEST(ExplainText, NamesHolderCommitterAndSureness) {
  std::string text = shown(sysrq(of_report("R43")), 200);
  std::string first = text.substr(0, text.find('\n'));
  EXPECT_NE(first.find("memory - kworker["), std::string::npos) << first;
  EXPECT_NE(first.find("(inferred)"), std::string::npos) << first;
  EXPECT_NE(text.find("jbd2/md0-8["), std::string::npos);
  EXPECT_NE(text.find("commit.handles"), std::string::npos);
  EXPECT_NE(text.find("insert_revoke_hash"), std::string::npos);
  EXPECT_NE(text.find("all 4 blocked tasks are behind it"), std::string::npos);
}

TEST(ExplainText, SaysPlainlyThatTheHolderIsMissing) {
  std::string text = shown(sysrq(of_report("R44")), 200);
  EXPECT_NE(text.substr(0, text.find('\n')).find("not in this text"), std::string::npos);
  // Commands stand in one piece, also on a narrow terminal.
  text = shown(sysrq(of_report("R44")), 80);
  EXPECT_NE(text.find("echo t > /proc/sysrq-trigger; dmesg | stalltrace explain\n"),
            std::string::npos);
  EXPECT_NE(text.find("grep -s . /proc/[0-9]*/task/*/sta[ct]* | stalltrace explain\n"),
            std::string::npos);
}

TEST(ExplainText, NamesCannotHarmTheTerminal) {
  Written evil{.comm = "\x1b[31mroot\x07",
               .pid = 9,
               .frames = words("__schedule schedule "
                               "blk_mq_get_tag")};
  std::string text = shown(sysrq({evil}), 100);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  EXPECT_NE(text.find("\\x1b[31mroot\\x07"), std::string::npos);
  evil.comm = "\xff\xfe";
  EXPECT_NO_THROW(as_json(sysrq({evil})));
}

TEST(ExplainText, ThousandsStayShort) {
  std::vector<Written> tasks;
  for (unsigned i = 0; i < 3000; ++i) {
    Written one{.comm = "fio",
                .pid = 1000 + i,
                .frames = words("__schedule schedule "
                                "blk_mq_get_tag blk_mq_submit_bio")};
    one.frames.push_back(fmt::format("caller_{}", i));
    tasks.push_back(one);
  }
  std::string text = shown(sysrq(tasks), 80);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 150);
  EXPECT_NE(text.find("--json has them all"), std::string::npos);
}

TEST(ExplainJson, HasEverythingByItsName) {
  auto json = as_json(sysrq(of_report("R43")));
  EXPECT_EQ(json["schema"], "stalltrace.explain/1");
  EXPECT_EQ(json["tool"]["version"], "1.2");
  EXPECT_EQ(json["source"]["name"], "hang.txt");
  EXPECT_EQ(json["tasks"]["blocked"], 4);
  EXPECT_EQ(json["tasks"]["runnable"], 2);
  EXPECT_EQ(json["holder_missing"], false);
  EXPECT_EQ(json["roots"][0]["cause"], "memory");
  EXPECT_EQ(json["roots"][0]["comm"], "kworker");
  EXPECT_EQ(json["roots"][0]["waiting"], 4);
  ASSERT_EQ(json["roots"][0]["chain"].size(), 3U);
  EXPECT_EQ(json["roots"][0]["chain"][1]["class"], "commit.handles");
  ASSERT_EQ(json["committers"].size(), 1U);
  EXPECT_EQ(json["committers"][0]["dev"], "md0");
  size_t tasks = 0;
  for (const auto& group : json["groups"]) {
    EXPECT_TRUE(kernel::wait_class_named(group["class"].get<std::string>()));
    EXPECT_EQ(group["count"], group["tasks"].size());
    EXPECT_FALSE(group["stack"].empty());
    tasks += group["tasks"].size();
  }
  EXPECT_EQ(tasks, 7U);

  auto missing = as_json(sysrq(of_report("R44")));
  EXPECT_EQ(missing["holder_missing"], true);
  EXPECT_EQ(missing["roots"][0]["cause"], "unexplained");
  EXPECT_FALSE(missing["advice"].empty());
}

TEST(ExplainJson, SaysNeverMeasured) {
  for (const char* report : {"R01", "R17", "R43", "R44", "R46", "R47", "R53", "R60"}) {
    std::string text = as_json(sysrq(of_report(report))).dump();
    EXPECT_EQ(text.find("\"measured\""), std::string::npos);
  }
}

}  // namespace
}  // namespace stalltrace::dump

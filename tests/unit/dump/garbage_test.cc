#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/unit/dump/write_forms.h"
#include "userspace/dump/explain.h"
#include "userspace/dump/parse.h"

namespace stalltrace::dump {
namespace {

std::string everything() {
  std::string text;
  for (const Reported& one : reported_stacks()) {
    for (TextForm form : kAllForms) text += write_stack(one.task, form);
  }
  return text;
}

void run(const std::string& text) {
  Dump dump = parse(text);
  Explanation found = explain(dump);
  ASSERT_EQ(found.readings.size(), dump.tasks.size());
  for (const Root& root : found.roots) {
    ASSERT_FALSE(root.cause.empty());
    ASSERT_FALSE(root.waiting.empty());
    for (const Link& link : root.chain) {
      if (link.task) {
        ASSERT_LT(*link.task, dump.tasks.size());
      }
    }
  }
}

TEST(Garbage, TextCutAnywhere) {
  const std::string text = everything();
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    size_t from = random() % text.size();
    run(text.substr(from, random() % 3000));
  }
}

TEST(Garbage, BytesChanged) {
  const std::string text = everything();
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::string part = text.substr(random() % text.size(), 2500);
    for (int k = 0; k < 40; ++k) {
      size_t at = random() % part.size();
      switch (random() % 4) {
        case 0:
          part[at] = static_cast<char>(random());
          break;
        case 1:
          part.erase(at, random() % 20);
          break;
        case 2:
          part.insert(at, part.substr(random() % part.size(), random() % 60));
          break;
        default: {
          constexpr std::string_view kMarks = "[]<>(){}:;,.+?#@='\"/ \n\r\t0x";
          part[at] = kMarks[random() % kMarks.size()];
        }
      }
      if (part.empty()) part = "x";
    }
    run(part);
  }
}

TEST(Garbage, LinesShuffled) {
  const std::string text = everything();
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::mt19937 random(13);
  for (int i = 0; i < 100; ++i) {
    std::string mixed;
    for (int k = 0; k < 80; ++k) mixed += lines[random() % lines.size()] + "\n";
    run(mixed);
  }
}

TEST(Garbage, NothingButNoise) {
  std::mt19937 random(17);
  for (int i = 0; i < 200; ++i) {
    std::string noise(random() % 2000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    run(noise);
  }
  run(std::string(100000, '['));
  run(std::string(100000, '>'));
  run(std::string(100000, '<'));
  run(std::string(100000, ' '));
  run(std::string(100000, 'a'));
  run(std::string(1000, '\n') + std::string(1000, '\0'));
}

}  // namespace
}  // namespace stalltrace::dump

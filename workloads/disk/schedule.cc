#include "workloads/disk/schedule.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "userspace/base/error.h"
#include "userspace/base/units.h"

namespace stalltrace::disk {
namespace {

std::vector<std::string> split_words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

ScheduleWindow parse_window(const std::vector<std::string>& words, const std::string& where) {
  if (words.size() != 4) {
    throw usage_error("{}: expected FROM TO OP DELAY (like 5s 5.5s flush 1.5s), found {} word{}",
                      where, words.size(), words.size() == 1 ? "" : "s");
  }
  Op op{};
  if (words[2] == "read") {
    op = Op::kRead;
  } else if (words[2] == "write") {
    op = Op::kWrite;
  } else if (words[2] == "flush") {
    op = Op::kFlush;
  } else {
    throw usage_error("{}: '{}' is not one of read, write, flush", where, words[2]);
  }
  const ScheduleWindow window{parse_time_ns(words[0], where), parse_time_ns(words[1], where), op,
                              parse_time_ns(words[3], where)};
  if (window.to_ns <= window.from_ns) {
    throw usage_error("{}: TO ({}) must be later than FROM ({})", where, words[1], words[0]);
  }
  return window;
}

}  // namespace

Schedule Schedule::parse(std::string_view text, std::string_view name) {
  Schedule schedule;
  std::istringstream stream{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    line = line.substr(0, line.find('#'));
    const auto words = split_words(line);
    if (words.empty()) continue;
    schedule.windows_.push_back(
        parse_window(words, fmt::format("schedule {} line {}", name, number)));
  }
  return schedule;
}

Schedule Schedule::load(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw usage_error("schedule {}: {}", path, std::strerror(errno != 0 ? errno : EISDIR));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), path);
}

std::optional<uint64_t> Schedule::delay_ns(Op op, uint64_t at_ns) const {
  for (auto window = windows_.rbegin(); window != windows_.rend(); ++window) {
    if (window->op == op && at_ns >= window->from_ns && at_ns < window->to_ns) {
      return window->delay_ns;
    }
  }
  return std::nullopt;
}

}  // namespace stalltrace::disk

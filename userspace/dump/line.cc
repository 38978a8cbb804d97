#include "userspace/dump/line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

namespace stalltrace::dump {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string_view without_quotes(std::string_view text) {
  // "> > text", ">> text", "| text"; a quote needs no blank behind it.
  while (true) {
    std::string_view rest = text;
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    bool bar = rest.starts_with("| ");  // a frame has no bar of its own
    if (rest.empty() || (rest.front() != '>' && !bar)) return text;
    // ">R  comm" of the scheduler's list is no quote; nothing else starts so.
    rest.remove_prefix(1);
    if (rest.starts_with(' ')) rest.remove_prefix(1);
    text = rest;
  }
}

bool is_month(std::string_view word) {
  static constexpr std::array<std::string_view, 12> kMonths{
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return std::find(kMonths.begin(), kMonths.end(), word) != kMonths.end();
}

bool is_weekday(std::string_view word) {
  static constexpr std::array<std::string_view, 7> kDays{"Mon", "Tue", "Wed", "Thu",
                                                         "Fri", "Sat", "Sun"};
  return std::find(kDays.begin(), kDays.end(), word) != kDays.end();
}

// 12:34:56, with fractions and zones.
bool is_clock(std::string_view word) {
  return word.size() >= 8 && is_digit(word[0]) && is_digit(word[1]) && word[2] == ':' &&
         is_digit(word[3]) && is_digit(word[4]) && word[5] == ':' && is_digit(word[6]);
}

// 2024-03-04T12:00:00..., 2024-03-04
bool is_date(std::string_view word) {
  return word.size() >= 10 && is_digit(word[0]) && is_digit(word[3]) && word[4] == '-' &&
         is_digit(word[5]) && word[7] == '-' && is_digit(word[8]) && is_digit(word[9]);
}

// What follows a logger's time: "host kernel: " or "host daemon[12]: ". Only one blank is taken
// off behind it: the indentation is the kernel's.
bool take_logger(std::string_view& text, Line& line) {
  std::string_view rest = text;
  std::string_view host = take_word(rest);
  if (host.empty()) return false;
  std::string_view tag = host == "kernel:" ? host : take_word(rest);
  if (!tag.ends_with(':') || tag.size() < 2) return false;
  line.foreign = tag != "kernel:" && !tag.starts_with("kernel[") && !tag.starts_with("klogd") &&
                 tag != "vmunix:";
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  text = rest;
  line.logged = true;
  return true;
}

bool take_time(std::string_view& text, Line& line) {
  std::string_view rest = text;
  std::string_view word = take_word(rest);
  if (is_month(word)) {
    // Mar  4 12:00:00 host kernel: ...
    std::string_view day = take_word(rest);
    if (day.empty() || day.size() > 2 || !is_digit(day[0])) return false;
    std::string_view clock = take_word(rest);
    if (clock.size() == 4 && is_digit(clock[0])) clock = take_word(rest);  // a year
    if (!is_clock(clock)) return false;
    if (!take_logger(rest, line)) return false;
    text = rest;
    return true;
  }
  if (is_date(word)) {
    // Either 2024-03-04T12:00:00+0000 or two words; journalctl, rsyslog or dmesg may follow.
    if (word.size() == 10) {
      if (!is_clock(take_word(rest))) return false;
    } else if (word[10] != 'T' || !is_clock(word.substr(11))) {
      return false;
    }
    // dmesg writes the fraction behind a comma and names no host.
    bool dmesg = word.find(',') != std::string_view::npos;
    if ((dmesg || !take_logger(rest, line)) && rest.starts_with(' ')) rest.remove_prefix(1);
    line.logged = true;
    text = rest;
    return true;
  }
  return false;
}

// "[   12.345678] ", "[Mon Mar  4 12:00:00 2024] ", "[ T123] ", "[   C0] ", "[+0.000003] ".
bool take_bracket(std::string_view& text, Line& line) {
  if (!text.starts_with('[')) return false;
  size_t close = text.find(']');
  if (close == std::string_view::npos || close > 40) return false;
  std::string_view inside = trimmed(text.substr(1, close - 1));
  bool known = false;
  if (!inside.empty() && (is_digit(inside[0]) || inside[0] == '+' || inside[0] == '<')) {
    bool points = std::count(inside.begin(), inside.end(), '.') == 1;
    bool digits = std::all_of(inside.begin() + 1, inside.end(),
                              [](char c) { return is_digit(c) || c == '.'; });
    known = points && digits;
    if (known && is_digit(inside[0]))
      line.kernel_s = std::strtod(std::string(inside).c_str(), nullptr);
  }
  if (!known && inside.size() >= 2 && (inside[0] == 'T' || inside[0] == 'C')) {
    known = std::all_of(inside.begin() + 1, inside.end(), is_digit);
    if (known) line.caller = inside;
  }
  if (!known) {
    std::string_view rest = inside;
    known = is_weekday(take_word(rest)) && is_month(take_word(rest));
  }
  if (!known) return false;
  text.remove_prefix(close + 1);
  if (text.starts_with(' ')) text.remove_prefix(1);
  line.logged = true;
  return true;
}

// "<6>", "kern  :info  : " of dmesg -x, "6,339,5140900,-;" of /dev/kmsg and netconsole.
bool take_level(std::string_view& text, Line& line) {
  if (text.size() >= 3 && text[0] == '<' && is_digit(text[1])) {
    size_t close = text.find('>');
    if (close <= 4 &&
        std::all_of(text.begin() + 1, text.begin() + static_cast<long>(close), is_digit)) {
      text.remove_prefix(close + 1);
      line.logged = true;
      return true;
    }
  }
  if (text.starts_with("kern ") && text.size() > 16 && text[6] == ':') {
    size_t second = text.find(": ", 7);
    if (second != std::string_view::npos && second < 20) {
      text.remove_prefix(second + 2);
      line.logged = true;
      return true;
    }
  }
  if (!text.empty() && is_digit(text[0])) {
    size_t semicolon = text.substr(0, 80).find(';');
    if (semicolon != std::string_view::npos) {
      std::string_view head = text.substr(0, semicolon);
      if (std::count(head.begin(), head.end(), ',') >= 3 &&
          head.find(' ') == std::string_view::npos) {
        text.remove_prefix(semicolon + 1);
        line.logged = true;
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && (is_blank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string_view take_word(std::string_view& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  size_t end = 0;
  while (end < text.size() && !is_blank(text[end])) ++end;
  std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

std::string_view last_word(std::string_view text) {
  text = trimmed(text);
  size_t blank = text.find_last_of(" \t");
  return blank == std::string_view::npos ? text : text.substr(blank + 1);
}

std::optional<unsigned long long> to_number(std::string_view text) {
  unsigned long long value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

uint32_t to_id(std::string_view text) {
  auto number = to_number(text);
  return number && *number <= std::numeric_limits<uint32_t>::max() ? static_cast<uint32_t>(*number)
                                                                   : 0;
}

bool is_hex(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

Line clean_line(std::string_view raw) {
  Line line;
  while (!raw.empty() && (raw.back() == '\r' || raw.back() == ' ' || raw.back() == '\t')) {
    raw.remove_suffix(1);
  }
  std::string_view text = without_quotes(raw);
  // A logger's prefix starts in the first column; a quoted or indented mail keeps it somewhere.
  std::string_view bare = text;
  while (!bare.empty() && is_blank(bare.front())) bare.remove_prefix(1);
  if (!bare.empty()) {
    if (take_time(bare, line)) text = bare;
    // Several of these may follow one another, in the order of the logger's taste.
    std::string_view rest = text;
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    bool taken = false;
    while (take_level(rest, line) || take_bracket(rest, line)) {
      taken = true;
      text = rest;
      while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    }
    if (taken && line.foreign) line.foreign = false;
  }
  line.text = text;
  return line;
}

}  // namespace stalltrace::dump

// One line of a text, freed of what mailers, loggers and consoles put in front of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stalltrace::dump {

struct Line {
  std::string_view text;      // indentation kept, line end and prefixes gone
  bool foreign = false;       // a logger's line that is not the kernel's
  bool logged = false;        // had a logger's or the kernel log's prefix
  double kernel_s = -1;       // the kernel's clock; -1: not shown
  std::string_view caller{};  // who printed it, "T123" or "C0"; "" if it is not told
};

// `raw`: without '\n'. Takes off, in this order: mail quotes ("> ", ">> "), one of the prefixes of
// syslog, journalctl, dmesg -T and ISO times, then "<6>", "[  12.345678]" and "[ T123]".
Line clean_line(std::string_view raw);

constexpr size_t kNowhere = std::string_view::npos;

std::string_view trimmed(std::string_view text);
// Takes off the first word and the blanks before it.
std::string_view take_word(std::string_view& text);
std::string_view last_word(std::string_view text);

std::optional<unsigned long long> to_number(std::string_view text);
// 0 when it is no number or a larger one.
uint32_t to_id(std::string_view text);
bool is_hex(std::string_view text);

}  // namespace stalltrace::dump

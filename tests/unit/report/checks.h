// Rules that every output has to keep, checked from outside.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::report::checks {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Each character of it, or an empty list when the text is not valid UTF-8. Written from the table
// of well-formed sequences in the Unicode standard (3-7).
inline bool decode_utf8(std::string_view text, std::vector<uint32_t>& codes) {
  codes.clear();
  auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint32_t{0x100};
  };
  auto is = [&](size_t i, uint32_t low, uint32_t high) {
    return byte(i) >= low && byte(i) <= high;
  };
  for (size_t i = 0; i < text.size();) {
    uint32_t lead = byte(i);
    if (lead < 0x80) {
      codes.push_back(lead);
      i += 1;
    } else if (lead >= 0xc2 && lead <= 0xdf && is(i + 1, 0x80, 0xbf)) {
      codes.push_back((lead - 0xc0) * 64 + byte(i + 1) - 0x80);
      i += 2;
    } else if (lead >= 0xe0 && lead <= 0xef &&
               is(i + 1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf) &&
               is(i + 2, 0x80, 0xbf)) {
      codes.push_back((lead - 0xe0) * 4096 + (byte(i + 1) - 0x80) * 64 + byte(i + 2) - 0x80);
      i += 3;
    } else if (lead >= 0xf0 && lead <= 0xf4 &&
               is(i + 1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf) &&
               is(i + 2, 0x80, 0xbf) && is(i + 3, 0x80, 0xbf)) {
      codes.push_back((lead - 0xf0) * 262144 + (byte(i + 1) - 0x80) * 4096 +
                      (byte(i + 2) - 0x80) * 64 + byte(i + 3) - 0x80);
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

// A JSON time in microseconds as whole nanoseconds; fails when it has more than three decimals.
inline int64_t ns_of(const nlohmann::ordered_json& us) {
  EXPECT_TRUE(us.is_number()) << us.dump();
  std::string text = us.dump();
  size_t dot = text.find('.');
  if (dot != std::string::npos) {
    EXPECT_LE(text.size() - dot - 1, 3U) << text;
  }
  EXPECT_EQ(text.find('e'), std::string::npos) << text;
  std::string whole = text.substr(0, dot);
  std::string rest = dot == std::string::npos ? "" : text.substr(dot + 1);
  rest.resize(3, '0');
  int64_t sign = text[0] == '-' ? -1 : 1;
  return std::stoll(whole) * 1000 + sign * std::stoll(rest);
}

// Causes lie inside their interval, do not overlap and add up to it, at every level.
inline void expect_causes_tile(const nlohmann::ordered_json& causes, int64_t start_ns, int64_t ns) {
  int64_t at = start_ns;
  int64_t sum = 0;
  for (const auto& cause : causes) {
    int64_t cause_start = ns_of(cause["start_us"]);
    int64_t cause_ns = ns_of(cause["us"]);
    EXPECT_GE(cause_start, at) << cause.dump();
    EXPECT_LE(cause_start + cause_ns, start_ns + ns) << cause.dump();
    at = cause_start + cause_ns;
    sum += cause_ns;
    if (cause.contains("causes")) expect_causes_tile(cause["causes"], cause_start, cause_ns);
  }
  EXPECT_EQ(sum, ns) << causes.dump();
}

inline void expect_stall_adds_up(const nlohmann::ordered_json& stall) {
  int64_t start = ns_of(stall["start_us"]);
  int64_t whole = ns_of(stall["duration_us"]);
  int64_t at = start;
  int64_t parts = 0;
  for (const auto& part : stall["parts"]) {
    int64_t part_start = ns_of(part["start_us"]);
    int64_t part_ns = ns_of(part["us"]);
    EXPECT_GE(part_start, at);
    EXPECT_LE(part_start + part_ns, start + whole);
    at = part_start + part_ns;
    parts += part_ns;
    if (part.contains("causes")) expect_causes_tile(part["causes"], part_start, part_ns);
  }
  EXPECT_EQ(parts, whole);
  int64_t roots = 0;
  for (const auto& root : stall["roots"]) roots += ns_of(root["us"]);
  EXPECT_EQ(roots, whole);
}

}  // namespace stalltrace::report::checks

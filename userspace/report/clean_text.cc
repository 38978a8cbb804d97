#include "userspace/report/clean_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace stalltrace::report {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

uint8_t byte_at(std::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]);
}

// The shortest form only, no surrogates, nothing over U+10FFFF.
Character decode(std::string_view text, size_t at) {
  uint8_t lead = byte_at(text, at);
  if (lead < 0x80) return {lead, 1};
  size_t bytes = 0;
  uint32_t code = 0;
  uint32_t least = 0;
  if ((lead & 0xe0) == 0xc0) {
    bytes = 2, code = lead & 0x1f, least = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    bytes = 3, code = lead & 0x0f, least = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    bytes = 4, code = lead & 0x07, least = 0x10000;
  } else {
    return {};
  }
  if (at + bytes > text.size()) return {};
  for (size_t i = 1; i < bytes; ++i) {
    uint8_t next = byte_at(text, at + i);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

struct Range {
  uint32_t first, last;
};

template <size_t N>
bool is_in(const std::array<Range, N>& ranges, uint32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](Range r) { return code >= r.first && code <= r.last; });
}

// Controls, separators that break lines, invisible and direction-changing characters, and what no
// text may contain: they could make a terminal show something else than what is there.
constexpr std::array<Range, 13> kHarmful{{{0x00, 0x1f},
                                          {0x7f, 0x9f},
                                          {0xad, 0xad},
                                          {0x61c, 0x61c},
                                          {0x115f, 0x1160},
                                          {0x180e, 0x180e},
                                          {0x200b, 0x200f},
                                          {0x2028, 0x202e},
                                          {0x2060, 0x206f},
                                          {0xe000, 0xf8ff},
                                          {0xfeff, 0xfeff},
                                          {0xfff0, 0xffff},
                                          {0xe0000, 0x10ffff}}};

// Marks drawn over the character before.
constexpr std::array<Range, 7> kNoColumn{{{0x300, 0x36f},
                                          {0x483, 0x489},
                                          {0x1ab0, 0x1aff},
                                          {0x1dc0, 0x1dff},
                                          {0x20d0, 0x20ff},
                                          {0xfe00, 0xfe0f},
                                          {0xfe20, 0xfe2f}}};

constexpr std::array<Range, 10> kTwoColumns{{{0x1100, 0x115e},
                                             {0x2e80, 0x303e},
                                             {0x3041, 0xa4cf},
                                             {0xa960, 0xa97f},
                                             {0xac00, 0xd7a3},
                                             {0xf900, 0xfaff},
                                             {0xfe30, 0xfe6f},
                                             {0xff00, 0xffe6},
                                             {0x1f300, 0x1f9ff},
                                             {0x20000, 0x3fffd}}};

size_t columns_of_code(uint32_t code) {
  if (code < 0x300) return 1;
  if (is_in(kNoColumn, code)) return 0;
  return is_in(kTwoColumns, code) ? 2 : 1;
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string result;
  result.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    Character c = decode(bytes, at);
    if (c.bytes == 0) {
      result += "\xef\xbf\xbd";
      ++at;
    } else {
      result += bytes.substr(at, c.bytes);
      at += c.bytes;
    }
  }
  return result;
}

std::string printable(std::string_view bytes, bool utf8) {
  std::string result;
  result.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    Character c = decode(bytes, at);
    size_t length = std::max<size_t>(c.bytes, 1);
    bool keep = c.bytes != 0 && !is_in(kHarmful, c.code) && (utf8 || c.code < 0x80);
    if (keep) {
      result += bytes.substr(at, length);
    } else {
      for (size_t i = 0; i < length; ++i)
        result += fmt::format("\\x{:02x}", byte_at(bytes, at + i));
    }
    at += length;
  }
  return result;
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size();) {
    Character c = decode(text, at);
    columns += c.bytes == 0 ? 1 : columns_of_code(c.code);
    at += std::max<size_t>(c.bytes, 1);
  }
  return columns;
}

std::string_view first_columns(std::string_view text, size_t columns) {
  size_t used = 0;
  size_t at = 0;
  while (at < text.size()) {
    Character c = decode(text, at);
    used += c.bytes == 0 ? 1 : columns_of_code(c.code);
    if (used > columns) break;
    at += std::max<size_t>(c.bytes, 1);
  }
  return text.substr(0, at);
}

std::string_view last_columns(std::string_view text, size_t columns) {
  size_t total = columns_of(text);
  size_t at = 0;
  while (at < text.size() && total > columns) {
    Character c = decode(text, at);
    total -= c.bytes == 0 ? 1 : columns_of_code(c.code);
    at += std::max<size_t>(c.bytes, 1);
  }
  // A mark without the character below it would land on whatever stands before.
  while (at < text.size()) {
    Character c = decode(text, at);
    if (c.bytes == 0 || columns_of_code(c.code) != 0) break;
    at += c.bytes;
  }
  return text.substr(at);
}

}  // namespace stalltrace::report

// The values of fio's job files: sizes, times, lists and ranges as fio 3.33 reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/base/error.h"

namespace stalltrace::workloads {

// fio's units with its default kb_base of 1024, as fio 3.33 reads them: k, kb, ki are 1024 and kib
// is 1000 (sic); m, g, t, p likewise. No value: not a size.
std::optional<uint64_t> parse_fio_size(std::string_view text);

// fio's times: d, h, m, s, ms, us; a bare number is of `bare_ns` each, seconds for most keys.
// Nanoseconds.
std::optional<uint64_t> parse_fio_time_ns(std::string_view text, uint64_t bare_ns = 1'000'000'000);

std::optional<double> parse_fio_float(std::string_view text);

std::string_view strip_spaces(std::string_view text);
std::vector<std::string_view> split_at(std::string_view text, char separator);

// One line of a section, with what an error message needs.
struct FioEntry {
  const std::string& file;
  size_t line;
  std::string key;
  std::optional<std::string> value;  // absent: a bare key

  [[nodiscard]] Error error(std::string_view what) const;
  // Each throws error() where the value is not of the kind.
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] bool flag() const;
  [[nodiscard]] uint64_t size() const { return size_of(text()); }
  [[nodiscard]] uint64_t number(uint64_t max) const { return number_of(text(), max); }
  [[nodiscard]] unsigned count() const;
  [[nodiscard]] uint64_t time_ns(uint64_t bare_ns = 1'000'000'000) const;
  // "4k-16k", or one size that is both.
  [[nodiscard]] std::pair<uint64_t, uint64_t> size_range() const { return size_range_of(text()); }

  // The same of a part of the value.
  [[nodiscard]] uint64_t size_of(std::string_view part) const;
  [[nodiscard]] uint64_t number_of(std::string_view part, uint64_t max) const;
  [[nodiscard]] std::pair<uint64_t, uint64_t> size_range_of(std::string_view part) const;

  // "READ,WRITE,TRIM": one alone is for all, an empty one leaves what there was; trims are
  // dropped. Calls set(direction, part) for each that is given.
  template <typename Set>
  void for_directions(Set set) const {
    std::vector<std::string_view> parts = split_at(text(), ',');
    if (parts.size() > 3) throw error("has more than three parts: reads, writes, trims");
    if (parts.size() == 1) parts.push_back(parts[0]);
    for (size_t direction = 0; direction < 2; ++direction) {
      if (!parts[direction].empty()) set(direction, parts[direction]);
    }
  }
};

}  // namespace stalltrace::workloads

// Enumerations with a word for each value, in the order of their values.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::workloads {

template <typename Value, size_t n>
std::optional<Value> value_named(const std::array<std::string_view, n>& names,
                                 std::string_view name) {
  for (size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Value>(i);
  }
  return std::nullopt;
}

template <size_t n>
std::vector<std::string> as_strings(const std::array<std::string_view, n>& names) {
  return {names.begin(), names.end()};
}

}  // namespace stalltrace::workloads

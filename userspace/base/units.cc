#include "userspace/base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "userspace/base/error.h"

namespace stalltrace {
namespace {

struct Scaled {
  double value;
  std::string_view suffix;
};

Scaled split_number(std::string_view text, std::string_view what) {
  double value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) {
    throw usage_error("{}: '{}' is not a number with a unit", what, text);
  }
  return {value, std::string_view(rest, static_cast<size_t>(end - rest))};
}

uint64_t scaled(double value, double unit, std::string_view text, std::string_view what) {
  double result = value * unit;
  if (result >= 9.2e18) throw usage_error("{}: '{}' is too large", what, text);
  return static_cast<uint64_t>(std::llround(result));
}

}  // namespace

uint64_t parse_time_ns(std::string_view text, std::string_view what) {
  auto [value, suffix] = split_number(text, what);
  if (suffix.empty() && value == 0) return 0;
  if (suffix == "ns") return scaled(value, 1, text, what);
  if (suffix == "us") return scaled(value, 1e3, text, what);
  if (suffix == "ms") return scaled(value, 1e6, text, what);
  if (suffix == "s") return scaled(value, 1e9, text, what);
  if (suffix == "m" || suffix == "min") return scaled(value, 60e9, text, what);
  if (suffix == "h") return scaled(value, 3600e9, text, what);
  throw usage_error("{}: '{}' needs a unit: ns, us, ms, s, m or h (like 10ms)", what, text);
}

uint64_t parse_size(std::string_view text, std::string_view what) {
  auto [value, suffix] = split_number(text, what);
  if (suffix.empty()) return scaled(value, 1, text, what);
  double unit = 0;
  switch (std::tolower(static_cast<unsigned char>(suffix.front()))) {
    case 'b':
      unit = 1;
      break;
    case 'k':
      unit = 1024.0;
      break;
    case 'm':
      unit = 1024.0 * 1024;
      break;
    case 'g':
      unit = 1024.0 * 1024 * 1024;
      break;
    case 't':
      unit = 1024.0 * 1024 * 1024 * 1024;
      break;
    default:
      break;
  }
  std::string tail;
  for (char c : suffix.substr(1)) {
    tail += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  bool tail_ok = tail.empty() || (unit > 1 && (tail == "b" || tail == "ib"));
  if (unit == 0 || !tail_ok) {
    throw usage_error("{}: '{}' is not a size (like 64k, 128m, 4g)", what, text);
  }
  return scaled(value, unit, text, what);
}

std::string format_time(uint64_t ns) {
  struct Unit {
    double scale;
    const char* name;
  };
  static constexpr std::array<Unit, 4> kUnits{{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}};
  if (ns == 0) return "0 s";
  for (const Unit& unit : kUnits) {
    double value = static_cast<double>(ns) / unit.scale;
    // 0.9995 rounds to 1.00 of this unit, and "1000 ms" never appears.
    if (value < 0.9995 && unit.scale > 1) continue;
    int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    if (unit.scale == 1) decimals = 0;
    return fmt::format("{:.{}f} {}", value, decimals, unit.name);
  }
  return "0 s";
}

std::string format_size(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  bool whole = value == std::floor(value);
  return fmt::format("{:.{}f} {}", value, whole ? 0 : 1, kNames[unit]);
}

}  // namespace stalltrace

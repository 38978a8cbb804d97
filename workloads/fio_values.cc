#include "workloads/fio_values.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace stalltrace::workloads {
namespace {

std::string lower_case(std::string_view text) {
  std::string result;
  for (char c : text) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

struct Number {
  uint64_t value;
  std::string suffix;
};

std::optional<Number> split_suffix(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  return Number{value, lower_case({rest, static_cast<size_t>(end - rest)})};
}

std::optional<uint64_t> times(uint64_t value, uint64_t unit) {
  uint64_t result = 0;
  if (__builtin_mul_overflow(value, unit, &result)) return std::nullopt;
  return result;
}

}  // namespace

std::optional<uint64_t> parse_fio_size(std::string_view text) {
  std::optional<Number> number = split_suffix(text);
  if (!number) return std::nullopt;
  std::string_view suffix = number->suffix;
  if (suffix.empty() || suffix == "b") return number->value;
  static constexpr std::string_view kPrefixes = "kmgtp";
  size_t power = kPrefixes.find(suffix.front());
  if (power == std::string_view::npos) return std::nullopt;
  std::string_view tail = suffix.substr(1);
  uint64_t base = 0;
  if (tail.empty() || tail == "b" || tail == "i") base = 1024;
  if (tail == "ib") base = 1000;
  if (base == 0) return std::nullopt;
  std::optional<uint64_t> bytes = number->value;
  for (size_t i = 0; i <= power && bytes; ++i) bytes = times(*bytes, base);
  return bytes;
}

std::optional<uint64_t> parse_fio_time_ns(std::string_view text, uint64_t bare_ns) {
  std::optional<Number> number = split_suffix(text);
  if (!number) return std::nullopt;
  if (number->suffix.empty()) return times(number->value, bare_ns);
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 6> kUnits{
      {{"s", 1'000'000'000},
       {"ms", 1'000'000},
       {"us", 1'000},
       {"m", 60'000'000'000},
       {"h", 3'600'000'000'000},
       {"d", 86'400'000'000'000}}};
  for (const auto& [suffix, unit] : kUnits) {
    if (suffix == number->suffix) return times(number->value, unit);
  }
  return std::nullopt;
}

std::optional<double> parse_fio_float(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string_view strip_spaces(std::string_view text) {
  auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t end = text.find(separator);
    parts.push_back(strip_spaces(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Error FioEntry::error(std::string_view what) const {
  return usage_error("{}:{}: {}{}: {}", file, line, key, value ? "=" + *value : std::string(),
                     what);
}

const std::string& FioEntry::text() const {
  if (!value || value->empty()) throw error("needs a value");
  if (value->front() == '(') {
    throw error("expressions in parentheses are not computed here; write the value");
  }
  return *value;
}

bool FioEntry::flag() const {
  if (!value || *value == "1") return true;
  if (*value == "0") return false;
  throw error("must be 0 or 1");
}

unsigned FioEntry::count() const {
  return static_cast<unsigned>(number(1'000'000'000));
}

uint64_t FioEntry::time_ns(uint64_t bare_ns) const {
  constexpr uint64_t kMost = uint64_t{10} * 365 * 86'400 * 1'000'000'000;
  std::optional<uint64_t> ns = parse_fio_time_ns(text(), bare_ns);
  if (!ns) throw error("is not a time such as 300 (seconds), 5m or 500ms");
  if (*ns > kMost) throw error("is more than ten years");
  return *ns;
}

uint64_t FioEntry::size_of(std::string_view part) const {
  if (part.ends_with('%')) {
    throw error("a share of a file's size is not computed here; write the size");
  }
  std::optional<uint64_t> bytes = parse_fio_size(part);
  if (!bytes) throw error("is not one size such as 64k or 128m");
  return *bytes;
}

uint64_t FioEntry::number_of(std::string_view part, uint64_t max) const {
  std::optional<Number> number = split_suffix(part);
  if (!number || !number->suffix.empty() || number->value > max) {
    throw error(fmt::format("is not a whole number up to {}", max));
  }
  return number->value;
}

std::pair<uint64_t, uint64_t> FioEntry::size_range_of(std::string_view part) const {
  size_t dash = part.find_first_of("-:");
  uint64_t least = size_of(strip_spaces(part.substr(0, dash)));
  if (dash == std::string_view::npos) return {least, least};
  uint64_t most = size_of(strip_spaces(part.substr(dash + 1)));
  if (most < least) throw error("the range ends below its beginning");
  return {least, most};
}

}  // namespace stalltrace::workloads

// Figures in JSON that scenarios wrote, or that was read back: nothing here trusts a type.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "userspace/base/units.h"

namespace stalltrace::report {

using Figures = nlohmann::json;

inline bool has_number(const Figures& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_number();
}

// 0 where there is none.
inline double number_at(const Figures& object, const char* key) {
  return has_number(object, key) ? object[key].get<double>() : 0;
}

// "" where there is none.
inline std::string text_at(const Figures& object, const char* key) {
  bool there = object.is_object() && object.contains(key) && object[key].is_string();
  return there ? object[key].get<std::string>() : std::string();
}

inline std::string time_of_us(double us) {
  if (!std::isfinite(us) || std::fabs(us) > 9e15) return "-";
  std::string sign = us < 0 ? "-" : "";
  return sign + format_time(static_cast<uint64_t>(std::llround(std::fabs(us) * 1000)));
}

}  // namespace stalltrace::report

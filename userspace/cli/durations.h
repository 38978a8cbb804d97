// How long something shall run: a time with its unit, or, as in fio, a bare number of seconds.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "userspace/base/units.h"

namespace stalltrace::cli {

// Nanoseconds. Throws a usage Error that names `what`.
inline uint64_t parse_duration_ns(std::string_view text, std::string_view what) {
  bool bare = !text.empty() && std::all_of(text.begin(), text.end(),
                                           [](unsigned char c) { return std::isdigit(c) != 0; });
  return parse_time_ns(bare ? std::string(text) + "s" : std::string(text), what);
}

}  // namespace stalltrace::cli

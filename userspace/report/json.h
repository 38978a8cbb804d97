// A report as JSON, schema `stalltrace/1`.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "userspace/report/report.h"

namespace stalltrace::report {

inline constexpr std::string_view kSchema = "stalltrace/1";

// What was not measured is left out. All strings are valid UTF-8, whatever bytes the report holds.
nlohmann::ordered_json to_json(const Report& report);

// The same as text, with a line end: indented, but a line for each stall. Piece by piece, as a
// whole it may be large.
void put_json(const Report& report, const std::function<void(std::string_view)>& put);
std::string json_text(const Report& report);

nlohmann::ordered_json device_json(const DeviceInfo& device);

// Microseconds with at most three decimals; exact for anything under 104 days.
nlohmann::ordered_json us_json(uint64_t ns);

// A `{dist}` of times in microseconds, and one of plain numbers (callers per flush).
nlohmann::ordered_json times_json(const Dist& dist);
nlohmann::ordered_json numbers_json(const Dist& dist);

}  // namespace stalltrace::report

// What a text about a hang says, as JSON, schema `stalltrace.explain/1`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/dump/explain.h"

namespace stalltrace::report {

inline constexpr std::string_view kExplainSchema = "stalltrace.explain/1";

nlohmann::ordered_json explain_json(const dump::Dump& dump, const dump::Explanation& explanation,
                                    std::string_view source, std::string_view version,
                                    const std::vector<std::string>& command);

}  // namespace stalltrace::report

// A report read back from its JSON, on any machine.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "userspace/report/report.h"

namespace stalltrace::report {

// `what` names the input in errors (a file name). Members that this version does not know are
// ignored, members left out stay absent. Throws a usage Error that says where and what is wrong:
// "run.json: stalls[3].parts[0].class: 'journal.foo' is no wait class".
Report from_json(const nlohmann::ordered_json& json, std::string_view what = "report");

// The same from text. Throws a usage Error for text that is not JSON, too.
Report read_json(std::string_view text, std::string_view what = "report");

}  // namespace stalltrace::report

// What a text about a hang says, for people at a terminal.
#pragma once

#include <string>
#include <string_view>

#include "userspace/dump/explain.h"
#include "userspace/report/text.h"

namespace stalltrace::report {

// The conclusion first, then what the tasks wait for, then each kind of wait with its stack, then
// what to do next. `source` names the text: a file, or "standard input".
std::string explain_text(const dump::Dump& dump, const dump::Explanation& explanation,
                         std::string_view source, const TextStyle& style = {});

}  // namespace stalltrace::report

// From a text about a hang to the tasks in it.
#pragma once

#include <string>
#include <string_view>

#include "userspace/dump/task.h"

namespace stalltrace::dump {

// Never fails: what is no stack is passed over. Tasks come in the order of the text; of a task that
// is reported several times (by pid and name) the last report counts. The result points into
// `text`.
Dump parse(std::string_view text);

// What terminals and old machines leave in a text: colours gone, line ends as they are here.
std::string plain_text(std::string_view text);

}  // namespace stalltrace::dump

// A report for people at a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "userspace/report/report.h"

namespace stalltrace::report {

struct TextStyle {
  size_t width = 100;  // columns; at least 60 are used
  bool color = false;
  bool utf8 = false;        // else ASCII only
  size_t most_groups = 10;  // groups of like stalls that are printed in full
};

// What was lost and cannot be said comes first, then the stalls, longest first, then the figures
// around them. No line is wider than the terminal, and nothing that a task or file is called can
// do anything to it.
std::string to_text(const Report& report, const TextStyle& style = {});

// Stalls as they are told while tracing goes on, under a line with the time of day; `others`: how
// many more have ended. "" if there is nothing to tell.
std::string live_text(const Report& report, uint64_t others, const std::string& time_of_day,
                      const TextStyle& style = {});

}  // namespace stalltrace::report

// Other programs, run to their end.
#pragma once

#include <string>
#include <vector>

namespace stalltrace {

struct CommandEnd {
  int status = 0;  // its exit status; 128 + signal for one that was killed, 127 if there is none
  std::string output;  // what it printed, errors too if they were asked for
};

// In a process group of its own, so that Ctrl-C is ours to understand, with `input` on its standard
// input. Throws a failed Error if it cannot be started at all.
CommandEnd run_command(const std::vector<std::string>& words, const std::string& input = {},
                       bool with_errors = true);

// As above; a failed Error with its first line of output unless it ends with 0.
void need_command(const std::vector<std::string>& words);

}  // namespace stalltrace

// Stacks as people write them.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace stalltrace::kernel {

// Innermost first, joined by '<' or blanks.
inline std::vector<std::string> frames_of(const std::string& text) {
  std::vector<std::string> frames;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word != "<") frames.push_back(word);
  }
  return frames;
}

}  // namespace stalltrace::kernel

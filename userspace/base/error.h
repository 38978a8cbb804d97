// The one way an operation says that it cannot go on: what is wrong and what to do, in one line,
// with the exit status that contract-bound scripts rely on.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace stalltrace {

enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,         // failed midway; what was gathered is still reported
  kUsage = 2,          // bad usage or input
  kRefused = 3,        // the kernel or the privileges do not allow it
  kTracerFailed = 125  // `trace -- CMD`: our own failure, so that CMD's status stays readable
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <typename... Args>
[[nodiscard]] Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::kUsage, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
[[nodiscard]] Error refused_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::kRefused, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
[[nodiscard]] Error failed_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::kFailed, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace stalltrace

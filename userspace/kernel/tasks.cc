#include "userspace/kernel/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace stalltrace::kernel {

std::optional<std::string> comm_of(pid_t tid) {
  std::ifstream file(fmt::format("/proc/{}/comm", tid));
  std::string comm;
  // A comm may hold a newline; the file ends in one of its own.
  std::getline(file, comm, '\0');
  if (comm.empty()) return std::nullopt;
  if (comm.back() == '\n') comm.pop_back();
  return comm;
}

std::string cmdline_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::ostringstream text;
  text << file.rdbuf();
  std::string cmdline = text.str();
  while (!cmdline.empty() && cmdline.back() == '\0') cmdline.pop_back();
  std::replace(cmdline.begin(), cmdline.end(), '\0', ' ');
  return cmdline;
}

std::optional<pid_t> process_of(pid_t tid) {
  std::ifstream file(fmt::format("/proc/{}/status", tid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Tgid:")) return static_cast<pid_t>(std::stol(line.substr(5)));
  }
  return std::nullopt;
}

}  // namespace stalltrace::kernel

#include "userspace/kernel/thread_now.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "userspace/base/fd.h"

namespace stalltrace::kernel {
namespace {

// Both files are generated anew at each read: one read gets all of them.
std::optional<std::string> read_now(pid_t pid, pid_t tid, std::string_view name) {
  const std::string path = fmt::format("/proc/{}/task/{}/{}", pid, tid, name);
  Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  std::array<char, 8192> buffer;
  ssize_t got = read(file.get(), buffer.data(), buffer.size());
  if (got < 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<size_t>(got));
}

}  // namespace

std::vector<std::string_view> functions_in(std::string_view text) {
  std::vector<std::string_view> functions;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t begin = line.find("] ");
    if (begin == std::string_view::npos) continue;
    line.remove_prefix(begin + 2);
    // "name.isra.0+0x1d/0x90"
    line = line.substr(0, line.find_first_of("+. "));
    if (!line.empty()) functions.push_back(line);
  }
  return functions;
}

std::optional<WaitClass> waits_for_now(pid_t pid, pid_t tid, bool writes) {
  const std::optional<std::string> stat = read_now(pid, tid, "stat");
  if (!stat) return std::nullopt;
  const size_t comm_end = stat->rfind(')');
  if (comm_end == std::string::npos || comm_end + 2 >= stat->size()) return std::nullopt;
  if ((*stat)[comm_end + 2] == 'R') return WaitClass::kCpuRun;
  const std::optional<std::string> stack = read_now(pid, tid, "stack");
  if (!stack) return std::nullopt;
  const std::vector<std::string_view> functions = functions_in(*stack);
  // It went on between the two looks.
  if (functions.empty()) return WaitClass::kCpuRun;
  return classify(functions, {.journal_thread = false,
                              .transaction_running = false,
                              .is_write = writes,
                              .preempted = false});
}

}  // namespace stalltrace::kernel

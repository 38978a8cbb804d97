#include "userspace/kernel/capabilities.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "userspace/base/error.h"
#include "userspace/kernel/devices.h"

namespace stalltrace::kernel {
namespace {

// Debug options that slow down what we measure, and a file that exists only with them: most
// kernels do not carry their configuration along.
struct DebugOption {
  const char* name;
  const char* trace_of_it;
};
constexpr std::array<DebugOption, 7> kDebugOptions{
    {{"JBD2_DEBUG", "/sys/module/jbd2/parameters/jbd2_debug"},
     {"LOCKDEP", "/proc/lockdep"},
     {"LOCK_STAT", "/proc/lock_stat"},
     {"DEBUG_KMEMLEAK", "/sys/kernel/debug/kmemleak"},
     {"KASAN", "/sys/module/kasan"},
     {"KCSAN", "/sys/kernel/debug/kcsan"},
     {"DEBUG_RWSEMS", nullptr}}};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int> number_in(const std::string& path) {
  std::ifstream file(path);
  int number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

std::vector<std::string> find_debug_options(const std::string& release) {
  std::vector<std::string> found;
  std::string config = text_of("/boot/config-" + release);
  if (config.empty()) config = text_of("/lib/modules/" + release + "/config");
  if (!config.empty()) found = debug_options_in_config(config);
  for (const DebugOption& option : kDebugOptions) {
    if (option.trace_of_it == nullptr) continue;
    if (std::find(found.begin(), found.end(), option.name) != found.end()) continue;
    std::error_code error;
    if (std::filesystem::exists(option.trace_of_it, error)) found.emplace_back(option.name);
  }
  return found;
}

}  // namespace

Privileges parse_privileges(std::istream& status) {
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("CapEff:")) continue;
    uint64_t bits = 0;
    size_t digits = std::min(line.find_first_not_of(" \t", 7), line.size());
    std::from_chars(line.data() + digits, line.data() + line.size(), bits, 16);
    auto has = [bits](int capability) { return (bits >> capability & 1) != 0; };
    return {.bpf = has(CAP_BPF),
            .perfmon = has(CAP_PERFMON),
            .sys_admin = has(CAP_SYS_ADMIN),
            .sys_resource = has(CAP_SYS_RESOURCE),
            .syslog = has(CAP_SYSLOG),
            .sys_ptrace = has(CAP_SYS_PTRACE)};
  }
  throw failed_error("/proc/self/status has no CapEff line");
}

std::string parse_lockdown(const std::string& text) {
  return text.find('[') == std::string::npos ? "" : parse_scheduler(text);
}

std::vector<std::string> debug_options_in_config(const std::string& config) {
  std::vector<std::string> found;
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);) {
    for (const DebugOption& option : kDebugOptions) {
      if (line == fmt::format("CONFIG_{}=y", option.name)) found.emplace_back(option.name);
    }
  }
  return found;
}

std::string parse_cpu_model(std::istream& cpuinfo) {
  for (std::string line; std::getline(cpuinfo, line);) {
    size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

Capabilities detect_capabilities() {
  Capabilities result;
  utsname names{};
  uname(&names);
  result.release = names.release;
  result.arch = names.machine;
  result.cpus = static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  std::ifstream cpuinfo("/proc/cpuinfo");
  result.cpu = parse_cpu_model(cpuinfo);
  result.has_btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
  result.lockdown = parse_lockdown(text_of("/sys/kernel/security/lockdown"));
  result.kptr_restrict = number_in("/proc/sys/kernel/kptr_restrict");
  result.unprivileged_bpf_disabled = number_in("/proc/sys/kernel/unprivileged_bpf_disabled");
  std::ifstream status("/proc/self/status");
  result.effective = parse_privileges(status);
  // CAP_SYS_ADMIN stands in for the two that 5.8 split off from it.
  bool may_trace = result.effective.sys_admin || (result.effective.bpf && result.effective.perfmon);
  result.unprivileged = !may_trace;
  result.tracefs = access("/sys/kernel/tracing/events", R_OK | X_OK) == 0 ||
                   access("/sys/kernel/debug/tracing/events", R_OK | X_OK) == 0;
  result.preempt_rt = number_in("/sys/kernel/realtime").value_or(0) != 0;
  result.debug_options = find_debug_options(result.release);
  return result;
}

}  // namespace stalltrace::kernel

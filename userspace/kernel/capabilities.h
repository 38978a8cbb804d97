// What this kernel and these privileges allow, for `doctor`.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace stalltrace::kernel {

struct Privileges {
  bool bpf = false;           // CAP_BPF
  bool perfmon = false;       // CAP_PERFMON
  bool sys_admin = false;     // CAP_SYS_ADMIN
  bool sys_resource = false;  // CAP_SYS_RESOURCE
  bool syslog = false;        // CAP_SYSLOG
  bool sys_ptrace = false;    // CAP_SYS_PTRACE
};

struct Capabilities {
  std::string release;  // uname -r
  std::string arch;     // uname -m
  unsigned cpus = 0;    // online
  std::string cpu;      // the first's model, as /proc/cpuinfo has it; empty: not told
  bool has_btf = false;
  std::string lockdown;  // "none", "integrity", "confidentiality"; empty: no file
  std::optional<int> kptr_restrict;
  std::optional<int> unprivileged_bpf_disabled;
  Privileges effective;
  bool unprivileged = false;  // cannot load tracing programs: neither root's caps nor BPF's
  bool tracefs = false;       // mounted, and readable by us
  bool preempt_rt = false;    // sleeping locks have other stacks and lock events there
  std::vector<std::string> debug_options;  // costly ones that are on: "JBD2_DEBUG", "LOCKDEP"...
};

Capabilities detect_capabilities();

// CapEff of /proc/PID/status text. Throws a failed Error when there is no such line.
Privileges parse_privileges(std::istream& status);
// "model name : Intel Xeon" of /proc/cpuinfo text -> "Intel Xeon"; empty without such a line.
std::string parse_cpu_model(std::istream& cpuinfo);
// "none [integrity] confidentiality" -> "integrity".
std::string parse_lockdown(const std::string& text);
// Debug options of kernel configuration text that change timing.
std::vector<std::string> debug_options_in_config(const std::string& config);

}  // namespace stalltrace::kernel

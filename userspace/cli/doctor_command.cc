// `stalltrace doctor`: what this kernel, these privileges and these mounts let us see.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "userspace/base/error.h"
#include "userspace/capture/capture.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/output.h"
#include "userspace/cli/tracing.h"
#include "userspace/kernel/capabilities.h"
#include "userspace/kernel/symbols.h"

namespace stalltrace::cli {
namespace {

using nlohmann::ordered_json;

struct Findings {
  kernel::Capabilities kernel;
  std::vector<capture::HookState> hooks;
  std::vector<kernel::Device> devices;
  std::vector<std::string> obstacles;  // each alone is reason enough to see nothing
  std::vector<std::string> lost;       // results that some missing hook takes away

  [[nodiscard]] bool can_explain() const { return obstacles.empty(); }
};

// The hooks as they are once really loaded and attached: a list of what BTF has would promise
// what the verifier or a policy then refuses.
void try_hooks(Findings& findings) {
  try {
    findings.hooks = capture::probe_hooks({});
  } catch (const Error& error) {
    findings.obstacles.emplace_back(error.what());
    return;
  }
  if (std::string why = capture::why_bpf_is_refused(); !why.empty()) {
    findings.obstacles.push_back(why);
    return;
  }
  try {
    kernel::SymbolTable symbols = kernel::SymbolTable::load();
    capture::Capture capture({}, symbols, [](std::span<const std::byte>) {});
    findings.hooks = capture.hooks();
  } catch (const Error& error) {
    findings.obstacles.emplace_back(error.what());
  }
}

Findings examine() {
  Findings findings;
  findings.kernel = kernel::detect_capabilities();
  try_hooks(findings);
  for (const capture::HookState& hook : findings.hooks) {
    if (hook.ok || hook.lost.empty()) continue;
    if (std::find(findings.lost.begin(), findings.lost.end(), hook.lost) == findings.lost.end()) {
      findings.lost.push_back(hook.lost);
    }
  }
  try {
    findings.devices = all_devices();
  } catch (const Error&) {
    // none mounted: said in the text
  }
  return findings;
}

std::string what_is_seen(const kernel::Device& device) {
  if (device.fs == "ext4" && device.has_journal) return "all: calls, journal, locks, device";
  if (device.fs == "ext4") return "no journal: calls, locks, device";
  return "calls, locks by stack, device; not the file system's own log";
}

void print_text(const Findings& f) {
  const kernel::Capabilities& k = f.kernel;
  fmt::print("kernel      {} {}, {} CPUs\n", k.release, k.arch, k.cpus);
  fmt::print("BTF         {}\n", k.has_btf ? "yes" : "no (needs CONFIG_DEBUG_INFO_BTF=y)");
  fmt::print("lockdown    {}\n", k.lockdown.empty() ? "none" : k.lockdown);
  fmt::print("privileges  {}\n",
             k.unprivileged ? "not enough: CAP_BPF and CAP_PERFMON, or root" : "enough");
  if (!k.debug_options.empty()) {
    fmt::print("careful     this kernel has {}: timings differ from production kernels\n",
               fmt::join(k.debug_options, ", "));
  }
  size_t ok = static_cast<size_t>(std::count_if(
      f.hooks.begin(), f.hooks.end(), [](const capture::HookState& hook) { return hook.ok; }));
  if (!f.hooks.empty()) {
    fmt::print("\nhooks       {} of {} {}\n", ok, f.hooks.size(),
               f.can_explain() ? "work" : "are in the kernel");
    for (const capture::HookState& hook : f.hooks) {
      if (hook.ok) {
        fmt::print("  {:<26} {}\n", hook.name, hook.method);
      } else {
        fmt::print("  {:<26} missing  {}\n", hook.name, hook.why);
      }
    }
  }
  if (!f.lost.empty()) {
    fmt::print("\nlost with the missing hooks\n");
    for (const std::string& lost : f.lost) fmt::print("  {}\n", lost);
  }
  fmt::print(
      "\nbounds      exact: calls begin and end at the syscall tracepoints, which every "
      "syscall of the machine passes\n");
  fmt::print("\nfile systems on block devices{}\n", f.devices.empty() ? ": none" : "");
  for (const kernel::Device& device : f.devices) {
    fmt::print("  {:<12} {:<6} {:<20} {}\n", device.name, device.fs, device.mountpoint,
               what_is_seen(device));
  }
  fmt::print("\n");
  for (const std::string& obstacle : f.obstacles) fmt::print("obstacle: {}\n", obstacle);
  fmt::print("{}\n", f.can_explain() ? "Stalls can be explained here."
                                     : "Stalls cannot be explained here.");
}

ordered_json to_json(const Findings& f) {
  ordered_json hooks = ordered_json::array();
  for (const capture::HookState& hook : f.hooks) {
    ordered_json one{{"name", hook.name}, {"method", hook.method}, {"ok", hook.ok}};
    one["why"] = hook.why;
    hooks.push_back(std::move(one));
  }
  ordered_json devices = ordered_json::array();
  for (const kernel::Device& device : f.devices) {
    devices.push_back({{"dev", kernel::kdev_text(device.disk)},
                       {"name", device.name},
                       {"fs", device.fs},
                       {"mountpoint", device.mountpoint},
                       {"journal", device.has_journal},
                       {"seen", what_is_seen(device)}});
  }
  return {
      {"schema", "stalltrace.doctor/1"},
      {"host", {{"kernel", f.kernel.release}, {"cpus", f.kernel.cpus}, {"arch", f.kernel.arch}}},
      {"btf", f.kernel.has_btf},
      {"lockdown", f.kernel.lockdown.empty() ? "none" : f.kernel.lockdown},
      {"privileged", !f.kernel.unprivileged},
      {"debug_options", f.kernel.debug_options},
      {"bounds", "exact"},
      {"hooks", hooks},
      {"missing_results", f.lost},
      {"devices", devices},
      {"obstacles", f.obstacles},
      {"can_explain", f.can_explain()}};
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  auto json = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("doctor", "what can be seen on this kernel, with these privileges");
  command->add_option("--json", *json, "write it as JSON (- for standard output)")
      ->type_name("FILE")
      ->check(kNamed);
  command->footer(
      "Exit status: 0 if stalls can be explained here, 3 if not.\n\n"
      "Example:\n  stalltrace doctor --json -");
  command->callback([json, &status] {
    if (!json->empty()) check_writable(*json, "--json");
    Findings findings = examine();
    if (*json != "-") print_text(findings);
    if (!json->empty()) write_text(*json, "--json", to_json(findings).dump(1) + "\n");
    status = static_cast<int>(findings.can_explain() ? ExitCode::kOk : ExitCode::kRefused);
  });
}

}  // namespace stalltrace::cli

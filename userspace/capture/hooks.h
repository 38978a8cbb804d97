// Every hook of the BPF side: the tracepoint it needs, and the results that are lost without it.
// `doctor` and the report's missing results are derived from this table, and from nothing else.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::capture {

enum class HookKind { kTracepoint, kTaskIterator, kFunction };

struct HookSpec {
  std::string_view program;  // name of the BPF program
  std::string_view
      tracepoint;  // typedef btf_trace_NAME in the kernel's BTF, or the function's name;
                   // "" for iterators
  HookKind kind;
  bool essential;                // without it no stall can be explained at all
  std::string_view alternative;  // a hook that does the same on other kernels; "" none
  std::string_view lost;         // the results that go missing with it
  bool fallback = false;         // it costs more than its alternative: only where that is missing
};

std::span<const HookSpec> hook_table();

struct HookState {
  std::string name;
  std::string method;  // "tp_btf", "iter", "fentry", "none"
  bool ok = false;
  bool essential = false;
  std::string why;   // empty if ok
  std::string lost;  // empty if ok
};

// Which hooks this kernel offers, by its BTF (modules included). Hooks in `disabled` are treated
// as absent. A hook whose alternative is present is not listed. Throws a refused Error if the
// kernel has no BTF.
std::vector<HookState> probe_hooks(std::span<const std::string> disabled);

}  // namespace stalltrace::capture

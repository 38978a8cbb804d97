// The stack table: which functions on a stack mean which wait.
#pragma once

#include <span>
#include <string_view>

#include "userspace/kernel/wait_class.h"

namespace stalltrace::kernel {

// What decides between two classes of a row that the stack leaves open.
enum class Depends : uint8_t {
  kNothing,
  kDirection,    // wait_class, or block.write in a call that writes
  kTransaction,  // wait_class, or journal.credits while the transaction still runs
};

// Lists of symbols are separated by blanks; a trailing '*' stands for any rest. A row matches when
// each list that is not empty has a symbol on the stack (`none`: has none), on any frame and in any
// order: which functions are inlined or tail-called away differs from kernel to kernel, so that
// neighbourhood means nothing. Only `leaf` looks at one frame, the innermost that is not generic.
struct WaitRow {
  std::string_view number = {};  // several rows may share one
  WaitClass wait_class = WaitClass::kOther;
  std::string_view leaf = {};
  std::string_view any = {};
  std::string_view with = {};
  std::string_view none = {};
  Depends depends = Depends::kNothing;
  bool guess = false;  // from what called the function that sleeps, which the stack leaves out
  std::string_view meaning = {};  // for people
};

// First match wins. The journal thread's own rows are asked before the general ones, those for
// stacks without the function that sleeps after them.
std::span<const WaitRow> journal_thread_table();
std::span<const WaitRow> wait_table();
std::span<const WaitRow> proc_stack_table();

}  // namespace stalltrace::kernel

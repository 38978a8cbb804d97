// Lines that say whose stack follows (or went before).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/dump/task.h"

namespace stalltrace::dump {

struct Header {
  enum class Kind : uint8_t {
    kHung,   // "INFO: task fio:12 blocked for more than 120 seconds."
    kTask,   // "task:fio state:D ...", "fio  D ffff... 0 12 1 0x00000080"
    kOnCpu,  // "CPU: 3 PID: 12 Comm: fio ..."
    kCrash,  // "PID: 12 TASK: ... COMMAND: "fio""
    kPerf,   // "fio 12 [001] 17.5: sched:sched_switch: ..."
    kAfter,  // "-    fio (12)" behind a stack of bcc
  };
  Kind kind = Kind::kTask;
  std::string comm = {};
  uint32_t pid = 0;
  char state = 0;
  bool on_cpu = false;
  uint64_t blocked_s = 0;
};

// `by_tools`: may be a line of perf or bcc, not only the kernel's.
std::optional<Header> parse_header(std::string_view text, bool by_tools = true);

// Headings that people and scripts put over a /proc/PID/stack: "==> /proc/12/stack <==",
// "== 12 fio D ==", "fio (12):", "fio". `is_path`: it names a file of /proc, `file` its last part.
struct Title {
  std::string comm = {};
  uint32_t pid = 0;
  char state = 0;
  bool is_path = false;
  std::string_view file = {};
};
std::optional<Title> parse_title(std::string_view text);

// "/proc/12/task/13/stack:REST" as grep prints it. `rest` becomes what is behind the colon.
std::optional<Title> take_proc_path(std::string_view text, std::string_view& rest);

// "INFO: task A:1 is blocked on a mutex likely owned by task B:2."
struct BlockedLine {
  uint32_t pid = 0;
  BlockedBy by;
};
std::optional<BlockedLine> parse_blocked_by(std::string_view text);

// "2 locks held by fio/12:" and the lines below it.
struct LockOwner {
  std::string comm;
  uint32_t pid = 0;
};
std::optional<LockOwner> parse_lock_owner(std::string_view text);
std::optional<HeldLock> parse_held_lock(std::string_view text);

// "5.10.184-generic" out of "Not tainted 5.10.184-generic #1".
std::string_view kernel_release_in(std::string_view text);

}  // namespace stalltrace::dump

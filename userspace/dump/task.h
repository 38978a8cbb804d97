// Tasks as a text about a hang shows them. Names of functions are views into that text, which must
// outlive them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::dump {

// Which kind of text a stack came from.
enum class Form : uint8_t {
  kKernelLog,  // hung-task reports, sysrq-w, sysrq-t, warnings
  kOnCpu,      // sysrq-l, watchdogs: the task was on a CPU
  kProcStack,  // /proc/PID/stack
  kCrash,      // crash's bt
  kPerf,       // perf script
  kSystemtap,
  kLatencyStats,  // /proc/latency_stats
  kBpftrace,      // kstack
  kBcc,           // offcputime -K and its like
  kJson,          // a list of strings
  kFtrace,        // histogram keys, stack traces
  kPlain,         // names, joined by " < " or one a line
};
std::string_view name_of(Form form);

struct Frame {
  std::string_view symbol;  // without offset and compiler suffix
  bool unreliable = false;  // the kernel marked it with '?': perhaps an old call
};

// As lockdep lists it. A lock that its task still waits for is listed as well.
struct HeldLock {
  std::string_view address;
  std::string_view name;   // "jbd2_handle", "&sb->s_type->i_mutex_key#10"
  std::string_view where;  // the function that took it
};

// "is blocked on a mutex likely owned by task X:12", since 6.16.
struct BlockedBy {
  std::string_view lock;  // "mutex", "rw-semaphore"
  std::string owner_comm;
  uint32_t owner_pid = 0;
  bool owner_reads = false;
};

struct Task {
  std::string comm;  // empty: the text does not say
  uint32_t pid = 0;  // 0: the text does not say
  char state = 0;    // 'D', 'S', 'R' and so on; 0: the text does not say
  bool on_cpu = false;
  Form form = Form::kKernelLog;
  std::vector<Frame> frames;  // innermost first
  std::string workqueue;      // what a worker was working on, "writeback wb_workfn (flush-8:0)"
  std::optional<BlockedBy> blocked_by;
  std::vector<HeldLock> locks;
  uint64_t blocked_s = 0;  // by a hung-task report; 0: not said
  uint64_t count = 1;      // how often a histogram has seen this stack
  uint64_t total_us = 0;   // by a histogram of times; 0: not said
  uint64_t max_us = 0;
  size_t line = 0;        // of the text, from 1: where the task's first line stands
  size_t times_seen = 1;  // reports of the same task in one text
  bool moved = false;     // these reports had different stacks
};

// What a text holds.
struct Dump {
  std::vector<Task> tasks;
  std::string kernel;  // release, if a line tells it
  size_t lines = 0;
  bool cut = false;                 // the last stack ends where the text does, without its end
  bool sysrq_all = false;           // lists tasks of every state (sysrq-t)
  bool lists_blocked_only = false;  // sysrq-w or hung-task reports and nothing else
  bool has_locks = false;           // lockdep's list is in it
  double first_s = -1;  // the kernel's clock on the first and last task's line; -1: not shown
  double last_s = -1;
};

}  // namespace stalltrace::dump

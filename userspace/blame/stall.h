// A stalled call explained: parts that tile the call, causes that tile each part, roots that tile
// the call again. Plain values; every interval is [start_ns, start_ns + ns) of CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/wire.h"
#include "userspace/kernel/wait_class.h"

namespace stalltrace::blame {

struct TaskName {
  uint32_t tid = 0;  // 0: no task
  uint32_t pid = 0;
  std::string comm;
};

enum class Sure { kMeasured, kInferred, kGuess };
std::string_view name_of(Sure sure);

// Where a chain ends (contract: "Root causes").
enum class RootKind {
  kDeviceFlush,
  kDeviceWrite,
  kDeviceRead,
  kDeviceQueue,
  kDeviceHung,
  kTaskCpu,
  kTaskRunnable,
  kReaders,
  kUser,
  kMemory,
  kThrottle,
  kFrozen,
  kKnob,
  kSelf,
  kUnexplained,
};
std::string_view name_of(RootKind kind);  // "device.flush", "task.cpu", ...

struct Root {
  RootKind kind = RootKind::kUnexplained;
  uint32_t dev = 0;  // whole disk; 0: none
  TaskName task;     // for task.*, user, self, knob
  uint64_t ns = 0;
  Sure sure = Sure::kMeasured;
};

enum class CauseKind { kCommit, kHandle, kHolder, kFlush, kRequest, kTask, kKnob };
std::string_view name_of(CauseKind kind);

// One link of a chain. Its causes lie inside it and tile it; a link without causes is where the
// chain ends, and has the root.
struct Cause {
  CauseKind kind = CauseKind::kTask;
  std::string id;  // commit: tid; request: sector; handle: tid/task; flush: serial number
  uint32_t dev = 0;
  TaskName task;
  TaskName owner;  // whose doing it was, where that is not `task`: who wrote the data, say
  bool owns_metadata = false;  // ... or dirtied most of the metadata
  std::string path;            // of what, "" if unknown
  uint64_t start_ns = 0;
  uint64_t ns = 0;
  std::string
      text;  // one phrase a person understands: "commit 8841 was locked, waiting for 1 handle"
  Sure sure = Sure::kMeasured;
  std::vector<std::string> evidence;
  // Not 0: so many links in one stretch of neighbours, summed up by root. Its length is exact, its
  // place in the stretch of such links is not.
  uint32_t turns = 0;
  std::vector<Cause> causes;
  Root root;  // valid when causes is empty; root.ns == ns
};

struct Part {
  kernel::WaitClass wait_class = kernel::WaitClass::kOther;
  uint64_t start_ns = 0;
  uint64_t ns = 0;
  std::vector<std::string> stack;  // innermost first, meaningful frames
  std::vector<Cause> causes;       // empty: the part is its own explanation, see root
  Root root;                       // valid when causes is empty
};

enum class Cut { kNone, kStart, kEnd };

// Where a task lives, if that is not where everybody does.
struct Home {
  uint64_t cgroup_id = 0;
  std::string cgroup;                     // "" if unknown
  uint32_t inner_pid = 0, inner_tid = 0;  // in its own pid namespace; 0: in the initial one
  uint32_t mnt_ns = 0;
  std::string path_in_fs, inner_path;  // of the call's file; "" if unknown
};

struct Stall {
  uint64_t id = 0;
  wire::wire_call_kind kind = wire::CALL_NONE;
  TaskName task;
  Home home;
  uint32_t dev = 0;     // whole disk
  uint32_t fs_dev = 0;  // file system's device (partition)
  uint64_t ino = 0;
  std::string path;  // "" if unknown
  uint64_t user_id = 0;
  uint64_t start_ns = 0;
  uint64_t ns = 0;
  Cut cut = Cut::kNone;
  bool unfinished = false;
  // Time in sleeps and waits for a CPU too short to have been sent one by one: parts that stand for
  // many, at a place that is not theirs.
  uint64_t folded_ns = 0;
  std::vector<Part> parts;
  std::vector<Root> roots;  // merged by (kind, dev, task), longest first
};

}  // namespace stalltrace::blame

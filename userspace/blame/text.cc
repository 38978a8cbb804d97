#include "userspace/blame/text.h"

#include <fmt/format.h>

#include <array>

#include "userspace/base/units.h"

namespace stalltrace::blame {
namespace {

template <size_t N>
std::string_view pick(const std::array<std::string_view, N>& names, size_t i,
                      std::string_view other) {
  return i < N ? names[i] : other;
}

void find_longest(const std::vector<Cause>& causes, const Root*& longest) {
  for (const Cause& cause : causes) {
    if (!cause.causes.empty()) {
      find_longest(cause.causes, longest);
    } else if (longest == nullptr || cause.root.ns > longest->ns) {
      longest = &cause.root;
    }
  }
}

}  // namespace

std::string_view name_of(Sure sure) {
  constexpr std::array<std::string_view, 3> kNames{"measured", "inferred", "guess"};
  return kNames.at(static_cast<size_t>(sure));
}

std::string_view name_of(RootKind kind) {
  constexpr std::array<std::string_view, 15> kNames{
      "device.flush", "device.write",  "device.read", "device.queue", "device.hung",
      "task.cpu",     "task.runnable", "readers",     "user",         "memory",
      "throttle",     "frozen",        "knob",        "self",         "unexplained"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string_view name_of(CauseKind kind) {
  constexpr std::array<std::string_view, 7> kNames{"commit",  "handle", "holder", "flush",
                                                   "request", "task",   "knob"};
  return kNames.at(static_cast<size_t>(kind));
}

TaskName task_name(const wire::wire_task& task) {
  if (task.tid == 0) return {};
  return {task.tid, task.pid, std::string(model::comm_of(task))};
}

std::string text_of(const TaskName& task) {
  if (task.tid == 0) return "a task that was not seen";
  return fmt::format("{}[{}]", task.comm, task.tid);
}

std::string_view handle_text(uint32_t type) {
  constexpr std::array<std::string_view, 12> kNames{
      "miscellaneous",    "inode update", "page write", "block mapping",
      "directory change", "truncate",     "quota",      "resize",
      "migration",        "extent move",  "attributes", "extent conversion"};
  return pick(kNames, type, "of an unknown type");
}

std::string_view op_text(uint32_t op) {
  // enum req_op (include/linux/blk_types.h), the same from 5.15 on
  constexpr std::array<std::string_view, 10> kNames{"read",    "write",        "flush",   "discard",
                                                    "request", "secure erase", "request", "request",
                                                    "request", "zeroing"};
  return pick(kNames, op & 0xff, "request");
}

std::string phrase_of(const Root& root, const model::Trace& trace) {
  std::string device = root.dev != 0 ? trace.device_name(root.dev) : "an unknown device";
  switch (root.kind) {
    case RootKind::kDeviceFlush:
      return fmt::format("a flush of {}", device);
    case RootKind::kDeviceWrite:
      return fmt::format("a write of {}", device);
    case RootKind::kDeviceRead:
      return fmt::format("a read of {}", device);
    case RootKind::kDeviceQueue:
      return fmt::format("its turn in the queue of {}", device);
    case RootKind::kDeviceHung:
      return fmt::format("{}, which completes nothing", device);
    case RootKind::kTaskCpu:
      return fmt::format("{}, which was running", text_of(root.task));
    case RootKind::kTaskRunnable:
      return root.task.tid != 0 ? fmt::format("a CPU, where {} ran", text_of(root.task)) : "a CPU";
    case RootKind::kReaders:
      return "readers";
    case RootKind::kUser:
      return "user space";
    case RootKind::kMemory:
      return "memory";
    case RootKind::kThrottle:
      return "a throttle";
    case RootKind::kFrozen:
      return "something frozen";
    case RootKind::kKnob:
      return "the batching sleep";
    case RootKind::kSelf:
      return "itself";
    case RootKind::kUnexplained:
      break;
  }
  return "something that was not seen";
}

const Root* longest_root(const std::vector<Cause>& causes) {
  const Root* longest = nullptr;
  find_longest(causes, longest);
  return longest;
}

}  // namespace stalltrace::blame

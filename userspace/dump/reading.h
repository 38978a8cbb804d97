// What one task's stack says about it, before it is set against the others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "userspace/dump/task.h"
#include "userspace/kernel/wait_class.h"

namespace stalltrace::dump {

// A text about a hang is a snapshot: nothing in it is measured.
enum class Sure : uint8_t { kInferred, kGuess };
std::string_view name_of(Sure sure);
inline Sure weaker(Sure a, Sure b) {
  return a == Sure::kGuess ? a : b;
}

// Whether the task is between jbd2_journal_start() and jbd2_journal_stop().
enum class Handle : uint8_t {
  kNone,
  kPerhaps,  // in a function that has one open for a part of its way
  kOpen,     // in a function that is only ever called with one, or lockdep lists it
};

// What a task has to do with an inode's lock besides waiting for it.
enum class HoldsInode : uint8_t { kNo, kShared, kExclusive };

struct Reading {
  kernel::WaitClass wait_class = kernel::WaitClass::kOther;
  std::string_view row;      // of the stack table; empty when nothing fitted
  std::string_view meaning;  // one clause: what it waits for
  Sure sure = Sure::kInferred;
  bool journal_thread = false;
  bool runnable = false;     // state R: it waits for nothing but a CPU
  bool idle = false;         // has nothing to do, or waits for its user
  bool of_the_dump = false;  // its stack is that of making the dump
  Handle handle = Handle::kNone;
  std::string_view handle_frame;  // the function that shows it; "lockdep" for lockdep's list
  HoldsInode inode = HoldsInode::kNo;
  std::string_view inode_frame;
  // A worker of a loop device: what it does for the device, "flush", "write" or "read"; it is the
  // device, not one that waits for it.
  std::string_view serves;
  std::vector<std::string_view> frames;  // the trustworthy ones, innermost first
};

// `kernel`: the release, "" if it is not known.
Reading read_stack(const Task& task, std::string_view kernel = {});

bool has_frame(const Reading& reading, std::string_view symbol);

}  // namespace stalltrace::dump

// From the tasks of a text to who waits for whom, and where it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/dump/reading.h"
#include "userspace/dump/task.h"

namespace stalltrace::dump {

// One step of a chain: `task` (an index into Dump::tasks) does what the text says.
struct Link {
  std::string text;
  Sure sure = Sure::kInferred;
  std::optional<size_t> task;
  std::vector<size_t> also;  // others that it may be just as well
};

// Where chains end.
struct Root {
  std::string cause;  // "device.flush" and so on; "cycle" for a deadlock
  Sure sure = Sure::kInferred;
  std::string text;  // one sentence
  std::optional<size_t> task;
  std::string dev;              // a name or MAJOR:MINOR; empty: the text does not say
  std::vector<size_t> waiting;  // tasks whose chain ends here
  std::vector<Link> chain;      // from those most of them are in, to the root
};

// `from` waits for something that `to` has.
struct Edge {
  size_t from = 0;
  size_t to = 0;
  std::string text;
  Sure sure = Sure::kInferred;
};
using Cycle = std::vector<Edge>;

// Tasks with one wait class and one stack.
struct Group {
  kernel::WaitClass wait_class = kernel::WaitClass::kOther;
  std::string meaning;
  Sure sure = Sure::kInferred;
  std::vector<size_t> tasks;
  std::optional<size_t> root;  // index into Explanation::roots
};

// A journal's thread.
struct Committer {
  size_t task = 0;
  std::string dev;
  kernel::WaitClass phase = kernel::WaitClass::kOther;
  Sure sure = Sure::kInferred;
  bool idle = false;
};

// What to do next.
struct Advice {
  std::string text;
  std::vector<std::string> commands;
};

struct Explanation {
  std::vector<Reading> readings;  // one per task of the dump
  std::vector<Group> groups;      // tasks that wait or hold something; the largest first
  std::vector<Committer> committers;
  std::vector<Root> roots;  // that with most tasks behind it first
  std::vector<Cycle> cycles;
  std::vector<Advice> advice;
  std::vector<std::string> notes;  // what the reader should know of this text
  size_t blocked = 0;              // tasks that wait for something, journal threads apart
  size_t runnable = 0;
  size_t idle = 0;
  size_t without_stack = 0;     // runnable ones whose stack the text does not show
  bool holder_missing = false;  // a commit waits for a handle that no task here is seen to hold
};

Explanation explain(const Dump& dump);

// "fio[12]", "fio", "task 12", "the task of line 7".
std::string label_of(const Task& task);
// The device that a worker's or journal thread's name tells; empty when it tells none.
std::string device_of(const Task& task);

}  // namespace stalltrace::dump

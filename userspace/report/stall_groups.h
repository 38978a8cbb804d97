// Stalls that are one event seen by many: forty writers behind one commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/blame/stall.h"

namespace stalltrace::report {

struct StallGroup {
  std::vector<size_t> members;  // indexes, longest first: the first stands for all
  uint64_t ns = 0;              // of all together
  uint64_t shortest_ns = 0;
  uint64_t longest_ns = 0;
  // The same story at other times, when told once (merge_recurring): how often, and its stalls.
  size_t other_times = 0;
  std::vector<size_t> elsewhere;  // indexes, longest first
};

// Together are stalls of one kind of call on one device whose longest wait has the same class and
// the same chain (the same commit, the same flush), whose root is the same, and which overlap in
// time. Groups come longest first.
std::vector<StallGroup> group_stalls(const std::vector<blame::Stall>& stalls);

// Groups that differ in nothing but the time and the numbers of commits and flushes become one: the
// longest stays as it is and has the others' stalls `elsewhere`.
std::vector<StallGroup> merge_recurring(std::vector<StallGroup> groups,
                                        const std::vector<blame::Stall>& stalls);

// The class that took most of the stall; kOther for a stall without parts.
kernel::WaitClass main_class(const blame::Stall& stall);

}  // namespace stalltrace::report

// Who made others wait, by the time it cost them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "userspace/blame/tiling.h"
#include "userspace/model/trace.h"

namespace stalltrace::blame {

struct CulpritSum {
  TaskName task;
  std::string path;  // of what it was working on, "" if unknown
  std::string what;  // "held a journal handle (inode update)"
  uint64_t others_ns = 0;
  uint64_t stalls = 0;
};

// Gathered from stalls whose chains are whole.
class Culprits {
 public:
  explicit Culprits(const model::Trace& trace) : trace_(trace) {}

  void add(const Stall& stall);
  // Longest first.
  [[nodiscard]] std::vector<CulpritSum> take() &&;

 private:
  using Tids = std::set<uint32_t>;
  void visit(const Causes& causes, const Stall& stall, const Tids& above, Tids& met);
  void count(const Cause& cause, Tids& met);
  void count_owner(const Cause& cause, Tids& met);
  CulpritSum& sum_of(const TaskName& task, const Cause& cause, Tids& met);

  const model::Trace& trace_;
  std::map<std::tuple<uint32_t, CauseKind, bool>, CulpritSum> sums_;
};

}  // namespace stalltrace::blame

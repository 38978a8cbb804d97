// Stalls told while tracing goes on: those that have just ended, and those that last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "userspace/blame/stall.h"
#include "userspace/model/event_log.h"
#include "userspace/model/trace.h"

namespace stalltrace::cli {

struct LiveStalls {
  std::vector<blame::Stall> stalls;  // longest first; those that last are `unfinished`
  uint64_t others = 0;               // that ended as well and are left to the report
};

class Live {
 public:
  // `wanted`: of a call's task, whose stalls are told. Surroundings as for the trace itself.
  Live(model::Surroundings surroundings, uint64_t threshold_ns);

  // An event, from the thread that reads the ring.
  void add(std::span<const std::byte> event);

  // From one other thread. `standing`: Capture::peek, of `now_ns`. A stall that lasts is told when
  // it is a second old (or as old as the threshold), and again whenever its age has doubled.
  LiveStalls look(std::span<const std::byte> standing, uint64_t opened_ns, uint64_t now_ns);

  // Only these are told; all of them by default.
  void set_wanted(std::function<bool(const wire::wire_task&)> wanted) {
    wanted_ = std::move(wanted);
  }

 private:
  using CallKey = std::pair<uint32_t, uint64_t>;  // tid, start
  struct Ended {
    CallKey call;
    uint64_t ns;
  };
  [[nodiscard]] std::vector<CallKey> due(std::span<const std::byte> standing, uint64_t now_ns);
  [[nodiscard]] bool is_told(const wire::wire_call& call) const;

  const model::Surroundings surroundings_;
  const uint64_t threshold_ns_;
  std::function<bool(const wire::wire_task&)> wanted_;
  model::EventLog log_;
  std::mutex mutex_;
  std::vector<Ended> ended_;           // since the last look
  std::map<CallKey, uint64_t> again_;  // calls that last: when they are told again
};

}  // namespace stalltrace::cli

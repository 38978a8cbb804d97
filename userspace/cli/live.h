// Stalls told while tracing goes on: those that have just ended, and those that last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bpf/wire.h"
#include "userspace/blame/stall.h"
#include "userspace/model/event_log.h"
#include "userspace/model/trace.h"

namespace stalltrace::cli {

struct LiveStalls {
  std::vector<blame::Stall> stalls;  // longest first; those that last are `unfinished`
  uint64_t others = 0;               // that ended as well and are left to the report
};

// What stands at one moment: events (Capture::peek), and those of them that are stalls to be told.
struct Standing {
  uint64_t now_ns = 0;
  std::vector<std::byte> events;
  std::vector<wire::wire_call> calls;
};

// The event's call, if it is one.
std::optional<wire::wire_call> call_of(std::span<const std::byte> event);

class Live {
 public:
  // Surroundings as for the trace itself; `log` must outlive it.
  Live(model::Surroundings surroundings, const model::EventLog& log)
      : surroundings_(std::move(surroundings)), log_(log) {}

  // A stall that has ended, from the thread that reads the ring.
  void ended(const wire::wire_call& call);

  // From one other thread. `standing`: Capture::peek, of `now_ns`. A stall that lasts is told when
  // it is a second old (or as old as the threshold), and again whenever its age has doubled.
  LiveStalls look(const Standing& standing, uint64_t opened_ns, uint64_t threshold_ns);

 private:
  using CallKey = std::pair<uint32_t, uint64_t>;  // tid, start
  struct Ended {
    CallKey call;
    uint64_t ns;
  };
  [[nodiscard]] std::vector<CallKey> due(const Standing& standing, uint64_t threshold_ns);

  const model::Surroundings surroundings_;
  const model::EventLog& log_;
  std::mutex mutex_;
  std::vector<Ended> ended_;           // since the last look
  std::map<CallKey, uint64_t> again_;  // calls that last: when they are told again
};

}  // namespace stalltrace::cli

// When a flight recorder writes down what it has: a call has met a condition.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bpf/wire.h"
#include "userspace/cli/stop_on.h"

namespace stalltrace::cli {

class Flight {
 public:
  // `patience_ns`: for so long a call that lasts is waited for, so that its end is told, too.
  Flight(std::vector<StopOn> stop_on, uint64_t patience_ns)
      : stop_on_(std::move(stop_on)), patience_ns_(patience_ns) {}

  // A call that ended, from the thread that reads the ring.
  void ended(const wire::wire_call& call, uint64_t now_ns);

  // Is it time to write? Then what happened, for people. A call that has ended is given a moment
  // for what it waited for to arrive.
  [[nodiscard]] std::optional<std::string> due(std::span<const wire::wire_call> standing,
                                               uint64_t now_ns);

  // Written: calls that had begun before `now_ns` belong to it and are no events of their own, but
  // for the end of one that had not ended.
  void written(uint64_t now_ns);

 private:
  [[nodiscard]] const StopOn* met_by(const wire::wire_call& call, uint64_t ns) const;

  const std::vector<StopOn> stop_on_;
  const uint64_t patience_ns_;
  std::mutex mutex_;
  std::optional<wire::wire_call> hit_;  // the first that met a condition
  uint64_t hit_ns_ = 0;
  std::optional<wire::wire_call> lasting_;  // was written while it lasted
  uint64_t begun_from_ns_ = 0;
};

}  // namespace stalltrace::cli

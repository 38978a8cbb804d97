// What a flight recorder waits for: "io_submit > 1s", "stall > 2s".
#pragma once

#include <cstdint>
#include <string_view>

#include "bpf/wire.h"

namespace stalltrace::cli {

struct StopOn {
  wire::wire_call_kind kind = wire::CALL_NONE;  // CALL_NONE: a call of any kind
  uint64_t over_ns = 0;

  [[nodiscard]] bool is_met(uint32_t call, uint64_t ns) const {
    return ns > over_ns && (kind == wire::CALL_NONE || kind == call);
  }
};

// Throws a usage Error that says what it wants.
StopOn parse_stop_on(std::string_view text);

}  // namespace stalltrace::cli

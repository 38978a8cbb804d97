#pragma once

#include <cstdint>
#include <ctime>

namespace stalltrace {

// CLOCK_MONOTONIC: the tracer's clock as well (bpf_ktime_get_ns), so both can be joined.
inline uint64_t monotonic_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace stalltrace

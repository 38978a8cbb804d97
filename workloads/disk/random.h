// Numbers that are the same for the same seed, on every machine (the standard library's
// distributions are not).
#pragma once

#include <cstdint>

namespace stalltrace::disk {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {  // splitmix64
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
  }
  // From 0 to `count` - 1; `count` is at least 1.
  uint64_t below(uint64_t count) { return next() % count; }
  // From 0 to 1, without the 1.
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace stalltrace::disk

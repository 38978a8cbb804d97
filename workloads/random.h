// Random numbers of a load: the same for the same seed, everywhere.
#pragma once

#include <cstdint>

namespace stalltrace::workloads {

// The finalizer of splitmix64: every input bit changes every output bit.
constexpr uint64_t mix_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix_bits(seed)) {}

  uint64_t next() { return mix_bits(state_ += 0x9e3779b97f4a7c15U); }
  // 0 to `end` - 1; `end` is at least 1.
  uint64_t below(uint64_t end) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((Wide{next()} * end) >> 64U);
  }
  // From 0 to below 1.
  double unit() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace stalltrace::workloads

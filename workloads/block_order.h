// The order in which a job visits the blocks of its file.
#pragma once

#include <cstdint>

namespace stalltrace::workloads {

enum class OrderKind {
  kSequential,
  kShuffled,    // each block once per pass in random order, as fio does by default
  kIndependent  // any block at any time (fio's norandommap)
};

// Needs no memory per block, so that a file of any size costs the same, and is the same for the
// same seed.
class BlockOrder {
 public:
  // `blocks` is at least 1.
  BlockOrder(OrderKind kind, uint64_t blocks, uint64_t seed);
  uint64_t next();

 private:
  [[nodiscard]] uint64_t shuffled(uint64_t position) const;

  OrderKind kind_;
  uint64_t blocks_;
  uint64_t seed_;
  uint64_t position_ = 0;
  uint64_t pass_ = 0;
  unsigned half_bits_;
};

}  // namespace stalltrace::workloads

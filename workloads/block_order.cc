#include "workloads/block_order.h"

#include <algorithm>
#include <bit>

#include "workloads/random.h"

namespace stalltrace::workloads {

BlockOrder::BlockOrder(OrderKind kind, uint64_t blocks, uint64_t seed)
    : kind_(kind),
      blocks_(blocks),
      seed_(mix_bits(seed)),
      half_bits_(std::max(1U, (static_cast<unsigned>(std::bit_width(blocks - 1)) + 1) / 2)) {}

// A four-round Feistel network permutes a power of four that is at least `blocks_`; results
// outside are permuted again until one is inside, which keeps it a permutation of the blocks.
uint64_t BlockOrder::shuffled(uint64_t position) const {
  uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = position >> half_bits_;
    uint64_t right = position & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t next = left ^ (mix_bits(right ^ (seed_ + mix_bits(pass_ * 4 + round))) & mask);
      left = right;
      right = next;
    }
    position = (left << half_bits_) | right;
  } while (position >= blocks_);
  return position;
}

uint64_t BlockOrder::next() {
  uint64_t position = position_++;
  if (kind_ == OrderKind::kIndependent) return mix_bits(seed_ ^ position) % blocks_;
  if (position_ == blocks_) position_ = 0;
  if (kind_ == OrderKind::kSequential) return position;
  uint64_t block = shuffled(position);
  if (position_ == 0) ++pass_;
  return block;
}

}  // namespace stalltrace::workloads

#include "workloads/block_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace stalltrace::workloads {
namespace {

std::vector<uint64_t> take(BlockOrder& order, size_t count) {
  std::vector<uint64_t> blocks(count);
  std::generate(blocks.begin(), blocks.end(), [&] { return order.next(); });
  return blocks;
}

std::vector<uint64_t> all_blocks(size_t count) {
  std::vector<uint64_t> blocks(count);
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

class ShuffledOrder : public testing::TestWithParam<size_t> {};

TEST_P(ShuffledOrder, EachPassVisitsEveryBlockOnce) {
  BlockOrder order(OrderKind::kShuffled, GetParam(), 5);
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<uint64_t> blocks = take(order, GetParam());
    std::sort(blocks.begin(), blocks.end());
    EXPECT_EQ(blocks, all_blocks(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShuffledOrder,
                         testing::Values(1, 2, 3, 4, 5, 16, 17, 1000, 2048, 65537));

TEST(BlockOrder, PassesAndSeedsDiffer) {
  BlockOrder order(OrderKind::kShuffled, 2048, 1);
  std::vector<uint64_t> first = take(order, 2048);
  std::vector<uint64_t> second = take(order, 2048);
  EXPECT_NE(first, second);
  EXPECT_NE(first, all_blocks(2048));
  BlockOrder other(OrderKind::kShuffled, 2048, 2);
  EXPECT_NE(first, take(other, 2048));
  BlockOrder same(OrderKind::kShuffled, 2048, 1);
  EXPECT_EQ(first, take(same, 2048));
}

// A shuffle that keeps neighbours together would be merged by the block layer.
TEST(BlockOrder, NeighboursAreRare) {
  BlockOrder order(OrderKind::kShuffled, 4096, 3);
  std::vector<uint64_t> blocks = take(order, 4096);
  int neighbours = 0;
  for (size_t i = 1; i < blocks.size(); ++i) neighbours += blocks[i] == blocks[i - 1] + 1 ? 1 : 0;
  EXPECT_LT(neighbours, 10);  // 1 is expected of a random one
}

TEST(BlockOrder, SequentialWrapsAround) {
  BlockOrder order(OrderKind::kSequential, 3, 0);
  EXPECT_EQ(take(order, 7), (std::vector<uint64_t>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(BlockOrder, IndependentStaysInsideAndRepeats) {
  BlockOrder order(OrderKind::kIndependent, 10, 0);
  std::vector<uint64_t> blocks = take(order, 1000);
  EXPECT_LT(*std::max_element(blocks.begin(), blocks.end()), 10U);
  for (uint64_t block = 0; block < 10; ++block) {
    EXPECT_GT(std::count(blocks.begin(), blocks.end(), block), 50) << block;
  }
}

}  // namespace
}  // namespace stalltrace::workloads

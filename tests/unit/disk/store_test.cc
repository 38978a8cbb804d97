#include "workloads/disk/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace stalltrace::disk {
namespace {

constexpr uint64_t kSize = 1 << 20;

TEST(Store, ReadsZerosWhereNothingWasWritten) {
  const Store store(1ULL << 40);
  EXPECT_EQ(*store.at((1ULL << 40) - 1), 0);
}

TEST(Store, KnowsItsEnd) {
  const Store store(kSize);
  EXPECT_TRUE(store.contains(kSize - 1, 1));
  EXPECT_TRUE(store.contains(kSize, 0));
  EXPECT_FALSE(store.contains(kSize - 1, 2));
  EXPECT_FALSE(store.contains(kSize + 1, 0));
  EXPECT_FALSE(store.contains(1, UINT64_MAX));
}

// Every byte around and inside the range is looked at, with ranges that begin or end within pages.
TEST(Store, DiscardZeroesExactlyItsRange) {
  const std::string ones(kSize, '\1');
  for (const auto& [from, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, kSize}, {0, 1}, {4096, 8192}, {100, 200}, {4000, 200}, {100, 20000}, {8192, 0}}) {
    Store store(kSize);
    store.write(0, ones.data(), ones.size());
    store.discard(from, bytes);
    for (uint64_t i = 0; i < kSize; ++i) {
      const bool inside = i >= from && i < from + bytes;
      ASSERT_EQ(*store.at(i), inside ? 0 : 1) << "byte " << i << " of " << from << "+" << bytes;
    }
  }
}

}  // namespace
}  // namespace stalltrace::disk

// The cache's contract: drained pages survive every cut, others as any of their versions.
#include "workloads/disk/write_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace stalltrace::disk {
namespace {

constexpr uint64_t kStoreBytes = 4 << 20;
constexpr uint64_t kPageSize = 4096;
constexpr uint64_t kPlenty = 1 << 20;

class WriteCacheTest : public ::testing::Test {
 protected:
  uint64_t begin(uint64_t page, char value, uint64_t pages = 1) {
    const std::string data(pages * kPageSize, value);
    return cache_.begin_write(page * kPageSize, data.data(), data.size(), pushed_out_);
  }
  void write(uint64_t page, char value, uint64_t pages = 1) {
    cache_.end_write(begin(page, value, pages));
  }
  void flush() { cache_.end_flush(cache_.begin_flush(to_drain_)); }
  Survival cut(uint64_t seed) {
    Random random(seed);
    return cache_.cut(random);
  }
  // '.' for a page that was never written; '?' for one that is a mixture.
  [[nodiscard]] char at(uint64_t page) const {
    const std::string contents(store_.at(page * kPageSize), kPageSize);
    const char value = contents.front();
    if (contents != std::string(kPageSize, value)) return '?';
    return value == '\0' ? '.' : value;
  }

  Store store_{kStoreBytes};
  WriteCache cache_{store_, kPlenty};
  std::vector<Extent> pushed_out_;
  std::vector<Extent> to_drain_;
};

TEST_F(WriteCacheTest, ReadsFindTheNewest) {
  write(3, 'a');
  flush();
  write(3, 'b');
  EXPECT_EQ(at(3), 'b');
  EXPECT_TRUE(cache_.has_undrained());
}

TEST_F(WriteCacheTest, AFlushedPageSurvivesEveryCut) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    write(1, 'a');
    write(2, 'b');
    flush();
    EXPECT_FALSE(cache_.has_undrained());
    write(2, 'c');
    write(5, 'd');
    const Survival survival = cut(seed);
    EXPECT_EQ(at(1), 'a');
    EXPECT_TRUE(at(2) == 'b' || at(2) == 'c') << at(2);
    EXPECT_TRUE(at(5) == '.' || at(5) == 'd') << at(5);
    EXPECT_EQ(survival.writes_dropped + survival.writes_kept, 2U);
    EXPECT_EQ(survival.writes_dropped, (at(2) == 'b' ? 1U : 0U) + (at(5) == '.' ? 1U : 0U));
    write(5, '\0');
    flush();
  }
}

TEST_F(WriteCacheTest, ACutLosesSomethingIfItCan) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    write(seed, 'x');
    EXPECT_EQ(cut(seed).writes_dropped, 1U);
    EXPECT_EQ(at(seed), '.');
  }
}

TEST_F(WriteCacheTest, AnySubsetAndAnyVersionMaySurvive) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    write(0, 's');
    write(1, 't');
    flush();
    write(0, 'a');
    write(0, 'b');
    write(1, 'c');
    cut(seed);
    ++seen[{at(0), at(1)}];
  }
  // Three for page 0, two for page 1, without the case in which nothing is lost.
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_EQ(seen.count("bc"), 0U);
  for (const auto& [contents, times] : seen) EXPECT_GE(times, 100) << contents;
}

TEST_F(WriteCacheTest, TheSameSeedMeansTheSame) {
  std::string before;
  for (int round = 0; round < 2; ++round) {
    for (uint64_t page = 0; page < 100; ++page) write(page, '-');
    flush();
    for (uint64_t page = 0; page < 100; ++page) write(99 - page, '+');
    cut(42);
    std::string now;
    for (uint64_t page = 0; page < 100; ++page) now += at(page);
    if (round == 1) {
      EXPECT_EQ(now, before);
    }
    before = now;
  }
  EXPECT_NE(before.find('+'), std::string::npos);
  EXPECT_NE(before.find('-'), std::string::npos);
}

TEST_F(WriteCacheTest, AWriteThatWasNotCompletedBeforeTheFlushBeganIsNotDrained) {
  std::set<char> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    write(7, 'o');
    flush();
    write(7, 'p');
    const uint64_t late = begin(7, 'q');
    const uint64_t flush = cache_.begin_flush(to_drain_);
    cache_.end_write(late);
    cache_.end_flush(flush);
    EXPECT_EQ(at(7), 'q');
    EXPECT_TRUE(cache_.has_undrained());
    EXPECT_EQ(cut(seed).writes_dropped, 1U);
    seen.insert(at(7));
  }
  // 'p' was drained, and 'q' must go: it is all that can be lost.
  EXPECT_EQ(seen, std::set<char>{'p'});
}

TEST_F(WriteCacheTest, AFlushUnderWayHasDrainedNothing) {
  std::set<char> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    write(7, 'o');
    flush();
    write(7, 'p');
    cache_.begin_flush(to_drain_);
    cut(seed);
    seen.insert(at(7));
  }
  EXPECT_EQ(seen, std::set<char>{'o'});
}

TEST_F(WriteCacheTest, WritesInFlightMaySurviveAndAreNotCounted) {
  std::set<char> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    write(4, 'o');
    flush();
    begin(4, 'p');
    EXPECT_FALSE(cache_.has_undrained());
    const Survival survival = cut(seed);
    EXPECT_EQ(survival.writes_dropped + survival.writes_kept, 0U);
    seen.insert(at(4));
  }
  EXPECT_EQ(seen, (std::set<char>{'o', 'p'}));
}

TEST_F(WriteCacheTest, AFlushSaysWhatItDrainsInOrderAndTogether) {
  for (const uint64_t page : {9, 3, 4, 100, 5}) write(page, 'x');
  const uint64_t late = begin(101, 'y');
  cache_.begin_flush(to_drain_);
  cache_.end_write(late);
  ASSERT_EQ(to_drain_.size(), 3U);
  EXPECT_EQ(to_drain_[0].offset, 3 * kPageSize);
  EXPECT_EQ(to_drain_[0].bytes, 3 * kPageSize);
  EXPECT_EQ(to_drain_[1].offset, 9 * kPageSize);
  EXPECT_EQ(to_drain_[2].offset, 100 * kPageSize);
  EXPECT_EQ(to_drain_[2].bytes, kPageSize);
}

TEST_F(WriteCacheTest, WhatALieSkippedStaysUndrainedUntilWrittenAnew) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    write(1, 'o');
    write(2, 'o');
    flush();
    write(1, 'l');
    write(2, 'l');
    cache_.lie();
    write(2, 'n');
    write(3, 'n');
    flush();
    EXPECT_EQ(cut(seed).writes_dropped, 1U);
    EXPECT_EQ(at(1), 'o');
    EXPECT_EQ(at(2), 'n');
    EXPECT_EQ(at(3), 'n');
  }
}

TEST_F(WriteCacheTest, DrainingLeavesNothingToLose) {
  write(1, 'l');
  cache_.lie();
  write(2, 'm');
  cache_.drain();
  EXPECT_EQ(cut(1).writes_dropped, 0U);
  EXPECT_EQ(at(1), 'l');
  EXPECT_EQ(at(2), 'm');
}

TEST_F(WriteCacheTest, AFullCachePushesTheOldestOut) {
  const uint64_t pages = kPlenty / kPageSize;
  for (uint64_t page = 0; page < pages; ++page) write(2 * page, 'x');
  EXPECT_TRUE(pushed_out_.empty());
  write(2 * pages, 'x');
  ASSERT_EQ(pushed_out_.size(), 1U);
  EXPECT_EQ(pushed_out_[0].offset, 0U);
  const Survival survival = cut(3);
  EXPECT_EQ(survival.writes_dropped + survival.writes_kept, pages);
  EXPECT_EQ(at(0), 'x');
}

TEST_F(WriteCacheTest, RewritingOnePageForeverTakesNoMoreThanTheCache) {
  for (int i = 0; i < 100'000; ++i) write(1, static_cast<char>('a' + i % 26));
  EXPECT_FALSE(pushed_out_.empty());
  const Survival survival = cut(3);
  EXPECT_LE(survival.writes_dropped + survival.writes_kept, kPlenty / kPageSize);
}

TEST_F(WriteCacheTest, DiscardIsZerosThatStay) {
  write(1, 'a', 3);
  cache_.discard(kPageSize + 100, 2 * kPageSize);
  const std::string edge(store_.at(kPageSize), kPageSize);
  EXPECT_EQ(edge, std::string(100, 'a') + std::string(kPageSize - 100, '\0'));
  EXPECT_EQ(at(2), '.');
  EXPECT_EQ(std::string(store_.at(3 * kPageSize), 101), std::string(100, '\0') + "a");
  cut(1);
  EXPECT_EQ(at(2), '.');
}

TEST_F(WriteCacheTest, PartsOfPagesAreVersionsOfTheWholePage) {
  write(1, 'a');
  flush();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::string data(512, 'b');
    cache_.end_write(cache_.begin_write(kPageSize + 512, data.data(), 512, pushed_out_));
    cut(seed);
    EXPECT_EQ(at(1), 'a');
  }
}

}  // namespace
}  // namespace stalltrace::disk

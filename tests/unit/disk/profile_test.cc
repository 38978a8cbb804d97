// The times a profile gives against what its table and the mechanics of a disk say.
#include "workloads/disk/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "userspace/base/error.h"
#include "workloads/disk/service_model.h"

namespace stalltrace::disk {
namespace {

constexpr uint64_t kUsec = 1'000;
constexpr uint64_t kMsec = 1'000'000;
constexpr uint64_t kSec = 1'000'000'000;
constexpr uint64_t kKib = 1024;

Profile of(const std::string& name) {
  DiskOptions options;
  options.name = "x";
  options.profile = name;
  return resolve(options);
}

// Service times of `count` requests, each sent when the one before is done.
std::vector<uint64_t> one_by_one(ServiceModel& model, Op op, int count,
                                 const std::function<Extent(int)>& extent,
                                 const std::vector<Extent>& drained = {}) {
  std::vector<uint64_t> times;
  uint64_t now = kSec;
  for (int i = 0; i < count; ++i) {
    const uint64_t due = model.due_ns(op, extent(i), now, drained);
    times.push_back(due - now);
    now = due + 20 * kUsec;
  }
  std::sort(times.begin(), times.end());
  return times;
}

uint64_t mean(const std::vector<uint64_t>& times) {
  uint64_t sum = 0;
  for (const uint64_t time : times) sum += time;
  return sum / times.size();
}

Extent first_block(int /*number*/) {
  return {0, 4 * kKib};
}
Extent no_block(int /*number*/) {
  return {0, 0};
}

TEST(Profile, AreTheFiveOfTheManual) {
  EXPECT_EQ(profile_names(), "hdd7200, ssd-consumer, ssd-plp, array, cloud-volume");
  EXPECT_THROW(of("floppy"), Error);
  EXPECT_EQ(of("hdd7200").cache, Cache::kVolatile);
  EXPECT_EQ(of("ssd-consumer").cache, Cache::kVolatile);
  EXPECT_EQ(of("ssd-plp").cache, Cache::kOff);
  EXPECT_TRUE(of("ssd-plp").write_through);
  EXPECT_EQ(of("array").cache, Cache::kOff);
  EXPECT_EQ(of("cloud-volume").cache, Cache::kOff);
}

TEST(Profile, WithoutOneTheTimesAreThePlainOnes) {
  DiskOptions options;
  options.flush_ns = 20 * kMsec;
  const Profile profile = resolve(options);
  EXPECT_EQ(profile.read.from_ns, 0U);
  EXPECT_EQ(profile.write.to_ns, 0U);
  EXPECT_EQ(profile.flush.from_ns, 20 * kMsec);
  EXPECT_EQ(profile.cache, Cache::kOff);
}

TEST(Profile, WhatWasChosenOverridesIt) {
  DiskOptions options;
  options.profile = "ssd-consumer";
  options.flush_ns = 7 * kMsec;
  options.write_ns = 0;
  options.cache = Cache::kOff;
  const Profile profile = resolve(options);
  EXPECT_EQ(profile.cache, Cache::kOff);
  ServiceModel model(profile, 1);
  const auto flushes = one_by_one(model, Op::kFlush, 2000, no_block, {{0, 1 << 20}});
  EXPECT_EQ(flushes.front(), 7 * kMsec);
  EXPECT_EQ(flushes.back(), 7 * kMsec);
  EXPECT_EQ(one_by_one(model, Op::kWrite, 10, first_block).back(), 0U);
  EXPECT_GE(one_by_one(model, Op::kRead, 10, first_block).front(), 80 * kUsec);
}

TEST(Profile, RefusesWhatContradictsItself) {
  DiskOptions options;
  options.profile = "ssd-plp";
  options.cache = Cache::kVolatile;
  EXPECT_THROW(resolve(options), Error);
  options.cache.reset();
  options.lie_one_in = 1;
  EXPECT_THROW(resolve(options), Error);
  options.profile = "array";
  EXPECT_EQ(resolve(options).cache, Cache::kVolatile);
  options.cache = Cache::kOff;
  EXPECT_THROW(resolve(options), Error);
}

TEST(Profile, ConsumerFlushesTakeOneToFourMsAndOneIn500Pauses) {
  ServiceModel model(of("ssd-consumer"), 7);
  const auto times = one_by_one(model, Op::kFlush, 20'000, no_block);
  const auto pauses =
      std::count_if(times.begin(), times.end(), [](uint64_t ns) { return ns > 4 * kMsec; });
  EXPECT_GT(pauses, 20);
  EXPECT_LT(pauses, 70);
  EXPECT_EQ(times.back(), 200 * kMsec);
  EXPECT_GE(times.front(), 1 * kMsec);
  EXPECT_NEAR(static_cast<double>(times[times.size() / 2]), 2.5e6, 0.1e6);
}

TEST(Profile, FastWritesTakeWhatTheTableSays) {
  for (const auto& [name, write_us] :
       {std::pair{"ssd-consumer", 38.0}, std::pair{"ssd-plp", 32.0}, std::pair{"array", 204.0}}) {
    ServiceModel model(of(name), 3);
    const auto times = one_by_one(model, Op::kWrite, 5000, first_block);
    EXPECT_NEAR(static_cast<double>(mean(times)) / 1e3, write_us, write_us * 0.03) << name;
  }
}

TEST(Profile, TheSameSeedGivesTheSameTimes) {
  ServiceModel first(of("ssd-consumer"), 5);
  ServiceModel same(of("ssd-consumer"), 5);
  ServiceModel other(of("ssd-consumer"), 6);
  const auto times = one_by_one(first, Op::kFlush, 500, no_block);
  EXPECT_EQ(times, one_by_one(same, Op::kFlush, 500, no_block));
  EXPECT_NE(times, one_by_one(other, Op::kFlush, 500, no_block));
}

TEST(Profile, CloudVolumesServe3000RequestsASecond) {
  ServiceModel model(of("cloud-volume"), 3);
  uint64_t last = 0;
  // All at once: latency counts once, the limit for each but the burst.
  for (int i = 0; i < 6064; ++i) {
    last = std::max(last, model.due_ns(Op::kWrite, {0, 4 * kKib}, kSec, {}));
  }
  EXPECT_NEAR(static_cast<double>(last - kSec) / 1e9, 2.0, 0.02);
  ServiceModel alone(of("cloud-volume"), 3);
  EXPECT_NEAR(static_cast<double>(mean(one_by_one(alone, Op::kFlush, 2000, no_block))), 0.7e6, 2e4);
}

TEST(Profile, CloudVolumesMove125MiBASecond) {
  ServiceModel model(of("cloud-volume"), 3);
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    last = std::max(last, model.due_ns(Op::kRead, {0, 1 << 20}, kSec, {}));
  }
  EXPECT_NEAR(static_cast<double>(last - kSec) / 1e9, 8.0, 0.1);
}

// A random place on a disk of 1 TB: 8.5 ms of seek and half a rotation.
TEST(Disk7200, RandomReadsTakeASeekAndHalfARotation) {
  ServiceModel model(of("hdd7200"), 1);
  Random random(9);
  const auto times = one_by_one(model, Op::kRead, 5000, [&](int) {
    return Extent{random.below(244'000'000) * 4 * kKib, 4 * kKib};
  });
  EXPECT_NEAR(static_cast<double>(mean(times)) / 1e6, 8.5 + 4.17 + 0.08, 0.4);
  EXPECT_NEAR(static_cast<double>(typical_ns(of("hdd7200"), Op::kRead)) / 1e6,
              static_cast<double>(mean(times)) / 1e6, 0.5);
}

TEST(Disk7200, SequentialReadsRunAt150MBPerSecond) {
  ServiceModel model(of("hdd7200"), 1);
  constexpr int kReads = 4000;
  uint64_t now = kSec;
  for (int i = 0; i < kReads; ++i) {
    now = model.due_ns(Op::kRead, {static_cast<uint64_t>(i) * 64 * kKib, 64 * kKib}, now, {}) +
          30 * kUsec;
  }
  const double seconds = static_cast<double>(now - kSec) / 1e9;
  EXPECT_NEAR(kReads * 65536.0 / seconds / 1e6, 150, 5);
}

TEST(Disk7200, RewritingOneBlockTakesARotationEach) {
  ServiceModel model(of("hdd7200"), 1);
  const auto times = one_by_one(model, Op::kFlush, 200, no_block, {{40960, 4096}});
  EXPECT_GE(times.front(), 8'333 * kUsec);
  EXPECT_LE(times.back(), 2 * 8'333 * kUsec);
}

TEST(Disk7200, AFlushOfNothingIsQuickAndOneOfMuchRunsAtTheDisksRate) {
  ServiceModel model(of("hdd7200"), 1);
  EXPECT_EQ(one_by_one(model, Op::kFlush, 10, no_block).back(), 50 * kUsec);
  const auto times = one_by_one(model, Op::kFlush, 20, no_block, {{0, 15'000'000}});
  EXPECT_NEAR(static_cast<double>(mean(times)) / 1e6, 100 + 4, 5);
}

TEST(Disk7200, ScatteredWritesCostTheFlushASeekEach) {
  ServiceModel model(of("hdd7200"), 1);
  std::vector<Extent> scattered;
  for (uint64_t i = 0; i < 100; ++i) scattered.push_back({i * 10'000'000'000, 4096});
  const double ms =
      static_cast<double>(mean(one_by_one(model, Op::kFlush, 20, no_block, scattered))) / 1e6;
  // 1 + 14 * sqrt(0.01) ms and up to a rotation, on average half of one; the same places each time.
  EXPECT_GT(ms, 100 * 2.4);
  EXPECT_LT(ms, 100 * (2.4 + 8.4));
  // Writes themselves go to the cache.
  ServiceModel idle(of("hdd7200"), 1);
  EXPECT_LT(one_by_one(idle, Op::kWrite, 100, first_block).back(), 100 * kUsec);
}

TEST(Disk7200, ServesOneRequestAtATime) {
  ServiceModel model(of("hdd7200"), 1);
  const uint64_t flush = model.due_ns(Op::kFlush, {0, 0}, kSec, {{0, 4096}});
  EXPECT_GT(model.due_ns(Op::kWrite, {0, 4096}, kSec, {}), flush);
}

TEST(Disk7200, WithoutItsCacheWritesGoToThePlatter) {
  DiskOptions options;
  options.profile = "hdd7200";
  options.cache = Cache::kOff;
  ServiceModel model(resolve(options), 1);
  const auto times = one_by_one(model, Op::kWrite, 100, first_block);
  EXPECT_NEAR(static_cast<double>(mean(times)) / 1e6, 8.33, 0.2);
}

}  // namespace
}  // namespace stalltrace::disk

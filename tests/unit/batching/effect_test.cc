#include "userspace/batching/effect.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stalltrace::batching {
namespace {

// The tables' values.
TEST(StudentsT, IsAsTabulated) {
  EXPECT_NEAR(students_t(1, 0.95), 12.706, 0.001);
  EXPECT_NEAR(students_t(2, 0.95), 4.303, 0.001);
  EXPECT_NEAR(students_t(3, 0.95), 3.182, 0.001);
  EXPECT_NEAR(students_t(4, 0.95), 2.776, 0.001);
  EXPECT_NEAR(students_t(5, 0.95), 2.571, 0.001);
  EXPECT_NEAR(students_t(9, 0.95), 2.262, 0.001);
  EXPECT_NEAR(students_t(30, 0.95), 2.042, 0.001);
  EXPECT_NEAR(students_t(1, 0.99), 63.657, 0.01);
  EXPECT_NEAR(students_t(4, 0.99), 4.604, 0.001);
  EXPECT_NEAR(students_t(15, 0.99), 2.947, 0.001);
  EXPECT_NEAR(students_t(10, 0.999), 4.587, 0.001);
  EXPECT_NEAR(students_t(100000, 0.95), 1.960, 0.001);
}

// Worked by hand: logarithms ln 2, ln 2.2, ln 1.8; mean 0.68980, deviation 0.10038; t(2) = 4.303.
TEST(Effect, IsTheGeometricMeanWithStudentsInterval) {
  Effect effect = effect_of({20, 22, 18}, {10, 10, 10});
  double mean = (std::log(2.0) + std::log(2.2) + std::log(1.8)) / 3;
  EXPECT_NEAR(effect.ratio, std::exp(mean), 1e-9);
  ASSERT_TRUE(effect.low);
  EXPECT_NEAR(*effect.low, 1.5534, 0.001);
  EXPECT_NEAR(*effect.high, 2.5579, 0.001);
}

TEST(Effect, PairsCancelWhatDrifts) {
  Effect effect = effect_of({20, 40, 80}, {10, 20, 40});
  EXPECT_DOUBLE_EQ(effect.ratio, 2);
  EXPECT_NEAR(*effect.low, 2, 1e-9);
  EXPECT_NEAR(*effect.high, 2, 1e-9);
}

TEST(Effect, OneLoopHasNoInterval) {
  Effect effect = effect_of({30}, {10});
  EXPECT_DOUBLE_EQ(effect.ratio, 3);
  EXPECT_FALSE(effect.low);
}

TEST(Finding, NeedsTheWholeIntervalOnOneSide) {
  EXPECT_EQ(finding_of({1.5, 1.2, 1.9}), Finding::kMore);
  EXPECT_EQ(finding_of({0.7, 0.6, 0.9}), Finding::kLess);
  EXPECT_EQ(finding_of({1.01, 0.97, 1.04}), Finding::kNone);
  EXPECT_EQ(finding_of({1.1, 0.8, 1.5}), Finding::kUnclear);
}

TEST(Effect, IsWiderWhereSeveralAreToHoldTogether) {
  Effect one = effect_of({20, 22, 18}, {10, 10, 10});
  Effect two = effect_of({20, 22, 18}, {10, 10, 10}, 2);
  EXPECT_DOUBLE_EQ(two.ratio, one.ratio);
  // t(2) at 97.5 %: 6.205
  EXPECT_NEAR(std::log(*two.high / two.ratio) / std::log(*one.high / one.ratio), 6.205 / 4.303,
              0.001);
  EXPECT_EQ(interval_text(one), "95 % interval 1.55 to 2.56");
  EXPECT_EQ(interval_text(two, 2), "95 % interval of all 2 comparisons 1.39 to 2.86");
}

// Worked by hand: variances of the logarithms s1 = 0.010043, s2 = 0.010050 (ln 0.9, 1, 1.1), 4.0
// degrees of freedom, t = 2.776 (3.182 where they come out just below 4).
TEST(Effect, OfLoopsThatAreNoPairsIsWelchs) {
  Effect effect = unpaired_effect_of({20, 22, 18}, {10, 11, 9});
  EXPECT_NEAR(effect.ratio, 2, 1e-9);
  ASSERT_TRUE(effect.low);
  double deviation = std::sqrt(2 * 0.010076 / 3);
  double half = std::log(*effect.high / effect.ratio);
  EXPECT_GE(half, 2.775 * deviation);
  EXPECT_LE(half, 3.183 * deviation);
  EXPECT_NEAR(*effect.low * *effect.high, 4, 1e-9);
  // What drifts with the loops does not cancel there.
  EXPECT_GT(*unpaired_effect_of({20, 40, 80}, {10, 20, 40}).high, 3);
  EXPECT_FALSE(unpaired_effect_of({20}, {10, 11}).low);
  EXPECT_DOUBLE_EQ(unpaired_effect_of({30}, {10}).ratio, 3);
}

}  // namespace
}  // namespace stalltrace::batching

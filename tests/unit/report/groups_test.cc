#include "userspace/report/stall_groups.h"

#include <gtest/gtest.h>

#include "tests/unit/report/samples.h"

namespace stalltrace::report {
namespace {

using samples::kMs;
using samples::kSecond;

TEST(StallGroups, AHerdBehindOneCommitIsOneGroup) {
  Report report = samples::herd_report();
  std::vector<StallGroup> groups = group_stalls(report.stalls);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].members.size(), 40U);
  EXPECT_EQ(groups[0].members.front(), 0U);
  EXPECT_EQ(groups[0].longest_ns, report.stalls[0].ns);
  EXPECT_EQ(groups[0].shortest_ns, report.stalls[39].ns);
  uint64_t sum = 0;
  for (const blame::Stall& stall : report.stalls) sum += stall.ns;
  EXPECT_EQ(groups[0].ns, sum);
}

TEST(StallGroups, OtherTimesCommitsKindsAndRootsStayApart) {
  auto two = [](auto change) {
    std::vector<blame::Stall> stalls{samples::mission_stall(), samples::mission_stall()};
    stalls[1].task.tid = 1;
    change(stalls[1]);
    return group_stalls(stalls).size();
  };
  EXPECT_EQ(two([](blame::Stall&) {}), 1U);
  EXPECT_EQ(two([](blame::Stall& stall) { stall.start_ns += 5 * kSecond; }), 2U);
  EXPECT_EQ(two([](blame::Stall& stall) { stall.kind = wire::CALL_WRITE; }), 2U);
  EXPECT_EQ(two([](blame::Stall& stall) { stall.dev = 1; }), 2U);
  EXPECT_EQ(two([](blame::Stall& stall) { stall.parts[0].causes[0].id = "8842"; }), 2U);
  EXPECT_EQ(two([](blame::Stall& stall) { stall.roots[0].kind = blame::RootKind::kMemory; }), 2U);
  EXPECT_EQ(two([](blame::Stall& stall) {
              stall.parts[0].wait_class = kernel::WaitClass::kJournalBuffer;
            }),
            2U);
}

TEST(StallGroups, EveryStallIsInOneGroupOnly) {
  Report report = samples::full_report();
  std::vector<StallGroup> groups = group_stalls(report.stalls);
  std::vector<int> seen(report.stalls.size(), 0);
  uint64_t last_ns = UINT64_MAX;
  for (const StallGroup& group : groups) {
    EXPECT_LE(group.longest_ns, last_ns);
    last_ns = group.longest_ns;
    for (size_t member : group.members) ++seen[member];
  }
  EXPECT_EQ(seen, std::vector<int>(report.stalls.size(), 1));
  std::fill(seen.begin(), seen.end(), 0);
  for (const StallGroup& group : merge_recurring(groups, report.stalls)) {
    for (size_t member : group.members) ++seen[member];
    for (size_t member : group.elsewhere) ++seen[member];
  }
  EXPECT_EQ(seen, std::vector<int>(report.stalls.size(), 1));
}

TEST(StallGroups, TheSameStoryAtOtherTimesIsToldOnce) {
  std::vector<blame::Stall> stalls;
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint32_t task = 0; task < 3; ++task) {
      stalls.push_back(samples::mission_stall(i * 3 * kSecond));
      stalls.back().task.tid = task;
      stalls.back().parts[0].causes[0].id = std::to_string(8841 + i);
    }
  }
  std::vector<StallGroup> groups = group_stalls(stalls);
  EXPECT_EQ(groups.size(), 5U);
  groups = merge_recurring(groups, stalls);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].members.size(), 3U);
  EXPECT_EQ(groups[0].other_times, 4U);
  EXPECT_EQ(groups[0].elsewhere.size(), 12U);
}

TEST(StallGroups, StallsWithoutPartsAreNoTrap) {
  std::vector<blame::Stall> stalls(3);
  EXPECT_EQ(main_class(stalls[0]), kernel::WaitClass::kOther);
  EXPECT_FALSE(group_stalls(stalls).empty());
  EXPECT_TRUE(group_stalls({}).empty());
}

}  // namespace
}  // namespace stalltrace::report

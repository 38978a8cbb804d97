#include "userspace/blame/shorten.h"

#include <map>
#include <tuple>

#include "tests/unit/blame/checks.h"
#include "userspace/blame/explainer.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)

Cause leaf(uint64_t start_ns, uint64_t ns, RootKind kind, uint32_t tid) {
  Cause cause;
  cause.start_ns = start_ns;
  cause.ns = ns;
  cause.text = "a link";
  cause.root = {kind, 0, {tid, tid, "task"}, ns, Sure::kMeasured};
  return cause;
}

std::map<std::tuple<RootKind, uint32_t, Sure>, uint64_t> sums_by_root(const Stall& stall) {
  std::vector<Root> roots;
  for (const Part& part : stall.parts) collect_roots(part.causes, Sure::kMeasured, roots);
  std::map<std::tuple<RootKind, uint32_t, Sure>, uint64_t> sums;
  for (const Root& root : roots) sums[{root.kind, root.task.tid, root.sure}] += root.ns;
  return sums;
}

// Behind a hundred holders of a lock, each of which did two things: one part, 301 links.
Stall behind_many() {
  Stall stall;
  stall.start_ns = ms(1);
  Part part;
  part.start_ns = ms(1);
  uint64_t at_ns = ms(1);
  for (uint32_t i = 0; i < 100; ++i) {
    uint64_t ns = i == 40 ? 500 * kMs : 4 * kMs + i;
    Cause held = leaf(at_ns, ns, RootKind::kUnexplained, 0);
    held.causes.push_back(leaf(at_ns, ns / 2, RootKind::kDeviceWrite, 0));
    held.causes.push_back(leaf(at_ns + ns / 2, ns - ns / 2, RootKind::kTaskCpu, 7 + i % 2));
    at_ns += ns;
    part.causes.push_back(std::move(held));
  }
  part.ns = stall.ns = at_ns - ms(1);
  stall.parts.push_back(std::move(part));
  std::vector<Root> roots;
  collect_roots(stall.parts[0].causes, Sure::kMeasured, roots);
  stall.roots = merge_roots(std::move(roots));
  return stall;
}

TEST(Shorten, KeepsTheLongestAndSumsUpTheRest) {
  model::Trace trace = Events().trace(ms(0), ms(5000));
  Stall whole = behind_many();
  Stall stall = whole;
  shorten(stall, trace, 3);
  check_sums(stall);
  EXPECT_EQ(sums_by_root(stall), sums_by_root(whole));
  EXPECT_EQ(roots_of(stall.roots), roots_of(whole.roots));
  // The long one with its two, and on both sides of it the device's time and the two tasks'.
  const Causes& causes = stall.parts[0].causes;
  ASSERT_EQ(causes.size(), 7U);
  EXPECT_EQ(causes[3].ns, 500 * kMs);
  EXPECT_EQ(causes[3].causes.size(), 2U);
  for (size_t i : {0U, 4U}) {
    EXPECT_EQ(causes[i].root.kind, RootKind::kDeviceWrite);
    EXPECT_EQ(causes[i].kind, CauseKind::kRequest);
    EXPECT_EQ(causes[i].turns, i == 0 ? 40U : 59U);
    EXPECT_TRUE(has_evidence(causes[i], "short turns in one stretch, summed up"));
  }
}

TEST(Shorten, LeavesAShortChainAlone) {
  model::Trace trace = Events().trace(ms(0), ms(5000));
  Stall stall = behind_many();
  shorten(stall, trace, 300);
  EXPECT_EQ(stall.parts[0].causes.size(), 100U);
  EXPECT_EQ(stall.parts[0].causes[99].causes.size(), 2U);
}

}  // namespace
}  // namespace stalltrace::blame

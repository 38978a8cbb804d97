#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "tests/unit/model/builder.h"

namespace stalltrace::model {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)

const TaskId kFio{4250, "fio"};
const TaskId kPing{77, "ioping"};
const TaskId kJbd{300, "jbd2/loop0-8"};

TEST(SpanIndex, FindsWhatOverlapsInOrder) {
  SpanIndex index(std::vector<Span>{{10, 1000}, {20, 30}, {25, 26}, {40, 50}, {60, 60}});
  EXPECT_EQ(index.overlapping({26, 41}), (std::vector<size_t>{0, 1, 3}));
  EXPECT_EQ(index.overlapping({30, 40}), (std::vector<size_t>{0}));
  EXPECT_EQ(index.overlapping({0, 10}), (std::vector<size_t>{}));
  EXPECT_EQ(index.overlapping({50, 50}), (std::vector<size_t>{}));
  EXPECT_EQ(SpanIndex().overlapping({0, 100}), (std::vector<size_t>{}));
}

TEST(SpanIndex, AgreesWithLookingAtAll) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Span> spans(random() % 40);
    for (Span& span : spans) {
      span.start_ns = random() % 100;
      span.end_ns = span.start_ns + random() % (round % 2 == 0 ? 5 : 100);
    }
    std::sort(spans.begin(), spans.end(), [](Span a, Span b) { return a.start_ns < b.start_ns; });
    SpanIndex index(spans);
    Span with{random() % 100, random() % 120};
    std::vector<size_t> expected;
    for (size_t i = 0; i < spans.size(); ++i) {
      if (!with.empty() && spans[i].start_ns < with.end_ns && spans[i].end_ns > with.start_ns) {
        expected.push_back(i);
      }
    }
    EXPECT_EQ(index.overlapping(with), expected);
  }
}

TEST(Trace, SortsTheSleepsOfATask) {
  Events events;
  events.wait(kFio, ms(50), ms(60), ms(61));
  events.wait(kPing, ms(10), ms(20), ms(20));
  events.wait(kFio, ms(10), ms(20), ms(22));
  Trace trace = events.trace();
  auto waits = trace.waits_of(kFio.tid);
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_EQ(waits[0].out_ns, ms(10));
  EXPECT_EQ(waits[0].blocked(), (Span{ms(10), ms(20)}));
  EXPECT_EQ(waits[0].runnable(), (Span{ms(20), ms(22)}));
  EXPECT_EQ(waits[1].out_ns, ms(50));
  EXPECT_EQ(trace.waits_of(kFio.tid, {ms(22), ms(50)}).size(), 0U);
  EXPECT_EQ(trace.waits_of(kFio.tid, {ms(21), ms(51)}).size(), 2U);
  EXPECT_EQ(trace.waits_of(99).size(), 0U);
  EXPECT_EQ(trace.oddities().total(), 0U);
  EXPECT_EQ(trace.window(), (Span{ms(10), ms(61)}));
}

TEST(Trace, CutsSleepsThatOverlapAndCountsThem) {
  Events events;
  events.wait(kFio, ms(10), ms(20), ms(22));
  events.wait(kFio, ms(15), ms(30), ms(31));  // reaches out: its end is kept
  events.wait(kFio, ms(12), ms(14), ms(16));  // inside the first: nothing is left
  Trace trace = events.trace();
  auto waits = trace.waits_of(kFio.tid);
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_EQ(waits[1].blocked(), (Span{ms(22), ms(30)}));
  EXPECT_EQ(trace.oddities().overlapping, 2U);
}

TEST(Trace, RefusesSleepsThatCannotBe) {
  Events events;
  events.wait(kFio, ms(20), ms(15), ms(10));         // ends before it begins
  events.wait({0, "swapper"}, ms(1), ms(2), ms(3));  // nobody's
  events.wait(kFio, 0, ms(2), ms(3));                // began never
  events.wait(kFio, ms(30), uint64_t{1} << 63, ms(40));
  events.wait(kFio, ms(50), ms(70), ms(60));  // woken after it ran: mended
  Trace trace = events.trace();
  ASSERT_EQ(trace.waits().size(), 1U);
  EXPECT_EQ(trace.waits()[0].waking_ns, ms(60));
  EXPECT_EQ(trace.oddities().impossible, 5U);
}

TEST(Trace, AStillSleepingTaskSleepsToTheEnd) {
  Events events;
  events.wait(kFio, ms(10), 0, ms(90)).flags(wire::WAIT_STILL_ASLEEP);
  events.wait(kPing, ms(10), 0, 0).flags(wire::WAIT_STILL_ASLEEP);
  events.wait(kJbd, ms(5), ms(7), ms(8)).flags(wire::WAIT_PREEMPTED);
  Trace trace = events.trace(ms(0), ms(100));
  EXPECT_EQ(trace.waits_of(kFio.tid)[0].blocked(), (Span{ms(10), ms(90)}));
  EXPECT_EQ(trace.waits_of(kPing.tid)[0].blocked(), (Span{ms(10), ms(100)}));
  EXPECT_EQ(trace.waits_of(kJbd.tid)[0].blocked().ns(), 0U);
  EXPECT_EQ(trace.waits_of(kJbd.tid)[0].runnable(), (Span{ms(5), ms(8)}));
}

TEST(Trace, ClipsCallsToTheWindow) {
  Events events;
  events.call(kFio, wire::CALL_FSYNC, ms(0), ms(50));
  events.call(kPing, wire::CALL_READ, ms(60), ms(200));
  events.call(kJbd, wire::CALL_KWORKER, ms(80), 0, wire::CALL_UNFINISHED);
  events.call(kFio, wire::CALL_WRITE, ms(1), ms(5));      // before
  events.call(kFio, wire::CALL_WRITE, ms(300), ms(350));  // after
  Trace trace = events.trace(ms(20), ms(100));
  ASSERT_EQ(trace.calls().size(), 3U);
  EXPECT_EQ(trace.calls()[0].span, (Span{ms(20), ms(50)}));
  EXPECT_TRUE(trace.calls()[0].cut_start);
  EXPECT_FALSE(trace.calls()[0].cut_end);
  EXPECT_EQ(trace.calls()[1].span, (Span{ms(60), ms(100)}));
  EXPECT_TRUE(trace.calls()[1].cut_end);
  EXPECT_FALSE(trace.calls()[1].unfinished());
  EXPECT_EQ(trace.calls()[2].span, (Span{ms(80), ms(100)}));
  EXPECT_TRUE(trace.calls()[2].unfinished());
  EXPECT_EQ(trace.oddities().total(), 0U);
}

TEST(Trace, FindsTheCallOfATaskAtATime) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(0), ms(100));
  events.call(kFio, wire::CALL_FAULT, ms(10), ms(20));
  events.wait(kFio, ms(12), ms(15), ms(15)).in_call(ms(10));
  events.wait(kFio, ms(50), ms(55), ms(55)).in_call(ms(0));
  Trace trace = events.trace();
  EXPECT_EQ(trace.call_at(kFio.tid, ms(15))->event.call, uint32_t{wire::CALL_FAULT});
  EXPECT_EQ(trace.call_at(kFio.tid, ms(20))->event.call, uint32_t{wire::CALL_WRITE});
  EXPECT_EQ(trace.call_at(kFio.tid, ms(100)), nullptr);
  EXPECT_EQ(trace.call_at(kPing.tid, ms(15)), nullptr);
  EXPECT_EQ(trace.call_of(trace.waits()[0])->event.call, uint32_t{wire::CALL_FAULT});
  EXPECT_EQ(trace.call_of(trace.waits()[1])->event.call, uint32_t{wire::CALL_WRITE});
  EXPECT_TRUE(trace.has_calls(kFio.tid, {ms(99), ms(200)}));
  EXPECT_FALSE(trace.has_calls(kFio.tid, {ms(100), ms(200)}));
}

TEST(Trace, KeepsAStallAndNotItsWantedTwin) {
  Events events;
  events.call(kFio, wire::CALL_WRITE, ms(0), ms(100), wire::CALL_WANTED);
  events.call(kFio, wire::CALL_WRITE, ms(0), ms(100));
  Trace trace = events.trace();
  ASSERT_EQ(trace.calls().size(), 1U);
  EXPECT_FALSE(trace.calls()[0].wanted_only());
  EXPECT_EQ(trace.oddities().twice, 1U);
}

TEST(Trace, JoinsPaths) {
  Events events;
  set_path(events.call(kFio, wire::CALL_WRITE, ms(0), ms(1)), {"chunk-017", "dir", "/"});
  set_path(events.call(kFio, wire::CALL_WRITE, ms(2), ms(3)), {"f", "e", "d", "c", "b", "a"});
  events.call(kFio, wire::CALL_WRITE, ms(4), ms(5));
  set_path(events.call(kFio, wire::CALL_WRITE, ms(6), ms(7)), {"/"});
  auto& by_name = events.call(kFio, wire::CALL_UNLINK, ms(8), ms(9), wire::CALL_USER_PATH);
  std::strcpy(by_name.path[0], "/mnt/a/name/that/is/longer/than/forty/characters/is");
  Trace trace = events.trace();
  EXPECT_EQ(trace.path_of(trace.calls()[0]), "/mnt/dir/chunk-017");
  EXPECT_EQ(trace.path_of(trace.calls()[1]), ".../a/b/c/d/e/f");
  EXPECT_EQ(trace.path_of(trace.calls()[2]), "");
  EXPECT_EQ(trace.path_of(trace.calls()[3]), "/mnt");
  EXPECT_EQ(trace.path_of(trace.calls()[4]), "/mnt/a/name/that/is/longer/than/forty/characters/is");
}

TEST(Trace, FillsTheCommitPhasesThatWereNotSeen) {
  Events events;
  // Neither a wait for handles nor a commit record with a flush.
  events.commit(1, kJbd, {0, ms(1), ms(2), ms(3), ms(4), 0, ms(9), ms(10)});
  Trace trace = events.trace();
  const Commit& commit = trace.commits(kPart)[0];
  EXPECT_EQ(commit.span(), (Span{ms(1), ms(10)}));
  EXPECT_TRUE(commit.phase(Phase::kPre).empty());
  EXPECT_EQ(commit.phase(Phase::kRunning), (Span{ms(1), ms(2)}));
  EXPECT_EQ(commit.locked(), (Span{ms(2), ms(3)}));
  EXPECT_EQ(commit.phase(Phase::kData), (Span{ms(3), ms(4)}));
  EXPECT_EQ(commit.phase(Phase::kLog), (Span{ms(4), ms(9)}));
  EXPECT_TRUE(commit.phase(Phase::kRecord).empty());
  EXPECT_EQ(commit.phase(Phase::kFinish), (Span{ms(9), ms(10)}));
  EXPECT_EQ(trace.journal_of(kJbd.tid), kPart);
  EXPECT_EQ(trace.journal_of(kFio.tid), 0U);
  EXPECT_EQ(trace.commit(kPart, 1), &commit);
  EXPECT_EQ(trace.commit(kPart, 2), nullptr);
}

TEST(Trace, CommitsReachToTheEdgesOfTheWindow) {
  Events events;
  events.commit(1, kJbd, {0, 0, 0, ms(30), ms(31), ms(40), ms(50), ms(51)}).flags =
      wire::COMMIT_CUT_START;
  events.commit(2, kJbd, {0, ms(60), ms(70), 0, 0, 0, 0, 0}).flags = wire::COMMIT_UNFINISHED;
  Trace trace = events.trace(ms(10), ms(100));
  EXPECT_EQ(trace.commits(kPart)[0].locked(), (Span{ms(10), ms(30)}));
  EXPECT_EQ(trace.commits(kPart)[1].phase(Phase::kLocked), (Span{ms(70), ms(100)}));
  EXPECT_EQ(trace.commits(kPart)[1].span().end_ns, ms(100));
  EXPECT_EQ(trace.oddities().total(), 0U);
}

TEST(Trace, MendsCommitsWhosePhasesAreOutOfOrder) {
  Events events;
  events.commit(1, kJbd, {0, ms(5), ms(4), ms(6), ms(7), ms(3), ms(8), ms(9)});
  Trace trace = events.trace();
  const Commit& commit = trace.commits(kPart)[0];
  for (size_t i = 0; i < kPhases; ++i) EXPECT_LE(commit.bound_ns[i], commit.bound_ns[i + 1]);
  EXPECT_EQ(commit.span(), (Span{ms(5), ms(9)}));
  EXPECT_EQ(trace.oddities().impossible, 1U);
}

TEST(Trace, NumbersFlushes) {
  Events events;
  events.flush(ms(50), ms(51), ms(60));
  events.flush(ms(1), ms(2), ms(10));
  events.flush(ms(70), ms(71), 0).flags = wire::FLUSH_UNFINISHED;
  events.flush(ms(5), ms(6), ms(5));  // impossible
  events.flush(ms(9), ms(5), ms(7), kDecoy);
  events.request(1, 8, ms(30), ms(31), ms(45));
  events.wait(kFio, ms(20), ms(48), ms(49)).request(1, 16, ms(20), ms(20), ms(48));
  Trace trace = events.trace(ms(0), ms(100));
  auto flushes = trace.flushes(kDisk);
  ASSERT_EQ(flushes.size(), 3U);
  EXPECT_EQ(flushes[0].serial, 1U);
  EXPECT_EQ(flushes[0].device, (Span{ms(2), ms(10)}));
  EXPECT_EQ(flushes[2].device, (Span{ms(71), ms(100)}));
  EXPECT_EQ(trace.flushes(kDecoy)[0].event.first_queued_ns, 0U);
  EXPECT_EQ(trace.oddities().impossible, 2U);
  EXPECT_EQ(trace.disks(), (std::vector<uint32_t>{kDisk, kDecoy}));
}

TEST(Trace, KnowsWhetherTheDeviceWorksBesideAFlush) {
  Events events;
  events.flush(ms(10), ms(10), ms(50)).overtaken_ns = us(49'800);  // completed with the flush
  events.flush(ms(60), ms(60), ms(90)).overtaken_ns = ms(70);
  events.flush(ms(91), ms(92), ms(95));
  Trace trace = events.trace(ms(0), ms(100));
  EXPECT_FALSE(trace.flushes(kDisk)[0].worked_beside);
  EXPECT_TRUE(trace.flushes(kDisk)[1].worked_beside);
  EXPECT_FALSE(trace.flushes(kDisk)[2].worked_beside);
}

TEST(Trace, NamesEachStackOnceAndOnlyWhenAsked) {
  Events events;
  events.wait(kFio, ms(1), ms(2), ms(3)).stack({"schedule", "kthread"}).in_call(ms(1));
  events.wait(kFio, ms(5), ms(6), ms(7)).stack({"schedule", "kthread"}).in_call(ms(1));
  events.wait(kFio, ms(8), ms(9), ms(9));
  Trace trace = events.trace();
  EXPECT_EQ(events.stacks->asked, 0);
  for (const Wait& wait : trace.waits().first(2)) {
    auto frames = trace.frames(wait);
    ASSERT_EQ(frames.size(), 2U);
    EXPECT_EQ(frames[0], "schedule");
  }
  EXPECT_EQ(events.stacks->asked, 1);
  EXPECT_TRUE(trace.frames(trace.waits()[2]).empty());
}

TEST(Trace, CountsWhatIsNoEvent) {
  Trace trace;
  trace.add({});
  trace.add(bytes_of(wire::wire_header{wire::WIRE_CALL, 8}));
  trace.add(bytes_of(wire::wire_header{99, 8}));
  trace.add(bytes_of(wire::wire_header{wire::WIRE_WAIT, 4}));
  auto wait = event_of<wire::wire_wait>(wire::WIRE_WAIT);
  wait.frames = wire::WIRE_FRAMES + 1;
  trace.add(bytes_of(wait));
  wait.frames = 3;
  wait.header.size = offsetof(wire::wire_wait, stack) + 2 * sizeof(uint64_t);
  trace.add(bytes_of(wait, wait.header.size));
  auto flush = event_of<wire::wire_flush>(wire::WIRE_FLUSH);
  flush.known_members = wire::WIRE_FLUSH_MEMBERS + 1;
  trace.add(bytes_of(flush));
  EXPECT_EQ(trace.oddities().malformed, 7U);
  trace.seal();
  EXPECT_THROW(trace.add({}), std::logic_error);
}

TEST(Trace, SurvivesGarbage) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    Trace trace;
    for (int i = 0; i < 30; ++i) {
      std::vector<std::byte> bytes(random() % 900);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      if (bytes.size() >= sizeof(wire::wire_header)) {
        wire::wire_header header{static_cast<uint32_t>(random() % 9),
                                 static_cast<uint32_t>(bytes.size() - random() % 3)};
        std::memcpy(bytes.data(), &header, sizeof(header));
      }
      trace.add(bytes);
    }
    trace.seal();
    EXPECT_GT(trace.oddities().total(), 0U);
    for (size_t i = 1; i < trace.waits().size(); ++i) {
      const Wait& before = trace.waits()[i - 1];
      const Wait& wait = trace.waits()[i];
      EXPECT_TRUE(before.task.tid != wait.task.tid || before.in_ns <= wait.out_ns);
    }
  }
}

}  // namespace
}  // namespace stalltrace::model

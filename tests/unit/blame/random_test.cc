// Whatever the events say, sums hold at every level, nothing overlaps, and the order in which
// events came does not matter.
#include <algorithm>
#include <ctime>
#include <random>

#include "tests/unit/blame/checks.h"
#include "userspace/blame/shorten.h"
#include "userspace/blame/summary.h"

namespace stalltrace::blame {
namespace {

using namespace stalltrace::testing;  // NOLINT(google-build-using-namespace)

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  void fill(Events& events) {
    range_ = 1 + below(60);
    for (uint64_t i = below(30); i > 0; --i) add_wait(events);
    for (uint64_t i = below(12); i > 0; --i) {
      auto [start, end] = span();
      auto& call = events.call(task(), static_cast<uint32_t>(below(26)), start, end,
                               flags({wire::CALL_WANTED, wire::CALL_UNFINISHED}));
      call.short_blocked_ns = below(3) == 0 ? below(20) * kMs : 0;
      call.short_runnable_ns = below(3) == 0 ? below(20) * kMs : 0;
      call.sync_tid = static_cast<uint32_t>(below(5));
      call.dev = dev();
    }
    for (uint64_t i = below(6); i > 0; --i) add_commit(events);
    for (uint64_t i = below(8); i > 0; --i) {
      auto [start, end] = span();
      events.handle(task(), static_cast<uint32_t>(below(5)), static_cast<uint32_t>(below(14)),
                    start, end, flags({wire::HANDLE_LATE, wire::HANDLE_UNFINISHED}));
    }
    for (uint64_t i = below(8); i > 0; --i) {
      auto [start, end] = span();
      auto& flush = events.flush(below(2) == 0 ? 0 : at(), start, end, disk());
      flush.flags = flags({wire::FLUSH_UNFINISHED});
      flush.queue = static_cast<uint32_t>(below(2));
      flush.overtaken_ns = below(2) == 0 ? 0 : at();
      for (uint64_t m = below(4); m > 0; --m) {
        Events::member(flush, task(), at(), static_cast<uint32_t>(below(5)));
      }
    }
    for (uint64_t i = below(8); i > 0; --i) {
      auto [start, end] = span();
      events
          .request(static_cast<uint32_t>(below(3)), below(1000), start, start + below(5) * kMs, end,
                   disk())
          .flags = flags({wire::REQUEST_UNFINISHED});
    }
    for (uint64_t i = below(4); i > 0; --i) {
      uint64_t times[] = {at(), at(), at(), at(), at()};
      if (below(4) != 0) std::sort(std::begin(times), std::end(times));
      auto& async = events.async(task(), times[0], times[1], times[2], times[3], times[4]);
      if (below(3) == 0) async.issue_ns = 0;
      if (below(3) == 0) async.complete_ns = 0;
    }
  }

  uint64_t below(uint64_t n) { return random_() % n; }
  uint64_t at() { return ms(below(range_)) + (below(4) == 0 ? below(kMs) : 0); }
  std::mt19937_64& engine() { return random_; }

 private:
  const TaskId& task() {
    static const TaskId kTasks[] = {kFio, kOther, kThird, kJbd, kHog};
    return kTasks[below(5)];
  }
  uint32_t disk() { return below(4) == 0 ? kDecoy : kDisk; }
  uint32_t dev() {
    const uint32_t devs[] = {kPart, kPart, kPart, kDisk, kDecoy, 0};
    return devs[below(6)];
  }
  uint32_t flags(std::initializer_list<int> some) {
    uint32_t flags = 0;
    for (int flag : some) {
      if (below(6) == 0) flags |= static_cast<uint32_t>(flag);
    }
    return flags;
  }
  std::pair<uint64_t, uint64_t> span() {
    uint64_t a = at();
    uint64_t b = at();
    if (below(20) == 0) return {a, b};  // perhaps impossible
    return {std::min(a, b), std::max(a, b)};
  }

  void add_wait(Events& events) {
    static const std::vector<std::vector<std::string_view>> kStacks{
        LOCKED_STACK,      SHADOW_STACK, BUFFER_LOCK_STACK, COMMIT_STACK,
        FLUSH_STACK,       TAG_STACK,    DIO_STACK,         INODE_WRITE_STACK,
        BATCH_STACK,       READ_STACK,   {"other"},         INODE_READ_STACK,
        JBD_HANDLES_STACK, JBD_IO_STACK, WRITEBACK_STACK,   {}};
    auto [out, in] = span();
    uint64_t waking = out + (in > out ? below(in - out + 1) : 0);
    WaitBuilder wait = events.wait(task(), out, below(10) == 0 ? 0 : waking, in);
    wire::wire_wait& raw = events.waits.back();
    for (std::string_view frame : kStacks[below(kStacks.size())]) {
      raw.stack[raw.frames++] = events.stacks->address(frame);
    }
    raw.flags = flags({wire::WAIT_PREEMPTED, wire::WAIT_STILL_ASLEEP, wire::WAIT_CUT_START,
                       wire::WAIT_IDLE, wire::WAIT_HANDLE_OPEN, wire::WAIT_STARTING_HANDLE});
    raw.dev = dev();
    raw.journal_tid = static_cast<uint32_t>(below(5));
    raw.journal_state = static_cast<uint32_t>(below(4));
    raw.handle_tid = static_cast<uint32_t>(below(5));
    raw.target_tid = static_cast<uint32_t>(below(5));
    if (below(2) == 0) wait.woken_by(task(), static_cast<uint32_t>(below(4)));
    if (below(2) == 0) {
      uint64_t issue = at();
      wait.request(static_cast<uint32_t>(below(3)), below(1000), below(2) == 0 ? 0 : at(), issue,
                   issue + below(20) * kMs, disk());
    }
    if (below(3) == 0) wait.lock(0x1000 + below(3), below(2) == 0 ? 2 : 4, below(3)).owner(task());
    if (below(8) == 0) wait.readers();
    if (below(2) == 0) wait.ran_before(task());
  }

  void add_commit(Events& events) {
    uint64_t times[8];
    for (uint64_t& t : times) t = at();
    if (below(10) != 0) std::sort(std::begin(times), std::end(times));
    for (uint64_t& t : times) {
      if (below(5) == 0) t = 0;
    }
    auto& commit = events.commit(
        static_cast<uint32_t>(below(5)), below(3) == 0 ? task() : kJbd,
        {times[0], times[1], times[2], times[3], times[4], times[5], times[6], times[7]});
    commit.flags = flags({wire::COMMIT_CUT_START, wire::COMMIT_UNFINISHED});
  }

  std::mt19937_64 random_;
  uint64_t range_ = 1;
};

void write(const std::vector<Cause>& causes, std::string& text) {
  for (const Cause& cause : causes) {
    text += std::string(name_of(cause.kind)) + cause.id + "@" + std::to_string(cause.start_ns) +
            "+" + std::to_string(cause.ns) + cause.text + std::string(name_of(cause.sure));
    for (const std::string& evidence : cause.evidence) text += evidence;
    if (cause.causes.empty()) text += std::string(name_of(cause.root.kind));
    text += "(";
    write(cause.causes, text);
    text += ")";
  }
}

std::string written(const std::vector<Stall>& stalls) {
  std::string text;
  for (const Stall& stall : stalls) {
    for (const Part& part : stall.parts) {
      text += std::string(kernel::name_of(part.wait_class)) + std::to_string(part.start_ns) + "+" +
              std::to_string(part.ns);
      for (const std::string& frame : part.stack) text += frame;
      write(part.causes, text);
    }
    for (const std::string& root : roots_of(stall.roots)) text += root;
    text += "\n";
  }
  return text;
}

TEST(Random, SumsHoldAndOrderDoesNotMatter) {
  size_t stalls_seen = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Generator generator(seed);
    Events events;
    generator.fill(events);
    uint64_t window_end = generator.below(2) == 0 ? 0 : ms(40);
    model::Trace trace = events.trace(ms(5), window_end);
    std::vector<Stall> stalls = explain_all(trace);
    uint64_t total_ns = 0;
    for (const Stall& stall : stalls) {
      check_sums(stall);
      Stall shorter = stall;
      shorten(shorter, trace, 3);
      check_sums(shorter);
      total_ns += stall.ns;
    }
    stalls_seen += stalls.size();

    Summary summary = summarize(trace, stalls);
    uint64_t waits_ns = 0;
    for (const WaitSum& sum : summary.waits) waits_ns += sum.ns;
    EXPECT_EQ(waits_ns, total_ns);
    uint64_t roots_ns = 0;
    for (const RootSum& sum : summary.roots) roots_ns += sum.ns;
    EXPECT_EQ(roots_ns, total_ns);
    for (const AsyncSum& sum : summary.asyncs) {
      uint64_t async_ns = 0;
      for (const Root& root : sum.roots) async_ns += root.ns;
      EXPECT_EQ(async_ns, sum.ns);
      if (sum.split) {
        EXPECT_EQ(sum.submit_ns + sum.queue_ns + sum.device_ns + sum.complete_ns, sum.ns);
      }
    }

    std::vector<std::vector<std::byte>> stream = events.stream();
    std::shuffle(stream.begin(), stream.end(), generator.engine());
    model::Trace shuffled = events.trace_of(stream, ms(5), window_end);
    EXPECT_EQ(written(explain_all(shuffled)), written(stalls));
    EXPECT_EQ(shuffled.oddities().total(), trace.oddities().total());
    if (HasFailure()) return;
  }
  EXPECT_GT(stalls_seen, 2000U);
}

// A long, busy trace: 2,000 stalls behind 500 commits, 100,000 waits; a tenth of it where
// sanitizers or the lack of optimization would measure themselves.
TEST(Speed, ExplainsALongTrace) {
  Events events;
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  constexpr uint64_t kCommits = 500;
#else
  constexpr uint64_t kCommits = 50;
#endif
  for (uint64_t i = 0; i < kCommits; ++i) {
    uint64_t t = i * 100;
    auto tid = static_cast<uint32_t>(i + 1);
    events.commit(
        tid, kJbd,
        {ms(t), ms(t), ms(t + 1), ms(t + 50), ms(t + 51), ms(t + 60), ms(t + 98), ms(t + 99)});
    events.wait(kJbd, ms(t + 1), ms(t + 50), ms(t + 50))
        .stack(JBD_HANDLES_STACK)
        .flags(wire::WAIT_JOURNAL_THREAD)
        .woken_by(kOther);
    events.wait(kJbd, ms(t + 60), ms(t + 98), ms(t + 98))
        .stack(JBD_IO_STACK)
        .flags(wire::WAIT_JOURNAL_THREAD)
        .request(2, ~0ULL, ms(t + 60), ms(t + 61), ms(t + 98));
    Events::member(events.flush(ms(t + 60), ms(t + 61), ms(t + 98)), kJbd, ms(t + 60), tid, true);
    events.handle(kOther, tid, 1, ms(t), ms(t + 50));
    for (uint64_t k = 0; k < 200; ++k) {
      events
          .wait(kOther, us(t * 1000 + k * 400), us(t * 1000 + k * 400 + 300),
                us(t * 1000 + k * 400 + 310))
          .stack(TAG_STACK)
          .request(1, k, us(t * 1000 + k * 400), us(t * 1000 + k * 400 + 10),
                   us(t * 1000 + k * 400 + 300));
    }
    for (uint32_t k = 0; k < 4; ++k) {
      const TaskId victim{5000 + k, "fio"};
      events.call(victim, wire::CALL_WRITE, ms(t + 2), ms(t + 99));
      events.wait(victim, ms(t + 2), ms(t + 50), ms(t + 51)).stack(LOCKED_STACK).woken_by(kJbd);
      events.wait(victim, ms(t + 52), ms(t + 98), ms(t + 98)).stack(COMMIT_STACK).woken_by(kJbd);
    }
  }
  // This process's CPU time: the machine may be busy with other things.
  std::clock_t begin = std::clock();
  model::Trace trace = events.trace();
  std::vector<Stall> stalls = explain_all(trace);
  Summary summary = summarize(trace, stalls);
  double took_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(stalls.size(), 4 * kCommits);
  EXPECT_GT(trace.waits().size(), kCommits * 200);
  // About 2 s on a busy machine.
  EXPECT_LT(took_s, 10.0);
  RecordProperty("cpu_seconds", std::to_string(took_s));
  for (size_t i = 0; i < stalls.size(); i += 100) check_sums(stalls[i]);
}

}  // namespace
}  // namespace stalltrace::blame

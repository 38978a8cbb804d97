// What a sleeping task waits for, told from its kernel stack. The names are those of reports.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace stalltrace::kernel {

enum class WaitClass : uint8_t {
  kCpuRun,
  kCpuWait,
  kJournalLocked,
  kJournalCredits,
  kJournalSpace,
  kJournalBarrier,
  kJournalBuffer,
  kJournalCommit,
  kJournalFastcommit,
  kJournalBatch,
  kLockInode,
  kLockExtent,
  kLockMapping,
  kLockOther,
  kLogForce,
  kLogSpace,
  kTreeLog,
  kTreeCommit,
  kBlockFlush,
  kBlockRead,
  kBlockWrite,
  kBlockTag,
  kBlockDrain,
  kBlockFrozen,
  kBlockWbt,
  kBlockThrottle,
  kPageWriteback,
  kPageLock,
  kPageDirtyThrottle,
  kMemoryReclaim,
  kFsFrozen,
  kUringWait,
  kOther,
  // The journal thread's own waits.
  kCommitHandles,
  kCommitData,
  kCommitLog,
  kCommitRecord,
  kCommitCheckpoint,
  kCommitRun,
};
inline constexpr size_t kWaitClassCount = static_cast<size_t>(WaitClass::kCommitRun) + 1;

// "journal.locked" and so on; a static string.
std::string_view name_of(WaitClass wait_class);
std::optional<WaitClass> wait_class_named(std::string_view name);

// commit.*: phases of a commit, only ever the journal thread's.
inline bool is_commit_phase(WaitClass wait_class) {
  return wait_class >= WaitClass::kCommitHandles;
}

// What the stack alone does not tell.
struct WaitContext {
  // The task is a journal's thread (kjournald2).
  bool journal_thread = false;
  // The running transaction was in T_RUNNING when the task went to sleep: then a wait for it is
  // not for its lock but because it is full.
  bool transaction_running = false;
  // The call writes. Decides between block.read and block.write where the stack shows neither.
  bool is_write = false;
  // Known from sched_switch: the task was still runnable. A stack from a dump of a task in state R
  // leaves this false, so that work like reclaim is named.
  bool preempted = false;
};

struct WaitMatch {
  WaitClass wait_class = WaitClass::kOther;
  std::string_view row;      // of the stack table, "7"; empty when no row matched
  std::string_view meaning;  // one clause for people: "waits for a free request of the device"
  // Inferred from a stack without the function that sleeps, as /proc/PID/stack gives it.
  bool guess = false;
};

// `frames`: the whole stack with the scheduler's frames, innermost first, compiler suffixes cut
// off. Never fails: kOther when nothing fits.
// An idle journal thread is kOther too; ask is_idle_journal_thread() first.
WaitMatch match_wait(std::span<const std::string_view> frames, const WaitContext& context = {});

inline WaitClass classify(std::span<const std::string_view> frames,
                          const WaitContext& context = {}) {
  return match_wait(frames, context).wait_class;
}

// kjournald2 sleeping between commits.
bool is_idle_journal_thread(std::span<const std::string_view> frames);

// The waits for journal blocks and for the commit record have one stack (the two differ only in a
// return address). A wait that began after the commit record (the journal thread's bio with
// PREFLUSH or, without barriers, its last one) was queued is the record's. Times in ns;
// `record_queued_ns` 0: not queued yet. Other classes come back unchanged.
WaitClass log_or_record(WaitClass by_stack, uint64_t wait_start_ns, uint64_t record_queued_ns);

}  // namespace stalltrace::kernel

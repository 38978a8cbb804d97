#include "userspace/report/plain_words.h"

#include <fmt/format.h>

namespace stalltrace::report {

using blame::RootKind;
using kernel::WaitClass;

std::string_view meaning_of(WaitClass wait_class) {
  switch (wait_class) {
    case WaitClass::kCpuRun:
      return "on a CPU, not blocked";
    case WaitClass::kCpuWait:
      return "ready to run, waiting for a CPU";
    case WaitClass::kJournalLocked:
      return "wants to change the file system, but the open transaction takes no new changes: it "
             "is about to be committed and waits for changes under way";
    case WaitClass::kJournalCredits:
      return "wants to change the file system, but the open transaction is full or being switched";
    case WaitClass::kJournalSpace:
      return "the journal is full: older changes must be written to their places first";
    case WaitClass::kJournalBarrier:
      return "changes are barred for now: a freeze or a fast commit";
    case WaitClass::kJournalBuffer:
      return "wants to change a metadata block that a commit is writing just now";
    case WaitClass::kJournalCommit:
      return "waits until the commit that holds its changes is on disk";
    case WaitClass::kJournalFastcommit:
      return "waits for a fast commit";
    case WaitClass::kJournalBatch:
      return "sleeps on purpose, so that more syncs can share one commit";
    case WaitClass::kLockInode:
      return "waits for a file's lock (inode rwsem)";
    case WaitClass::kLockExtent:
      return "waits for the lock of a file's block map";
    case WaitClass::kLockMapping:
      return "waits for the lock of a file's page cache (invalidate_lock)";
    case WaitClass::kLockOther:
      return "waits for another lock of the kernel";
    case WaitClass::kLogForce:
      return "waits until XFS's log is on disk";
    case WaitClass::kLogSpace:
      return "waits for room in XFS's log";
    case WaitClass::kTreeLog:
      return "waits for btrfs's log tree";
    case WaitClass::kTreeCommit:
      return "waits for a commit of btrfs";
    case WaitClass::kBlockFlush:
      return "waits until the device has emptied its write cache";
    case WaitClass::kBlockRead:
      return "waits for a read from the device";
    case WaitClass::kBlockWrite:
      return "waits for a write to the device";
    case WaitClass::kBlockTag:
      return "the device's queue is full: waits for a free place in it";
    case WaitClass::kBlockDrain:
      return "waits until earlier direct I/O on the file has finished";
    case WaitClass::kBlockFrozen:
      return "the device's queue is frozen";
    case WaitClass::kBlockWbt:
      return "held back by writeback throttling";
    case WaitClass::kBlockThrottle:
      return "held back by the limits of a cgroup";
    case WaitClass::kPageWriteback:
      return "waits until a page has been written";
    case WaitClass::kPageLock:
      return "waits for a locked page";
    case WaitClass::kPageDirtyThrottle:
      return "slowed down: too many pages are not written yet";
    case WaitClass::kMemoryReclaim:
      return "waits for free memory";
    case WaitClass::kFsFrozen:
      return "the file system is frozen";
    case WaitClass::kUringWait:
      return "waits for completions on purpose";
    case WaitClass::kOther:
      return "a wait that is not in our table; its stack tells";
    case WaitClass::kCommitHandles:
      return "no new changes are let in; waiting for changes under way to end";
    case WaitClass::kCommitData:
      return "writing file data that has to be on disk first";
    case WaitClass::kCommitLog:
      return "writing the changed metadata to the journal";
    case WaitClass::kCommitRecord:
      return "writing the commit record, with its flush";
    case WaitClass::kCommitCheckpoint:
      return "writing older changes to their places";
    case WaitClass::kCommitRun:
      return "working on a CPU";
  }
  return "";
}

std::string_view meaning_of(RootKind kind) {
  switch (kind) {
    case RootKind::kDeviceFlush:
      return "the device was emptying its write cache";
    case RootKind::kDeviceWrite:
      return "the device was writing";
    case RootKind::kDeviceRead:
      return "the device was reading";
    case RootKind::kDeviceQueue:
      return "requests ahead in the device's queue";
    case RootKind::kDeviceHung:
      return "the device completed nothing";
    case RootKind::kTaskCpu:
      return "a task that others waited for was running";
    case RootKind::kTaskRunnable:
      return "a task was ready to run, but had no CPU";
    case RootKind::kReaders:
      return "readers held a lock";
    case RootKind::kUser:
      return "a task that others waited for was in its own program";
    case RootKind::kMemory:
      return "memory was short";
    case RootKind::kThrottle:
      return "a limit of a cgroup or of writeback";
    case RootKind::kFrozen:
      return "the file system or the device's queue was frozen";
    case RootKind::kKnob:
      return "a deliberate sleep: batching";
    case RootKind::kSelf:
      return "the call itself was running";
    case RootKind::kUnexplained:
      return "nothing that was seen tells why";
  }
  return "";
}

std::string what_happened(RootKind kind, std::string_view place) {
  auto on = [place](std::string_view words, std::string_view link) {
    return place.empty() ? std::string(words) : fmt::format("{} {} {}", words, link, place);
  };
  switch (kind) {
    case RootKind::kDeviceFlush:
      return on("waited for flushes", "of");
    case RootKind::kDeviceWrite:
      return on("waited for writes", "to");
    case RootKind::kDeviceRead:
      return on("waited for reads", "from");
    case RootKind::kDeviceQueue:
      return on("waited for requests ahead in the queue", "of");
    case RootKind::kDeviceHung:
      return on("waited for a device that completed nothing", ":");
    case RootKind::kTaskCpu:
      return "waited for tasks that were running";
    case RootKind::kTaskRunnable:
      return "waited for a CPU";
    case RootKind::kReaders:
      return "waited for readers of a lock";
    case RootKind::kUser:
      return "waited for tasks busy in their own program";
    case RootKind::kMemory:
      return "waited for free memory";
    case RootKind::kThrottle:
      return "was held back by limits";
    case RootKind::kFrozen:
      return on("waited for a thaw", "of");
    case RootKind::kKnob:
      return "slept on purpose (batching)";
    case RootKind::kSelf:
      return "was running, not waiting";
    case RootKind::kUnexplained:
      return "is unexplained";
  }
  return "";
}

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace stalltrace::report

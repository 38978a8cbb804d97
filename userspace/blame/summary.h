// What many stalls have in common: figures for whole reports, all taken from the same trace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "userspace/blame/stall.h"
#include "userspace/model/dist.h"
#include "userspace/model/trace.h"

namespace stalltrace::blame {

struct WaitSum {
  kernel::WaitClass wait_class = kernel::WaitClass::kOther;
  uint32_t dev = 0;  // whole disk of the stalled calls
  uint64_t ns = 0;
  uint64_t stalls = 0;
};

struct RootSum {
  RootKind kind = RootKind::kUnexplained;
  uint32_t dev = 0;  // of the root; 0: it has none
  uint64_t ns = 0;
  uint64_t stalls = 0;
};

struct CommitSum {
  uint32_t dev = 0;  // whole disk of the file system
  uint32_t fs_dev = 0;
  uint64_t count = 0;                            // ended in the window
  std::map<std::string, model::Dist> phases_ns;  // "commit.handles", ...; "total" is their sum
  model::Dist syncs;                             // numbers: sync calls that waited for one commit
};

struct FlushSum {
  uint32_t dev = 0;
  uint64_t count = 0;    // completed in the window
  model::Dist callers;   // requests that shared a flush
  model::Dist queue_ns;  // first of them queued, to issue; of those where it is known
  model::Dist device_ns;
};

struct LockHolderSum {
  TaskName task;
  std::string doing;
  uint64_t ns = 0;
};

struct LockSum {
  kernel::WaitClass wait_class = kernel::WaitClass::kLockInode;
  uint32_t dev = 0;
  uint64_t ino = 0;  // 0: not an inode's
  std::string path;
  bool write = false;
  uint64_t waits = 0;
  uint64_t ns = 0;
  uint64_t max_ns = 0;
  std::vector<LockHolderSum> holders;  // longest first
};

// An asynchronous request over the threshold.
struct AsyncSum {
  bool uring = false;
  TaskName task;
  uint32_t dev = 0;  // whole disk
  uint32_t fs_dev = 0;
  uint64_t ino = 0;
  uint64_t user_id = 0;
  uint64_t start_ns = 0;
  uint64_t ns = 0;
  bool split = false;  // the four are known; they add up to ns
  uint64_t submit_ns = 0, queue_ns = 0, device_ns = 0, complete_ns = 0;
  bool unfinished = false;
  std::vector<Root> roots;
};

struct Summary {
  std::vector<WaitSum> waits;  // longest first, like all below where not said otherwise
  std::vector<RootSum> roots;
  std::vector<CommitSum> commits;  // by dev
  std::vector<FlushSum> flushes;   // by dev
  std::vector<LockSum> locks;
  std::vector<AsyncSum> asyncs;  // by start
  uint64_t folded_stalls = 0;    // over 10 % of which is in sleeps known by their sum only
  uint64_t odd_events = 0;       // that the model refused or mended
};

Summary summarize(const model::Trace& trace, const std::vector<Stall>& stalls);

}  // namespace stalltrace::blame

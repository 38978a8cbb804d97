// What happened in one run that a device was synced by threads: counts and samples, to be added up
// over loops.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "userspace/batching/flush_origin.h"
#include "userspace/batching/paid.h"
#include "userspace/batching/sync_parts.h"
#include "userspace/batching/unseen.h"
#include "userspace/model/span.h"
#include "userspace/model/trace.h"

namespace stalltrace::batching {

// A sync call counts under the first that applies.
struct SyncCounts {
  uint64_t with_commit = 0;    // the journal thread woke it
  uint64_t fast_commit = 0;    // ext4's fast commit, its own or another's
  uint64_t flush_only = 0;     // nothing to commit: a flush of its own
  uint64_t nothing_to_do = 0;  // neither (or nothing that had to be waited for)
  uint64_t own_flush = 0;      // of with_commit: flushed itself as well, having come too late

  [[nodiscard]] uint64_t all() const {
    return with_commit + fast_commit + flush_only + nothing_to_do;
  }
};

struct Tally {
  uint64_t ns = 0;                   // of the workload, by its own clock
  uint64_t files = 0;                // that it made
  std::vector<model::Span> windows;  // in which everything below was counted
  SyncCounts syncs;
  uint64_t commits = 0;        // those that no sync asked or waited for left out
  uint64_t timer_commits = 0;  // those: mostly the timer's
  std::array<uint64_t, kFlushOrigins> flushes{};

  SyncTimes sync_parts_ns{};  // of all syncs
  std::array<uint64_t, kJoined> joined{};
  Paid paid;          // by the syncs that waited for a commit
  Dirtiers dirtiers;  // of the commits counted here

  // Samples, in ns.
  std::vector<uint64_t> file_ns;  // by the workload's clock: from a file's open to it on disk
  std::vector<uint64_t> sync_ns;
  std::vector<uint64_t> commit_ns;
  std::vector<uint64_t> handles_ns;     // commits: locked, waiting for open handles
  std::vector<uint64_t> flush_ns;       // issue to completion, of commits' and syncs' flushes
  std::vector<uint64_t> batch_wait_ns;  // the sleep in jbd2_journal_stop, of calls that slept
  std::vector<uint64_t> idle_ns;        // spells: a sync waits and the devices execute no flush
  uint64_t average_commit_ns = 0;       // the kernel's, after the last commit; 0: none seen

  // From outside: /proc/fs/jbd2 and /proc/diskstats.
  uint64_t proc_commits = 0;
  uint64_t diskstats_flushes = 0;
  Unseen unseen;

  [[nodiscard]] uint64_t flushes_for_syncs() const {
    return flushes[static_cast<size_t>(FlushOrigin::kCommit)] +
           flushes[static_cast<size_t>(FlushOrigin::kSync)];
  }
  // Commits, and flushes that a sync asked for without one.
  [[nodiscard]] uint64_t requests() const { return commits + syncs.flush_only; }

  Tally& operator+=(const Tally& other);
};

// Of one file system (`dev`: its device) on its disks, from the trace's window.
Tally tally_of(const model::Trace& trace, uint32_t dev, const std::vector<uint32_t>& disks);

}  // namespace stalltrace::batching

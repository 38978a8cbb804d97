// What one sync waited for, from its beginning to its end.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "userspace/model/trace.h"

namespace stalltrace::batching {

// At each moment the first of these that applies; together they are the whole sync.
enum class SyncPart : uint8_t {
  kBatchingSleep,  // slept so that others may join (jbd2_journal_stop)
  kOwnFlush,       // the flush that it asked for itself was in the device
  kFlushInFlight,  // that one waited, for another flush mostly
  kOwnCommit,      // the commit that it needed was under way
  kCommitBefore,   // the one before was, and its own could not begin
  kOther,          // its data was written, it waited for a handle or a CPU, or it ran
};
inline constexpr size_t kSyncParts = 6;
std::string_view name_of(SyncPart part);  // "batching_sleep", "own_flush", ...

// Nanoseconds of each; they add up to the sync's time.
using SyncTimes = std::array<uint64_t, kSyncParts>;
SyncTimes parts_of(const model::Trace& trace, const model::Sync& sync);

// How a sync that needed a commit met it.
enum class Joined : uint8_t {
  kRunning,     // nothing was being committed: its own could begin at once
  kNext,        // another was: it paid for the rest of that one, too ("double wait")
  kCommitting,  // its own was under way already
};
inline constexpr size_t kJoined = 3;
std::string_view name_of(Joined joined);  // "running", "next", "committing"

// Nothing for a sync that no commit woke, or whose commit was not seen.
std::optional<Joined> joined_by(const model::Trace& trace, const model::Sync& sync);

}  // namespace stalltrace::batching

#include "userspace/batching/sync_parts.h"

#include <algorithm>
#include <span>

namespace stalltrace::batching {
namespace {

using model::Span;

bool needed_commit(const model::Sync& sync) {
  return model::waited_for_commit(sync) && sync.wanted_tid != 0;
}

// Before that it had only been asked for.
uint64_t began_ns(const model::Commit& commit) {
  return commit.event.start_ns != 0 ? commit.event.start_ns : commit.span().start_ns;
}

// The flush that served the sync's own request.
const model::Flush* own_flush(const model::Trace& trace, const model::Sync& sync) {
  if (sync.flush_ns == 0) return nullptr;
  uint32_t disk = trace.disk_of(sync.dev);
  for (const model::Flush* flush : trace.flushes(disk, {sync.flush_ns, sync.end_ns})) {
    std::span<const wire::wire_flush_member> members = flush->members();
    bool ours = std::any_of(members.begin(), members.end(), [&](const auto& one) {
      return one.task.tid == sync.task.tid && one.queued_ns == sync.flush_ns;
    });
    if (ours) return flush;
  }
  return nullptr;
}

}  // namespace

std::string_view name_of(SyncPart part) {
  static constexpr std::array<std::string_view, kSyncParts> kNames{
      "batching_sleep", "own_flush", "flush_in_flight", "own_commit", "commit_before", "other"};
  return kNames.at(static_cast<size_t>(part));
}

std::string_view name_of(Joined joined) {
  static constexpr std::array<std::string_view, kJoined> kNames{"running", "next", "committing"};
  return kNames.at(static_cast<size_t>(joined));
}

SyncTimes parts_of(const model::Trace& trace, const model::Sync& sync) {
  SyncTimes times{};
  Span whole{sync.start_ns, sync.end_ns};
  model::FreeSpans free(whole);
  auto take = [&](SyncPart part, Span span) {
    free.take(span, [&](Span piece) { times[static_cast<size_t>(part)] += piece.ns(); });
  };
  if (const model::Flush* flush = own_flush(trace, sync)) {
    take(SyncPart::kOwnFlush, flush->device);
    take(SyncPart::kFlushInFlight, {sync.flush_ns, flush->device.start_ns});
  }
  if (needed_commit(sync)) {
    for (const model::Commit* commit : trace.commits(sync.dev, whole)) {
      // Transactions are numbered on, around zero (tid_gt in linux/jbd2.h).
      auto ahead = static_cast<int32_t>(sync.wanted_tid - commit->event.tid);
      if (ahead == 0) take(SyncPart::kOwnCommit, commit->span());
      if (ahead > 0) take(SyncPart::kCommitBefore, commit->span());
    }
  }
  take(SyncPart::kOther, whole);
  // How long it slept is known, and not when.
  uint64_t& other_ns = times[static_cast<size_t>(SyncPart::kOther)];
  uint64_t slept_ns = std::min(sync.batch_ns, other_ns);
  times[static_cast<size_t>(SyncPart::kBatchingSleep)] = slept_ns;
  other_ns -= slept_ns;
  return times;
}

std::optional<Joined> joined_by(const model::Trace& trace, const model::Sync& sync) {
  if (!needed_commit(sync)) return std::nullopt;
  const model::Commit* own = trace.commit(sync.dev, sync.wanted_tid);
  if (own == nullptr) return std::nullopt;
  if (began_ns(*own) <= sync.start_ns) return Joined::kCommitting;
  for (const model::Commit* commit : trace.commits(sync.dev, {sync.start_ns, sync.start_ns + 1})) {
    if (commit != own && began_ns(*commit) <= sync.start_ns) return Joined::kNext;
  }
  return Joined::kRunning;
}

}  // namespace stalltrace::batching

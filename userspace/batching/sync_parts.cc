#include "userspace/batching/sync_parts.h"

#include <algorithm>
#include <vector>

namespace stalltrace::batching {
namespace {

using model::Span;

// Takes what `span` covers of the free pieces for a part.
class Pieces {
 public:
  explicit Pieces(Span whole) : free_{whole} {}

  uint64_t take(Span span) {
    uint64_t taken = 0;
    std::vector<Span> left;
    for (const Span& piece : free_) {
      Span both = piece.clip(span);
      if (both.empty()) {
        left.push_back(piece);
        continue;
      }
      taken += both.ns();
      if (piece.start_ns < both.start_ns) left.push_back({piece.start_ns, both.start_ns});
      if (both.end_ns < piece.end_ns) left.push_back({both.end_ns, piece.end_ns});
    }
    free_ = std::move(left);
    return taken;
  }

  [[nodiscard]] uint64_t left_ns() const {
    uint64_t ns = 0;
    for (const Span& piece : free_) ns += piece.ns();
    return ns;
  }

 private:
  std::vector<Span> free_;
};

bool needed_commit(const model::Sync& sync) {
  return (sync.flags & wire::SYNC_COMMIT_WOKE) != 0 && sync.wanted_tid != 0;
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
    const auto* members = flush->event.member;
    uint32_t known = std::min<uint32_t>(flush->event.known_members, wire::WIRE_FLUSH_MEMBERS);
    bool ours = std::any_of(members, members + known, [&](const wire::wire_flush_member& one) {
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
  auto add = [&](SyncPart part, uint64_t ns) { times[static_cast<size_t>(part)] += ns; };
  Span whole{sync.start_ns, sync.end_ns};
  Pieces pieces(whole);
  if (const model::Flush* flush = own_flush(trace, sync)) {
    add(SyncPart::kOwnFlush, pieces.take(flush->device));
    add(SyncPart::kFlushInFlight, pieces.take({sync.flush_ns, flush->device.start_ns}));
  }
  if (needed_commit(sync)) {
    for (const model::Commit* commit : trace.commits(sync.dev, whole)) {
      // Transactions are numbered on, around zero (tid_gt in linux/jbd2.h).
      auto ahead = static_cast<int32_t>(sync.wanted_tid - commit->event.tid);
      if (ahead == 0) add(SyncPart::kOwnCommit, pieces.take(commit->span()));
      if (ahead > 0) add(SyncPart::kCommitBefore, pieces.take(commit->span()));
    }
  }
  uint64_t slept_ns = std::min(sync.batch_ns, pieces.left_ns());
  add(SyncPart::kBatchingSleep, slept_ns);
  add(SyncPart::kOther, pieces.left_ns() - slept_ns);
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

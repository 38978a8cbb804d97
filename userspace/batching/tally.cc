#include "userspace/batching/tally.h"

#include <algorithm>

namespace stalltrace::batching {
namespace {

using model::Span;

void append(std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Sorted, overlaps merged.
std::vector<Span> merged(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() && span.start_ns <= result.back().end_ns) {
      result.back().end_ns = std::max(result.back().end_ns, span.end_ns);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

// The spells of `spans` that no span of `without` covers; both merged.
std::vector<uint64_t> uncovered(const std::vector<Span>& spans, const std::vector<Span>& without) {
  std::vector<uint64_t> spells;
  size_t next = 0;
  for (const Span& span : spans) {
    uint64_t at = span.start_ns;
    while (next < without.size() && without[next].end_ns <= at) ++next;
    for (size_t i = next; i < without.size() && without[i].start_ns < span.end_ns; ++i) {
      if (without[i].start_ns > at) spells.push_back(without[i].start_ns - at);
      at = std::max(at, without[i].end_ns);
    }
    if (at < span.end_ns) spells.push_back(span.end_ns - at);
  }
  return spells;
}

void count_sync(const model::Sync& sync, SyncCounts& counts) {
  if (model::waited_for_commit(sync)) {
    ++counts.with_commit;
    if (sync.flush_ns != 0) ++counts.own_flush;
  } else if ((sync.flags & wire::SYNC_FAST_COMMIT) != 0) {
    ++counts.fast_commit;
  } else if (sync.flush_ns != 0) {
    ++counts.flush_only;
  } else {
    ++counts.nothing_to_do;
  }
}

bool ends_inside(const Span& window, uint64_t ns) {
  return ns >= window.start_ns && ns <= window.end_ns;
}

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  ns += other.ns;
  files += other.files;
  windows.insert(windows.end(), other.windows.begin(), other.windows.end());
  syncs.with_commit += other.syncs.with_commit;
  syncs.fast_commit += other.syncs.fast_commit;
  syncs.flush_only += other.syncs.flush_only;
  syncs.nothing_to_do += other.syncs.nothing_to_do;
  syncs.own_flush += other.syncs.own_flush;
  commits += other.commits;
  timer_commits += other.timer_commits;
  for (size_t i = 0; i < kFlushOrigins; ++i) flushes[i] += other.flushes[i];
  for (size_t i = 0; i < kSyncParts; ++i) sync_parts_ns[i] += other.sync_parts_ns[i];
  for (size_t i = 0; i < kJoined; ++i) joined[i] += other.joined[i];
  paid += other.paid;
  dirtiers.insert(dirtiers.end(), other.dirtiers.begin(), other.dirtiers.end());
  merge(dirtiers);
  append(file_ns, other.file_ns);
  append(sync_ns, other.sync_ns);
  append(commit_ns, other.commit_ns);
  append(handles_ns, other.handles_ns);
  append(flush_ns, other.flush_ns);
  append(batch_wait_ns, other.batch_wait_ns);
  append(idle_ns, other.idle_ns);
  if (other.average_commit_ns != 0) average_commit_ns = other.average_commit_ns;
  proc_commits += other.proc_commits;
  diskstats_flushes += other.diskstats_flushes;
  unseen |= other.unseen;
  return *this;
}

Tally tally_of(const model::Trace& trace, uint32_t dev, const std::vector<uint32_t>& disks) {
  Tally tally;
  tally.windows.push_back(trace.window());
  FlushOrigins origins(trace, dev);
  std::vector<Span> syncing;
  for (const model::Sync& sync : trace.syncs()) {
    if (sync.dev != dev || !ends_inside(trace.window(), sync.end_ns)) continue;
    count_sync(sync, tally.syncs);
    tally.sync_ns.push_back(sync.end_ns - sync.start_ns);
    SyncTimes parts = parts_of(trace, sync);
    for (size_t i = 0; i < kSyncParts; ++i) tally.sync_parts_ns[i] += parts[i];
    if (auto joined = joined_by(trace, sync)) ++tally.joined[static_cast<size_t>(*joined)];
    tally.paid += paid_by(trace, sync);
    if (sync.batch_ns != 0) tally.batch_wait_ns.push_back(sync.batch_ns);
    syncing.push_back({sync.start_ns, sync.end_ns});
  }
  for (const model::Commit& commit : trace.commits(dev)) {
    if (commit.unfinished() || !ends_inside(trace.window(), commit.span().end_ns)) continue;
    if (origins.is_nobodys(commit)) {
      ++tally.timer_commits;
    } else {
      ++tally.commits;
    }
    if (commit.event.average_ns != 0) tally.average_commit_ns = commit.event.average_ns;
    add_dirtied(trace, commit, tally.dirtiers);
    if ((commit.event.flags & wire::COMMIT_CUT_START) != 0) continue;
    tally.commit_ns.push_back(commit.span().ns());
    tally.handles_ns.push_back(commit.locked().ns());
  }
  merge(tally.dirtiers);
  std::vector<Span> flushing;
  for (uint32_t disk : disks) {
    for (const model::Flush& flush : trace.flushes(disk)) {
      if (flush.unfinished() || !ends_inside(trace.window(), flush.device.end_ns)) continue;
      FlushOrigin origin = origins.of(flush);
      ++tally.flushes[static_cast<size_t>(origin)];
      flushing.push_back(flush.device);
      if (origin <= FlushOrigin::kSync) tally.flush_ns.push_back(flush.device.ns());
    }
  }
  tally.idle_ns = uncovered(merged(std::move(syncing)), merged(std::move(flushing)));
  return tally;
}

}  // namespace stalltrace::batching

#include "userspace/batching/flush_origin.h"

#include <algorithm>

#include "userspace/kernel/frames.h"

namespace stalltrace::batching {

std::string_view name_of(FlushOrigin origin) {
  static constexpr std::array<std::string_view, kFlushOrigins> kNames{
      "commit", "sync", "timer", "log_tail", "checkpoint", "foreign"};
  return kNames.at(static_cast<size_t>(origin));
}

FlushOrigins::FlushOrigins(const model::Trace& trace, uint32_t dev) : trace_(trace), dev_(dev) {
  for (const model::Sync& sync : trace.syncs()) {
    if (sync.dev != dev) continue;
    syncs_[sync.task.tid].push_back({sync.start_ns, sync.end_ns});
    if (model::waited_for_commit(sync)) waited_for_.insert(sync.wanted_tid);
  }
}

bool FlushOrigins::is_nobodys(const model::Commit& commit) const {
  return (commit.by_timer() || commit.outside_sync()) && !waited_for_.contains(commit.event.tid);
}

bool FlushOrigins::syncs_at(uint32_t tid, uint64_t ns) const {
  auto found = syncs_.find(tid);
  if (found == syncs_.end()) return false;
  const std::vector<model::Span>& spans = found->second;
  // One after the other, so by end as well as by start.
  auto at = std::partition_point(spans.begin(), spans.end(),
                                 [ns](const model::Span& span) { return span.end_ns < ns; });
  return at != spans.end() && at->start_ns <= ns;
}

bool FlushOrigins::makes_room_at(uint32_t tid, uint64_t ns) const {
  for (const model::Wait& wait : trace_.waits_of(tid, {ns, ns + 1})) {
    if (kernel::has_frame(trace_.frames(wait), "__jbd2_log_wait_for_space")) return true;
  }
  return false;
}

FlushOrigin FlushOrigins::of(const wire::wire_flush_member& member, uint32_t disk) const {
  if (member.journal_tid != 0 && trace_.journal_of(member.task.tid) == dev_) {
    const model::Commit* commit = trace_.commit(dev_, member.journal_tid);
    if (commit == nullptr) return FlushOrigin::kCommit;
    bool record = member.has_data != 0 && commit->event.record_ns != 0 &&
                  member.queued_ns >= commit->event.record_ns;
    // With an external journal, the file system's disk is flushed before the record is written.
    bool data_disk = trace_.disk_of(commit->event.journal_dev) != disk;
    if (!record && !data_disk) return FlushOrigin::kLogTail;
    return is_nobodys(*commit) ? FlushOrigin::kTimer : FlushOrigin::kCommit;
  }
  if (syncs_at(member.task.tid, member.queued_ns)) return FlushOrigin::kSync;
  if (makes_room_at(member.task.tid, member.queued_ns)) return FlushOrigin::kCheckpoint;
  return FlushOrigin::kForeign;
}

FlushOrigin FlushOrigins::of(const model::Flush& flush) const {
  FlushOrigin origin = FlushOrigin::kForeign;
  for (const wire::wire_flush_member& member : flush.members()) {
    origin = std::min(origin, of(member, flush.event.disk));
  }
  return origin;
}

}  // namespace stalltrace::batching

// For whom a flush was made.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "userspace/model/trace.h"

namespace stalltrace::batching {

// Where several requests share a flush, the first of these that one of them has.
enum class FlushOrigin : uint8_t {
  kCommit,      // a commit's record, or the data device of an external journal
  kSync,        // a sync call's own (blkdev_issue_flush in ext4_sync_file), or its fast commit's
  kTimer,       // of a commit that no sync asked or waited for: mostly the timer's
  kLogTail,     // the journal thread moved the log's tail on (jbd2_update_log_tail)
  kCheckpoint,  // a task made room in the log (__jbd2_log_wait_for_space)
  kForeign,     // anything else: other file systems of the disk, mkfs, raw writes
};
inline constexpr size_t kFlushOrigins = 6;
std::string_view name_of(FlushOrigin origin);  // "commit", "sync", ...

// The flushes of one file system's disks, told apart.
class FlushOrigins {
 public:
  // `dev`: the file system's device.
  FlushOrigins(const model::Trace& trace, uint32_t dev);

  [[nodiscard]] FlushOrigin of(const model::Flush& flush) const;
  // No sync asked for it, and none waited for it: the timer's, or begun by a task because its
  // transaction was old or the log full.
  [[nodiscard]] bool is_nobodys(const model::Commit& commit) const;

 private:
  [[nodiscard]] FlushOrigin of(const wire::wire_flush_member& member, uint32_t disk) const;
  [[nodiscard]] bool syncs_at(uint32_t tid, uint64_t ns) const;
  [[nodiscard]] bool makes_room_at(uint32_t tid, uint64_t ns) const;

  const model::Trace& trace_;
  uint32_t dev_;
  std::unordered_map<uint32_t, std::vector<model::Span>> syncs_;  // by tid, by time
  std::unordered_set<uint32_t> waited_for_;                       // transactions
};

}  // namespace stalltrace::batching

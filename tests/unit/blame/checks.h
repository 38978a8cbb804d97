// What holds for every explained stall, and how tests write chains down.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/model/builder.h"
#include "userspace/blame/explain.h"
#include "userspace/blame/stall.h"

namespace stalltrace::testing {

inline const TaskId kFio{4242, "fio"};
inline const TaskId kOther{4250, "fio"};
inline const TaskId kThird{4251, "fio"};
inline const TaskId kJbd{300, "jbd2/loop0-8"};
inline const TaskId kHog{99, "stress"};

// Stacks as the kernel has them, innermost first.
#define LOCKED_STACK                                                                           \
  {                                                                                            \
    "schedule", "wait_transaction_locked", "add_transaction_credits", "start_this_handle",     \
        "jbd2__journal_start", "ext4_dirty_inode", "file_update_time", "ext4_file_write_iter", \
        "aio_write", "io_submit_one"                                                           \
  }
#define SHADOW_STACK                                                                               \
  {                                                                                                \
    "io_schedule", "bit_wait_io", "__wait_on_bit", "out_of_line_wait_on_bit",                      \
        "do_get_write_access", "jbd2_journal_get_write_access", "__ext4_journal_get_write_access", \
        "ext4_reserve_inode_write", "__ext4_mark_inode_dirty", "ext4_dirty_inode"                  \
  }
#define BUFFER_LOCK_STACK                                                               \
  {                                                                                     \
    "io_schedule", "bit_wait_io", "__wait_on_bit_lock", "out_of_line_wait_on_bit_lock", \
        "do_get_write_access", "jbd2_journal_get_write_access", "ext4_dirty_inode"      \
  }
#define COMMIT_STACK \
  { "schedule", "jbd2_log_wait_commit", "ext4_sync_file", "do_fsync" }
#define FLUSH_STACK \
  { "io_schedule", "submit_bio_wait", "blkdev_issue_flush", "ext4_sync_file", "do_fsync" }
#define TAG_STACK                                                                    \
  {                                                                                  \
    "io_schedule", "blk_mq_get_tag", "__blk_mq_alloc_requests", "blk_mq_submit_bio", \
        "__iomap_dio_rw", "ext4_file_write_iter", "aio_write"                        \
  }
#define DIO_STACK \
  { "io_schedule", "__iomap_dio_rw", "ext4_file_write_iter", "vfs_write" }
#define INODE_WRITE_STACK \
  { "schedule", "rwsem_down_write_slowpath", "ext4_file_write_iter", "aio_write" }
#define INODE_READ_STACK \
  { "schedule", "rwsem_down_read_slowpath", "down_read", "ext4_file_write_iter", "aio_write" }
#define BATCH_STACK \
  { "schedule_hrtimeout_range_clock", "jbd2_journal_stop", "__ext4_journal_stop", "ext4_create" }
#define READ_STACK                                                           \
  {                                                                          \
    "io_schedule", "bit_wait_io", "out_of_line_wait_on_bit", "ext4_read_bh", \
        "__read_extent_tree_block", "ext4_map_blocks", "ext4_iomap_begin"    \
  }
#define WRITEBACK_STACK                                                                          \
  {                                                                                              \
    "io_schedule", "folio_wait_bit_common", "folio_wait_writeback", "__filemap_fdatawait_range", \
        "file_write_and_wait_range", "ext4_sync_file"                                            \
  }
#define JBD_HANDLES_STACK \
  { "schedule", "jbd2_journal_wait_updates", "jbd2_journal_commit_transaction", "kjournald2" }
#define JBD_IO_STACK                                                                            \
  {                                                                                             \
    "io_schedule", "bit_wait_io", "out_of_line_wait_on_bit", "jbd2_journal_commit_transaction", \
        "kjournald2"                                                                            \
  }

inline void check_causes(const std::vector<blame::Cause>& causes, uint64_t start_ns, uint64_t ns,
                         int depth = 0) {
  ASSERT_LT(depth, 64);
  uint64_t at_ns = start_ns;
  for (const blame::Cause& cause : causes) {
    EXPECT_EQ(cause.start_ns, at_ns) << cause.text;
    EXPECT_GT(cause.ns, 0U) << cause.text;
    EXPECT_FALSE(cause.text.empty());
    at_ns += cause.ns;
    if (cause.causes.empty()) {
      EXPECT_EQ(cause.root.ns, cause.ns) << cause.text;
    } else {
      check_causes(cause.causes, cause.start_ns, cause.ns, depth + 1);
    }
  }
  EXPECT_EQ(at_ns, start_ns + ns);
}

// Parts tile the call, causes tile each part, roots add up.
inline void check_sums(const blame::Stall& stall) {
  uint64_t at_ns = stall.start_ns;
  for (const blame::Part& part : stall.parts) {
    EXPECT_EQ(part.start_ns, at_ns);
    EXPECT_GT(part.ns, 0U);
    at_ns += part.ns;
    if (part.causes.empty()) {
      EXPECT_EQ(part.root.ns, part.ns);
    } else {
      check_causes(part.causes, part.start_ns, part.ns);
    }
  }
  EXPECT_EQ(at_ns, stall.start_ns + stall.ns);
  uint64_t roots_ns = 0;
  uint64_t last_ns = ~uint64_t{0};
  for (const blame::Root& root : stall.roots) {
    EXPECT_LE(root.ns, last_ns);
    last_ns = root.ns;
    roots_ns += root.ns;
  }
  EXPECT_EQ(roots_ns, stall.ns);
}

// "device.flush 7:0 1840000000 measured" for each root, longest first.
inline std::vector<std::string> roots_of(const std::vector<blame::Root>& roots) {
  std::vector<std::string> lines;
  for (const blame::Root& root : roots) {
    std::string line(blame::name_of(root.kind));
    if (root.dev != 0) line += root.dev == kDisk ? " loop0" : " another disk";
    if (root.task.tid != 0) line += " " + std::to_string(root.task.tid);
    line += " " + std::to_string(root.ns) + " " + std::string(blame::name_of(root.sure));
    lines.push_back(line);
  }
  return lines;
}

// The only stall of a stream, with its sums checked.
inline blame::Stall only_stall(const model::Trace& trace) {
  std::vector<blame::Stall> stalls = blame::explain_all(trace);
  EXPECT_EQ(stalls.size(), 1U);
  if (stalls.empty()) return {};
  check_sums(stalls[0]);
  return stalls[0];
}

inline bool has_evidence(const blame::Cause& cause, std::string_view text) {
  for (const std::string& evidence : cause.evidence) {
    if (evidence.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace stalltrace::testing

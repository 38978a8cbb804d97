#include "userspace/kernel/wait_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/kernel/written.h"
#include "userspace/kernel/wait_class_table.h"

namespace stalltrace::kernel {
namespace {

using enum WaitClass;

WaitMatch match(const std::vector<std::string>& frames, const WaitContext& context = {}) {
  std::vector<std::string_view> views(frames.begin(), frames.end());
  return match_wait(views, context);
}

constexpr WaitContext kJournalThread{.journal_thread = true};
constexpr WaitContext kWriteCall{.is_write = true};

struct Case {
  WaitClass expected;
  const char* stack;
  WaitContext context = {};
};

void PrintTo(const Case& item, std::ostream* out) {
  *out << item.stack;
}

class StackTable : public testing::TestWithParam<Case> {};

TEST_P(StackTable, NamesTheWait) {
  const Case& item = GetParam();
  std::vector<std::string> frames = frames_of(item.stack);
  WaitMatch found = match(frames, item.context);
  EXPECT_EQ(name_of(found.wait_class), name_of(item.expected)) << "row " << found.row;

  // The scheduler's frames and the tracer's in front must change nothing, nor compiler suffixes
  // that the caller has cut off.
  std::vector<std::string> longer = frames_of(
      "bpf_prog_1ab2_on_switch < bpf_trace_run4 < __traceiter_sched_switch < __schedule < "
      "schedule");
  longer.insert(longer.end(), frames.begin(), frames.end());
  for (const char* outer : {"do_syscall_64", "entry_SYSCALL_64_after_hwframe"}) {
    longer.emplace_back(outer);
  }
  EXPECT_EQ(name_of(match(longer, item.context).wait_class), name_of(item.expected));
}

// By the rows of the stack table; stacks as seen on 6.1, 6.12 and 6.18 where not said otherwise.
INSTANTIATE_TEST_SUITE_P(
    Rows1To4, StackTable,
    testing::Values(
        Case{kFsFrozen, "percpu_rwsem_wait < __percpu_down_read < aio_write < io_submit_one"},
        Case{kFsFrozen, "percpu_rwsem_wait < __percpu_down_read < vfs_write < ksys_write"},
        Case{kFsFrozen, "percpu_rwsem_wait < __percpu_down_read < io_write < io_issue_sqe"},
        Case{kFsFrozen, "__sb_start_write < vfs_write < sys_write"},
        Case{kLockOther,
             "percpu_rwsem_wait < __percpu_down_read < ext4_writepages < do_writepages"},
        Case{kLockInode, "rwsem_down_read_slowpath < down_read < ext4_file_write_iter < aio_write"},
        Case{kLockInode, "rwsem_down_write_slowpath < ext4_file_write_iter < vfs_write"},
        Case{kLockInode, "rwsem_down_read_slowpath < down_read < ext4_file_read_iter < vfs_read"},
        Case{kLockInode, "rwsem_down_write_slowpath < down_write < ext4_buffered_write_iter"},
        Case{kLockInode, "rwsem_down_write_slowpath < xfs_ilock < xfs_file_buffered_write"},
        Case{kLockInode, "rwsem_down_read_slowpath < btrfs_inode_lock < btrfs_direct_write"},
        Case{kLockInode, "rwsem_down_write_slowpath < path_openat < do_filp_open"},
        Case{kLockInode, "rwsem_down_write_slowpath < do_unlinkat < __x64_sys_unlink"},
        Case{kLockInode, "rwsem_down_write_slowpath < filename_create < do_mkdirat"},
        Case{kLockInode, "rwsem_down_write_slowpath < blkdev_write_iter < vfs_write"},
        Case{kLockInode, "__rwbase_read_lock < ext4_file_read_iter < vfs_read"},
        Case{kLockInode,
             "rwsem_down_write_failed < call_rwsem_down_write_failed < down_write < "
             "ext4_file_write_iter"},
        Case{kLockInode,
             "__mutex_lock_slowpath < mutex_lock < generic_file_aio_write < "
             "ext4_file_write < do_sync_write"},
        Case{kLockOther,
             "rwsem_down_read_slowpath < down_read < gup_fast_fallback < "
             "iov_iter_extract_pages < bio_iov_iter_get_pages < __iomap_dio_rw < "
             "ext4_file_write_iter < aio_write"},
        Case{kLockOther,
             "rwsem_down_read_slowpath < lock_mm_and_find_vma < do_user_addr_fault < "
             "fault_in_readable < generic_perform_write < ext4_file_write_iter"},
        Case{kLockOther,
             "schedule_preempt_disabled < __mutex_lock.constprop.0 < fdget_pos < ksys_lseek"},
        Case{kLockOther, "fdget_pos < ksys_write"},
        Case{kLockOther, "rwsem_down_write_slowpath < do_madvise < __x64_sys_madvise"},
        Case{kLockOther,
             "rwsem_down_read_slowpath < down_read < __ext4_new_inode < ext4_create < path_openat"},
        Case{kLockExtent,
             "rwsem_down_read_slowpath < down_read < ext4_map_blocks < "
             "ext4_iomap_begin < iomap_iter < __iomap_dio_rw < ext4_file_write_iter"},
        Case{kLockExtent,
             "rwsem_down_write_slowpath < ext4_da_get_block_prep < ext4_da_write_begin "
             "< generic_perform_write < ext4_buffered_write_iter"},
        Case{kLockInode,
             "rwsem_down_read_slowpath < xfs_ilock_for_iomap < "
             "xfs_direct_write_iomap_begin < iomap_iter < xfs_file_write_iter"},
        Case{kLockInode, "rwsem_down_write_slowpath < xfs_trans_alloc_inode < xfs_setattr_nonsize"},
        Case{kLockInode,
             "rwsem_down_write_slowpath < xfs_vn_update_time < file_update_time < "
             "xfs_file_write_checks"},
        Case{kLockInode, "rwsem_down_read_slowpath < xfs_file_fsync < do_fsync"},
        Case{kLockOther,
             "rwsem_down_read_slowpath < xlog_cil_commit < __xfs_trans_commit < "
             "xfs_vn_update_time < xfs_file_write_iter"},
        Case{kLockOther,
             "rwsem_down_write_slowpath < btrfs_tree_lock_nested < btrfs_search_slot < "
             "btrfs_file_write_iter"},
        Case{kLockOther, "rwsem_down_read_slowpath < __btrfs_tree_read_lock < btrfs_search_slot"},
        Case{kLockMapping,
             "rwsem_down_read_slowpath < filemap_fault < __do_fault < "
             "handle_mm_fault < do_user_addr_fault"},
        Case{kLockMapping,
             "rwsem_down_write_slowpath < ext4_punch_hole < ext4_fallocate < "
             "vfs_fallocate"},
        Case{kJournalSpace,
             "mutex_lock_io < __jbd2_log_wait_for_space < add_transaction_credits < "
             "start_this_handle"},
        Case{kJournalSpace,
             "jbd2_log_wait_commit < jbd2_log_do_checkpoint < "
             "__jbd2_log_wait_for_space < add_transaction_credits"},
        Case{kJournalSpace,
             "submit_bio_wait < blkdev_issue_flush < jbd2_cleanup_journal_tail < "
             "__jbd2_log_wait_for_space < add_transaction_credits"},
        Case{kJournalSpace,
             "io_schedule < rq_qos_wait < wbt_wait < __rq_qos_throttle < "
             "blk_mq_submit_bio < jbd2_log_do_checkpoint < "
             "__jbd2_log_wait_for_space"},
        Case{kJournalSpace,
             "io_schedule < blk_mq_get_tag < __blk_mq_alloc_requests < "
             "jbd2_log_do_checkpoint < __jbd2_log_wait_for_space"}));

INSTANTIATE_TEST_SUITE_P(
    Rows5To12, StackTable,
    testing::Values(
        Case{kJournalCommit, "jbd2_log_wait_commit < ext4_sync_file < do_fsync"},
        Case{kJournalCommit, "jbd2_log_wait_commit < jbd2_journal_stop < __ext4_journal_stop"},
        Case{kJournalCommit, "jbd2_log_wait_commit < ext4_fc_commit < ext4_sync_file"},
        Case{kJournalCommit,
             "jbd2_log_wait_commit < ext4_do_writepages < ext4_writepages < "
             "do_writepages < __filemap_fdatawrite_range < ext4_sync_file"},
        Case{kJournalCommit, "jbd2_log_wait_commit < ext4_sync_file < iomap_dio_complete"},
        Case{kJournalBatch,
             "schedule_hrtimeout_range_clock < jbd2_journal_stop < "
             "__ext4_journal_stop < ext4_create"},
        Case{kJournalLocked,
             "wait_transaction_locked < add_transaction_credits < "
             "start_this_handle < jbd2__journal_start < ext4_dirty_inode"},
        Case{kJournalCredits,
             "wait_transaction_locked < add_transaction_credits < "
             "start_this_handle",
             WaitContext{.transaction_running = true}},
        Case{kJournalBarrier, "start_this_handle < jbd2__journal_start < ext4_dirty_inode"},
        Case{kJournalCredits, "add_transaction_credits < start_this_handle < jbd2__journal_start"},
        Case{kJournalBuffer,
             "io_schedule < bit_wait_io < __wait_on_bit < out_of_line_wait_on_bit < "
             "do_get_write_access < jbd2_journal_get_write_access < "
             "ext4_reserve_inode_write < ext4_dirty_inode"},
        Case{kJournalBuffer,
             "io_schedule < bit_wait_io < __wait_on_bit_lock < "
             "out_of_line_wait_on_bit_lock < do_get_write_access < "
             "ext4_mb_mark_diskspace_used"},
        Case{kJournalBuffer, "__lock_buffer < do_get_write_access < jbd2_journal_get_write_access"},
        Case{kJournalBuffer, "sleep_on_buffer < __wait_on_bit < do_get_write_access"},
        Case{kJournalFastcommit, "jbd2_fc_begin_commit < ext4_fc_commit < ext4_sync_file"},
        Case{kJournalFastcommit,
             "jbd2_journal_wait_updates < jbd2_journal_lock_updates < "
             "jbd2_fc_begin_commit < ext4_fc_commit"},
        Case{kJournalFastcommit, "out_of_line_wait_on_bit < jbd2_fc_wait_bufs < ext4_fc_commit"},
        Case{kJournalFastcommit, "ext4_fc_track_inode < ext4_mark_iloc_dirty < ext4_dirty_inode"},
        Case{kJournalFastcommit, "ext4_fc_del < ext4_evict_inode < evict"},
        Case{kJournalBarrier,
             "jbd2_journal_wait_updates < jbd2_journal_lock_updates < ext4_freeze"},
        Case{kLockOther, "__mutex_lock < ext4_orphan_add < ext4_file_write_iter < aio_write"},
        Case{kLockOther, "__mutex_lock < ext4_orphan_del < ext4_evict_inode"}));

INSTANTIATE_TEST_SUITE_P(
    Rows13To19, StackTable,
    testing::Values(
        Case{kLogSpace,
             "xlog_grant_head_wait < xlog_grant_head_check < xfs_log_reserve < "
             "xfs_trans_reserve"},
        Case{kLogForce, "xlog_wait_on_iclog < xfs_file_fsync < do_fsync"},
        Case{kLogForce, "xlog_force_lsn < xfs_log_force_seq < xfs_file_fsync"},
        Case{kLogForce, "xlog_cil_force_seq < xfs_log_force_seq < xfs_file_fsync"},
        Case{kLogForce,
             "__flush_workqueue < xlog_cil_push_now < xlog_cil_force_seq < "
             "xfs_file_fsync"},
        Case{kLogForce, "xlog_cil_commit < __xfs_trans_commit < xfs_vn_update_time"},
        Case{kLogForce, "xlog_state_get_iclog_space < xlog_write < xlog_cil_push_work"},
        Case{kLockOther, "schedule_timeout < __down < down < xfs_buf_lock < xfs_buf_find"},
        Case{kBlockRead, "wait_for_completion < xfs_buf_iowait < _xfs_buf_read < xfs_buf_read_map"},
        Case{kBlockWrite, "wait_for_completion < xfs_buf_iowait < xfs_bwrite < xfs_qm_shake"},
        Case{kLockOther, "io_schedule < __xfs_iunpin_wait < xfs_iflush_cluster"},
        Case{kLockOther, "xfs_extent_busy_flush < xfs_alloc_ag_vextent_size"},
        Case{kTreeLog, "wait_log_commit < btrfs_sync_log < btrfs_sync_file"},
        Case{kTreeLog, "schedule_timeout < btrfs_sync_log < btrfs_sync_file"},
        Case{kTreeLog, "__mutex_lock < btrfs_log_inode_parent < btrfs_log_dentry_safe"},
        Case{kTreeLog,
             "folio_wait_writeback < __filemap_fdatawait_range < "
             "btrfs_wait_tree_log_extents < btrfs_sync_log"},
        Case{kTreeCommit, "wait_for_completion_io < write_all_supers < btrfs_commit_transaction"},
        Case{kTreeCommit, "wait_current_trans < start_transaction < btrfs_dirty_inode"},
        Case{kTreeCommit, "wait_for_commit < btrfs_commit_transaction < btrfs_sync_file"},
        Case{kTreeCommit, "btrfs_commit_transaction < btrfs_sync_file < do_fsync"},
        Case{kTreeCommit, "__reserve_bytes < btrfs_reserve_metadata_bytes < start_transaction"},
        Case{kPageWriteback, "btrfs_start_ordered_extent_nowriteback < btrfs_wait_ordered_range"},
        Case{kPageWriteback, "wait_extent_bit < __lock_extent < btrfs_dio_iomap_begin"}));

INSTANTIATE_TEST_SUITE_P(
    Rows20To27, StackTable,
    testing::Values(
        Case{kBlockTag,
             "io_schedule < blk_mq_get_tag < __blk_mq_alloc_requests < "
             "blk_mq_submit_bio < submit_bio_noacct_nocheck < __iomap_dio_rw < "
             "ext4_file_write_iter < aio_write"},
        Case{kBlockTag, "io_schedule < bt_get < blk_mq_get_tag < __blk_mq_alloc_request"},
        Case{kBlockTag, "io_schedule < get_request < blk_queue_bio < generic_make_request"},
        Case{kBlockTag,
             "io_schedule < blk_mq_get_tag < blk_mq_submit_bio < submit_bio_wait < "
             "blkdev_issue_flush < ext4_sync_file"},
        Case{kBlockWbt,
             "io_schedule < rq_qos_wait < wbt_wait < __rq_qos_throttle < "
             "blk_mq_submit_bio < ext4_writepages"},
        Case{kBlockWbt,
             "io_schedule < rq_qos_wait < wbt_wait < blk_mq_submit_bio < "
             "submit_bio_wait < blkdev_issue_flush < ext4_sync_file"},
        Case{kBlockThrottle, "io_schedule < ioc_rqos_throttle < __rq_qos_throttle"},
        Case{kBlockThrottle, "io_schedule < rq_qos_wait < blkcg_iolatency_throttle"},
        Case{kBlockThrottle,
             "io_schedule_timeout < blkcg_maybe_throttle_current < "
             "exit_to_user_mode_loop"},
        Case{kBlockFrozen,
             "__bio_queue_enter < blk_mq_submit_bio < submit_bio_noacct_nocheck < "
             "__iomap_dio_rw"},
        Case{kBlockFrozen, "blk_queue_enter < blk_mq_alloc_request < scsi_execute_cmd"},
        Case{kBlockFrozen, "submit_bio_noacct < submit_bio < __blkdev_direct_IO_async"},  // 5.15
        Case{kBlockFlush,
             "wait_for_completion_io < submit_bio_wait < blkdev_issue_flush < "
             "ext4_sync_file < do_fsync"},
        Case{kBlockFlush,
             "submit_bio_wait < blkdev_issue_flush < blkdev_fsync < "
             "blkdev_write_iter"},
        Case{kBlockFlush, "submit_bio_wait < blkdev_issue_flush < xfs_file_fsync"},
        Case{kBlockWrite,
             "io_schedule_timeout < __iomap_dio_rw < iomap_dio_rw < "
             "ext4_file_write_iter < aio_write"},
        Case{kBlockRead,
             "io_schedule_timeout < __iomap_dio_rw < iomap_dio_rw < "
             "ext4_file_read_iter < vfs_read"},
        Case{kBlockWrite, "__iomap_dio_rw < iomap_dio_rw", kWriteCall},
        Case{kBlockRead, "__iomap_dio_rw < iomap_dio_rw"},
        Case{kBlockWrite, "submit_bio_wait < __blkdev_direct_IO_simple < blkdev_write_iter"},
        Case{kBlockRead, "blk_io_schedule < __blkdev_direct_IO < blkdev_read_iter < vfs_read"},
        Case{kBlockDrain, "inode_dio_wait < ext4_setattr < notify_change < do_truncate"},
        Case{kBlockDrain, "__inode_dio_wait < ext4_file_write_iter < aio_write"}));

INSTANTIATE_TEST_SUITE_P(
    Rows28To37, StackTable,
    testing::Values(
        Case{kPageWriteback,
             "io_schedule < folio_wait_bit_common < folio_wait_writeback < "
             "__filemap_fdatawait_range < filemap_write_and_wait_range < "
             "__iomap_dio_rw < ext4_file_write_iter < aio_write"},
        Case{kPageWriteback,
             "io_schedule < folio_wait_bit_common < invalidate_inode_pages2_range < "
             "kiocb_invalidate_pages < blkdev_direct_write"},
        Case{kPageWriteback,
             "io_schedule < folio_wait_bit < folio_wait_writeback < "
             "__filemap_fdatawait_range < file_write_and_wait_range < "
             "ext4_sync_file"},
        Case{kPageWriteback,
             "wait_on_page_bit < wait_on_page_writeback < "
             "__filemap_fdatawait_range < file_write_and_wait_range < "
             "xfs_file_fsync"},  // 5.15
        Case{kPageWriteback,
             "io_schedule < folio_wait_bit < folio_wait_writeback < "
             "folio_wait_stable < ext4_da_write_begin < generic_perform_write"},
        Case{kPageLock,
             "io_schedule < folio_wait_bit_common < __folio_lock < "
             "truncate_inode_pages_range"},
        Case{kPageLock,
             "io_schedule < folio_wait_bit_common < mpage_prepare_extent_to_map < "
             "ext4_do_writepages < ext4_writepages"},
        Case{kPageLock,
             "io_schedule < folio_wait_bit_common < __filemap_get_folio < "
             "ext4_da_write_begin < generic_perform_write < ext4_buffered_write_iter"},
        Case{kPageWriteback, "io_schedule < folio_wait_bit_common < generic_perform_write"},
        Case{kPageLock,
             "io_schedule < __filemap_get_folio < ext4_mb_load_buddy_gfp < ext4_free_blocks"},
        Case{kPageLock, "sleep_on_page < __wait_on_bit_lock < __lock_page < find_lock_page"},
        Case{kBlockRead,
             "io_schedule < folio_wait_bit_common < filemap_update_page < "
             "filemap_get_pages < filemap_read < ext4_file_read_iter"},
        Case{kPageDirtyThrottle,
             "schedule_timeout < io_schedule_timeout < balance_dirty_pages < "
             "balance_dirty_pages_ratelimited_flags < generic_perform_write"},
        Case{kBlockRead,
             "io_schedule < bit_wait_io < __wait_on_bit < out_of_line_wait_on_bit < "
             "ext4_read_bh < __read_extent_tree_block < ext4_find_extent < "
             "ext4_ext_map_blocks < ext4_map_blocks < ext4_iomap_begin"},
        Case{kBlockRead,
             "io_schedule < bit_wait_io < __wait_on_bit < out_of_line_wait_on_bit < "
             "ext4_block_write_begin < ext4_da_write_begin < generic_perform_write"},
        Case{kBlockRead, "ext4_block_write_begin < ext4_da_write_begin < generic_perform_write"},
        Case{kBlockRead, "out_of_line_wait_on_bit < ext4_wait_block_bitmap < ext4_mb_init_cache"},
        Case{kBlockRead,
             "out_of_line_wait_on_bit < __ext4_get_inode_loc < "
             "ext4_reserve_inode_write < ext4_dirty_inode"},
        Case{kBlockRead,
             "out_of_line_wait_on_bit < ext4_bread < __ext4_read_dirblock < "
             "ext4_lookup"},
        Case{kMemoryReclaim,
             "io_schedule_timeout < mempool_alloc_noprof < bio_alloc_bioset < "
             "__iomap_dio_rw < ext4_file_write_iter"},
        Case{kMemoryReclaim,
             "reclaim_throttle < shrink_node < do_try_to_free_pages < "
             "try_to_free_pages < __alloc_pages_slowpath < __iomap_dio_rw"},
        Case{kMemoryReclaim, "throttle_direct_reclaim < try_to_free_pages"},
        Case{kMemoryReclaim,
             "folio_wait_bit_common < folio_wait_writeback < shrink_folio_list < "
             "shrink_lruvec < try_to_free_pages"},
        Case{kJournalLocked,
             "wait_transaction_locked < start_this_handle < ext4_evict_inode < "
             "evict < super_cache_scan < do_shrink_slab < shrink_node < "
             "try_to_free_pages"},
        Case{kBlockRead,
             "io_schedule < folio_wait_bit_common < filemap_fault < handle_mm_fault < "
             "__get_user_pages < iov_iter_extract_pages < bio_iov_iter_get_pages"},
        Case{kOther,
             "wait_for_completion < __kthread_create_on_node < alloc_workqueue < "
             "sb_init_dio_done_wq < __iomap_dio_rw"},
        Case{kUringWait, "io_cqring_wait < __do_sys_io_uring_enter"},
        Case{kUringWait, "read_events < do_io_getevents < __x64_sys_io_getevents"},
        Case{kLockOther, "__mutex_lock < f2fs_balance_fs < f2fs_file_write_iter"},
        Case{kOther, "nobody_knows_this < vfs_write"},
        Case{kPageWriteback, "wb_wait_for_completion < sync_inodes_sb < sync_filesystem"},
        Case{kBlockWrite, "out_of_line_wait_on_bit < __sync_dirty_buffer < ext4_commit_super"},
        Case{kCpuWait, "__cond_resched < ext4_writepages < do_writepages"},
        Case{kCpuWait, "preempt_schedule_common < __cond_resched < wait_for_completion"},
        Case{kCpuWait, "wait_transaction_locked", WaitContext{.preempted = true}},
        Case{kMemoryReclaim, "_cond_resched < shrink_page_list < shrink_lruvec"}));

INSTANTIATE_TEST_SUITE_P(
    JournalThread, StackTable,
    testing::Values(
        Case{kCommitHandles,
             "jbd2_journal_wait_updates < jbd2_journal_commit_transaction < "
             "kjournald2 < kthread",
             kJournalThread},
        Case{kCommitHandles, "schedule < jbd2_journal_commit_transaction < kjournald2 < kthread",
             kJournalThread},
        Case{kCommitData,
             "folio_wait_bit_common < folio_wait_writeback < "
             "__filemap_fdatawait_range < jbd2_journal_finish_inode_data_buffers < "
             "jbd2_journal_commit_transaction < kjournald2",
             kJournalThread},
        Case{kCommitData,
             "__folio_lock < mpage_prepare_extent_to_map < ext4_do_writepages < "
             "ext4_journal_submit_inode_data_buffers < "
             "jbd2_journal_commit_transaction < kjournald2",
             kJournalThread},
        Case{kBlockTag,
             "io_schedule < blk_mq_get_tag < ext4_do_writepages < "
             "ext4_journal_submit_inode_data_buffers < "
             "jbd2_journal_commit_transaction < kjournald2",
             kJournalThread},
        Case{kBlockTag,
             "io_schedule < blk_mq_get_tag < submit_bh_wbc < "
             "journal_submit_commit_record < jbd2_journal_commit_transaction",
             kJournalThread},
        Case{kBlockWbt,
             "io_schedule < rq_qos_wait < wbt_wait < jbd2_journal_commit_transaction < "
             "kjournald2",
             kJournalThread},
        Case{kCommitLog,
             "io_schedule < bit_wait_io < __wait_on_bit < out_of_line_wait_on_bit < "
             "jbd2_journal_commit_transaction < kjournald2",
             kJournalThread},
        Case{kCommitLog, "submit_bio_wait < blkdev_issue_flush < jbd2_journal_commit_transaction",
             kJournalThread},
        Case{kCommitRecord,
             "out_of_line_wait_on_bit < journal_wait_on_commit_record < "
             "jbd2_journal_commit_transaction",
             kJournalThread},
        Case{kCommitCheckpoint,
             "out_of_line_wait_on_bit < jbd2_write_superblock < "
             "jbd2_journal_update_sb_log_tail < __jbd2_update_log_tail < "
             "jbd2_update_log_tail < jbd2_journal_commit_transaction",
             kJournalThread},
        Case{kCommitCheckpoint, "__mutex_lock < mutex_lock_io < jbd2_journal_commit_transaction",
             kJournalThread},
        Case{kMemoryReclaim,
             "shrink_lruvec < try_to_free_pages < ext4_do_writepages < "
             "jbd2_journal_commit_transaction",
             kJournalThread},
        Case{kBlockRead,
             "out_of_line_wait_on_bit < ext4_wait_block_bitmap < ext4_mb_load_buddy < "
             "ext4_journal_commit_callback < jbd2_journal_commit_transaction",
             kJournalThread}));

// As sampled on 6.18: the scheduler's functions are missing in /proc/PID/stack.
TEST(WaitClass, ProcStacksWithoutTheSchedulersFunctions) {
  auto check = [](WaitClass expected, bool guess, const char* stack, WaitContext context = {}) {
    WaitMatch found = match(frames_of(stack), context);
    EXPECT_EQ(name_of(found.wait_class), name_of(expected)) << stack << ", row " << found.row;
    EXPECT_EQ(found.guess, guess) << stack;
  };
  check(kFsFrozen, false, "percpu_rwsem_wait < aio_write < io_submit_one");
  check(kFsFrozen, false, "percpu_rwsem_wait < mnt_want_write < filename_create < do_mkdirat");
  check(kLockOther, false, "percpu_rwsem_wait < percpu_down_write < vfs_write");
  check(kJournalBuffer, false, "do_get_write_access < ext4_dirty_inode < file_update_time_flags");
  check(kCommitLog, true, "jbd2_journal_commit_transaction < kjournald2 < kthread", kJournalThread);
  check(kLockInode, true, "ext4_file_write_iter < aio_write < io_submit_one");
  check(kLockInode, true, "path_openat < do_filp_open < do_sys_openat2");
  check(kLockExtent, true, "ext4_map_blocks < ext4_do_writepages < ext4_writepages");
  check(kLockOther, true, "__ext4_new_inode < ext4_mkdir < vfs_mkdir < do_mkdirat");
  check(kLockOther, true, "lock_mm_and_find_vma < exc_page_fault < asm_exc_page_fault");
  check(kLockOther, true, "btrfs_tree_lock_nested < btrfs_lock_root_node < btrfs_search_slot");
  check(kJournalBatch, true, "jbd2_journal_stop < __ext4_journal_stop < ext4_create");
  check(kBlockRead, true, "__ext4_find_entry < ext4_lookup < filename_create");
  check(kBlockWrite, true, "fsync_buffers_list < generic_buffers_fsync_noflush < ext4_sync_file");
  check(kBlockFlush, false, "submit_bio_wait < blkdev_issue_flush < blkdev_fsync");
  check(kBlockWrite, false, "submit_bio_wait < blkdev_issue_discard < ext4_free_blocks");
  check(kJournalSpace, false, "__jbd2_log_wait_for_space < start_this_handle");
}

// Stacks from public reports, kernels 3.9 to 6.10.
TEST(WaitClass, ReportedStacks) {
  std::filesystem::path file =
      std::filesystem::path(__FILE__).parent_path() / "../../cases/stacks.jsonl";
  std::ifstream lines(file);
  ASSERT_TRUE(lines) << file;
  size_t checked = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    auto item = nlohmann::json::parse(line);
    if (!item.contains("frames") || item["frames"].empty()) continue;
    std::vector<std::string> frames = item["frames"];
    std::string task = item["task"];
    WaitMatch found = match(frames, {.journal_thread = task.starts_with("jbd2/")});
    EXPECT_EQ(name_of(found.wait_class), item["wait_class"].get<std::string>())
        << item["report"] << " " << task << ", row " << found.row;
    ++checked;
  }
  EXPECT_EQ(checked, 22U);
}

TEST(WaitClass, NamesGoBothWaysAndAreTheContracts) {
  // Typed from the contract.
  std::vector<std::string> names = frames_of(
      "cpu.run cpu.wait journal.locked journal.credits journal.space journal.barrier "
      "journal.buffer journal.commit journal.fastcommit journal.batch lock.inode lock.extent "
      "lock.mapping lock.other log.force log.space tree.log tree.commit block.flush block.read "
      "block.write block.tag block.drain block.frozen block.wbt block.throttle page.writeback "
      "page.lock page.dirty_throttle memory.reclaim fs.frozen uring.wait other commit.handles "
      "commit.data commit.log commit.record commit.checkpoint commit.run");
  EXPECT_EQ(names.size(), kWaitClassCount);
  std::set<WaitClass> seen;
  for (const std::string& name : names) {
    auto wait_class = wait_class_named(name);
    ASSERT_TRUE(wait_class) << name;
    EXPECT_EQ(name_of(*wait_class), name);
    EXPECT_EQ(is_commit_phase(*wait_class), name.starts_with("commit."));
    seen.insert(*wait_class);
  }
  EXPECT_EQ(seen.size(), kWaitClassCount);
  EXPECT_FALSE(wait_class_named("journal"));
}

TEST(WaitClass, EveryRowCanBeReachedAndSaysWhatItMeans) {
  auto check = [](std::span<const WaitRow> table) {
    for (const WaitRow& row : table) {
      EXPECT_FALSE(row.meaning.empty()) << row.number;
      EXPECT_FALSE(row.number.empty());
      EXPECT_FALSE(row.leaf.empty() && row.any.empty()) << row.number;
    }
  };
  check(wait_table());
  check(journal_thread_table());
  check(proc_stack_table());
  // 1 to 37 but for 24, which has no stack: a throttled task sleeps as in rows 25 and 26.
  for (int number = 1; number <= 37; ++number) {
    bool found = std::any_of(wait_table().begin(), wait_table().end(), [&](const WaitRow& row) {
      return row.number == std::to_string(number);
    });
    EXPECT_EQ(found, number != 24) << number;
  }
}

TEST(WaitClass, IdleJournalThread) {
  auto idle = [](const char* text) {
    auto frames = frames_of(text);
    std::vector<std::string_view> views(frames.begin(), frames.end());
    return is_idle_journal_thread(views);
  };
  EXPECT_TRUE(idle("__schedule < schedule < kjournald2 < kthread < ret_from_fork"));
  EXPECT_FALSE(idle("schedule < jbd2_journal_commit_transaction < kjournald2 < kthread"));
  EXPECT_FALSE(idle("schedule < worker_thread < kthread"));
  EXPECT_FALSE(idle(""));
}

TEST(WaitClass, CommitRecordIsToldByTime) {
  EXPECT_EQ(log_or_record(kCommitLog, 100, 0), kCommitLog);
  EXPECT_EQ(log_or_record(kCommitLog, 100, 101), kCommitLog);
  EXPECT_EQ(log_or_record(kCommitLog, 101, 101), kCommitRecord);
  EXPECT_EQ(log_or_record(kCommitData, 200, 100), kCommitData);
}

TEST(WaitClass, NothingIsOther) {
  EXPECT_EQ(classify({}), kOther);
  EXPECT_EQ(match(frames_of("schedule __schedule")).wait_class, kOther);
  std::vector<std::string> odd{"", "x", "_"};
  EXPECT_EQ(match(odd).wait_class, kOther);
}

TEST(WaitClass, IsFast) {
  auto frames = frames_of(
      "bpf_prog_12_x bpf_trace_run4 __traceiter_sched_switch __schedule schedule io_schedule "
      "bit_wait_io __wait_on_bit out_of_line_wait_on_bit do_get_write_access "
      "jbd2_journal_get_write_access __ext4_journal_get_write_access ext4_reserve_inode_write "
      "__ext4_mark_inode_dirty ext4_dirty_inode __mark_inode_dirty generic_update_time "
      "file_modified ext4_file_write_iter aio_write io_submit_one __x64_sys_io_submit "
      "x64_sys_call do_syscall_64 entry_SYSCALL_64_after_hwframe");
  ASSERT_EQ(frames.size(), 25U);
  std::vector<std::string_view> views(frames.begin(), frames.end());
  ASSERT_EQ(classify(views), kJournalBuffer);
  constexpr int kRounds = 2000;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) ASSERT_EQ(classify(views), kJournalBuffer);
  double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
      kRounds;
  RecordProperty("us_per_stack", std::to_string(us));
  // An optimized build takes about 1 us; debug and sanitizer builds on a busy machine far more.
  EXPECT_LT(us, 500);
}

}  // namespace
}  // namespace stalltrace::kernel

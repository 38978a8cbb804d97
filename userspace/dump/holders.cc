#include "userspace/dump/holders.h"

#include <algorithm>

#include "userspace/dump/patterns.h"
namespace stalltrace::dump {
namespace {

using kernel::WaitClass;

// Functions that take a handle as an argument or run below one that does: whoever is inside has a
// handle open. (ext4 of 3.x to 6.18, jbd2.)
const Patterns kNeedHandle(
    "jbd2_journal_get_write_access do_get_write_access jbd2_journal_get_create_access "
    "jbd2_journal_get_undo_access jbd2_journal_dirty_metadata jbd2_journal_revoke "
    "insert_revoke_hash jbd2_journal_forget jbd2_journal_extend __ext4_journal_get_write_access "
    "__ext4_journal_get_create_access __ext4_handle_dirty_metadata ext4_handle_dirty_dirblock "
    "__ext4_forget ext4_forget ext4_mark_iloc_dirty __ext4_mark_inode_dirty "
    "ext4_mark_inode_dirty ext4_reserve_inode_write ext4_do_update_inode ext4_dirty_inode "
    "ext4_free_blocks ext4_mb_clear_bb ext4_mb_new_blocks ext4_mb_mark_diskspace_used "
    "ext4_mb_regular_allocator ext4_new_meta_blocks ext4_free_inode ext4_ext_insert_extent "
    "ext4_ext_create_new_leaf ext4_ext_split ext4_ext_grow_indepth ext4_split_extent* "
    "ext4_split_convert_extents ext4_ext_handle_unwritten_extents "
    "ext4_ext_handle_uninitialized_extents ext4_ext_convert_to_initialized "
    "ext4_convert_unwritten_extents_endio ext4_ext_rm_leaf ext4_ext_rm_idx ext4_remove_blocks "
    "ext4_ext_truncate ext4_ext_remove_space ext4_ind_truncate ext4_free_branches ext4_free_data "
    "ext4_clear_blocks ext4_alloc_branch ext4_alloc_blocks ext4_splice_branch "
    "ext4_map_create_blocks mpage_map_and_submit_extent mpage_map_one_extent ext4_add_entry "
    "ext4_add_nondir ext4_dx_add_entry add_dirent_to_buf make_indexed_dir do_split "
    "ext4_delete_entry ext4_generic_delete_entry ext4_init_new_dir ext4_append "
    "ext4_xattr_set_handle ext4_xattr_block_set ext4_xattr_ibody_set ext4_xattr_delete_inode "
    "ext4_expand_extra_isize* ext4_try_to_expand_extra_isize ext4_block_truncate_page "
    "ext4_block_zero_page_range ext4_da_update_reserve_space ext4_orphan_add");

// Functions that have one open for a part of their way.
const Patterns kPerhapsHandle(
    "ext4_writepages ext4_do_writepages ext4_da_writepages ext4_write_begin ext4_da_write_begin "
    "ext4_write_end ext4_da_write_end ext4_da_do_write_end ext4_journalled_write_end "
    "ext4_create ext4_mkdir ext4_unlink __ext4_unlink ext4_rmdir ext4_rename ext4_rename2 "
    "ext4_cross_rename ext4_link __ext4_link ext4_symlink ext4_mknod ext4_tmpfile __ext4_new_inode "
    "ext4_setattr ext4_truncate ext4_evict_inode ext4_punch_hole ext4_collapse_range "
    "ext4_insert_range ext4_alloc_file_blocks ext4_zero_range ext4_convert_unwritten_extents "
    "ext4_convert_unwritten_io_end_vec ext4_end_io_rsv_work ext4_end_io ext4_do_flush_completed_IO "
    "ext4_iomap_alloc ext4_handle_inode_extension ext4_page_mkwrite ext4_xattr_set "
    "ext4_init_inode_table ext4_resize_fs ext4_group_add ext4_flex_group_add ext4_quota_write "
    "ext4_write_dquot ext4_acquire_dquot ext4_release_dquot ext4_mark_dquot_dirty "
    "ext4_move_extents move_extent_per_page ext4_swap_extents ext4_orphan_del "
    "ext4_quota_off ext4_ioctl_* ext4_truncate_failed_write ext4_ext_migrate");

// mballoc works without a handle for these.
const Patterns kWithoutHandle(
    "ext4_trim_fs ext4_trim_all_free ext4_discard_work ext4_mb_prefetch* "
    "ext4_process_freed_data ext4_journal_commit_callback");

// Functions that call on with the inode's lock held (parents' locks for names).
const Patterns kHoldExclusive(
    "ext4_buffered_write_iter generic_perform_write ext4_fallocate ext4_punch_hole ext4_zero_range "
    "ext4_setattr notify_change vfs_unlink vfs_create vfs_mkdir vfs_rmdir vfs_rename vfs_link "
    "vfs_symlink generic_file_aio_write __generic_file_aio_write xfs_file_buffered_write "
    "xfs_file_buffered_aio_write xfs_file_fallocate btrfs_buffered_write btrfs_sync_file "
    "btrfs_fallocate ext4_create ext4_unlink ext4_mkdir ext4_rmdir ext4_rename2");
// Shared, or which of the two the stack does not tell.
const Patterns kHoldShared(
    "ext4_file_read_iter ext4_dio_read_iter ext4_dio_write_iter ext4_file_write_iter iterate_dir "
    "ext4_readdir lookup_slow __lookup_slow xfs_file_dio_read xfs_file_dio_write* "
    "xfs_file_buffered_read xfs_file_fsync btrfs_direct_read btrfs_direct_write "
    "xfs_file_dio_aio_read xfs_file_dio_aio_write");

const Patterns kStartHandle("start_this_handle");

const Patterns kStopHandle("jbd2_journal_stop");

const Patterns kDirtyThrottle("balance_dirty_pages*");

const Patterns kFreezeFs(
    "freeze_super ioctl_fsfreeze freeze_bdev thaw_super thaw_super_locked "
    "sb_wait_write fs_bdev_freeze bdev_freeze ext4_freeze xfs_fs_freeze "
    "lock_fs dm_suspend __dm_suspend");

const Patterns kFreezeQueue(
    "blk_mq_freeze_queue_wait* blk_mq_freeze_queue* blk_freeze_queue* "
    "blk_mq_update_nr_hw_queues __blk_mq_update_nr_hw_queues elevator_switch* "
    "elv_iosched_store elevator_change queue_requests_store blk_mq_update_nr_requests "
    "nvme_reset_work nvme_wait_freeze* nvme_start_freeze dm_suspend __dm_suspend "
    "blk_mq_quiesce_queue* del_gendisk loop_set_status loop_clr_fd lo_release "
    "queue_wb_lat_store loop_change_fd");

const Patterns kFlusher("wb_workfn wb_writeback bdi_writeback_workfn");

const Patterns kLogWorker(
    "xlog_cil_push_work xlog_ioend_work xfsaild xfs_log_worker "
    "xlog_state_release_iclog xlog_cil_write_chain");

const Patterns kTreeCommitter("transaction_kthread btrfs_commit_transaction btrfs_sync_log");

const Patterns kTreeWaiter(
    "wait_for_commit btrfs_wait_for_commit wait_current_trans wait_log_commit");

const Patterns kCheckpoint(
    "jbd2_log_do_checkpoint jbd2_cleanup_journal_tail jbd2_update_log_tail "
    "__jbd2_update_log_tail jbd2_journal_flush");

const Patterns kGroupHolder("ext4_init_inode_table ext4_mb_init_group ext4_mb_init_cache");

const Patterns kLoopWorker(
    "loop_process_work loop_workfn loop_rootcg_workfn loop_queue_work loop_thread loop_handle_cmd "
    "do_req_filebacked lo_rw_aio");
const Patterns kWritesFile(
    "vfs_iter_write* do_iter_write* lo_write_* lo_write_bvec ext4_file_write_iter "
    "xfs_file_write_iter btrfs_file_write_iter btrfs_do_write_iter fuse_file_write_iter "
    "fuse_direct_write_iter fuse_direct_io blkdev_write_iter generic_file_write_iter");
const Patterns kReadsFile(
    "vfs_iter_read* do_iter_read* lo_read_* ext4_file_read_iter xfs_file_read_iter "
    "btrfs_file_read_iter fuse_file_read_iter blkdev_read_iter generic_file_read_iter");

const Patterns kMutexes("mutex_lock* __mutex_lock*");

bool may_sleep_under_a_handle(WaitClass wait_class) {
  switch (wait_class) {
    case WaitClass::kMemoryReclaim:
    case WaitClass::kBlockRead:
    case WaitClass::kBlockWrite:
    case WaitClass::kBlockTag:
    case WaitClass::kBlockWbt:
    case WaitClass::kBlockThrottle:
    case WaitClass::kBlockFrozen:
    case WaitClass::kLockExtent:
    case WaitClass::kLockOther:
    case WaitClass::kPageLock:
    case WaitClass::kPageWriteback:
    case WaitClass::kCpuRun:
    case WaitClass::kCpuWait:
    case WaitClass::kOther:
      return true;
    default:
      return false;
  }
}

void find_handle(const Task& task, Reading& reading) {
  if (reading.journal_thread) return;
  bool listed = std::any_of(task.locks.begin(), task.locks.end(),
                            [](const HeldLock& lock) { return lock.name == "jbd2_handle"; });
  if (listed) {
    reading.handle = Handle::kOpen;
    reading.handle_frame = "lockdep";
    return;
  }
  const auto& frames = reading.frames;
  // Whoever starts a handle has none yet: a nested start returns before it could wait.
  if (!kStartHandle.find_in(frames).empty()) return;
  if (!kWithoutHandle.find_in(frames).empty()) return;
  if (std::string_view stop = kStopHandle.find_in(frames); !stop.empty()) {
    // It sleeps for others to join before it closes the handle, and waits for the commit after.
    if (reading.wait_class == WaitClass::kJournalBatch) {
      reading.handle = Handle::kOpen;
      reading.handle_frame = stop;
    }
    return;
  }
  if (std::string_view frame = kNeedHandle.find_in(frames); !frame.empty()) {
    reading.handle = Handle::kOpen;
    reading.handle_frame = frame;
    return;
  }
  std::string_view frame = kPerhapsHandle.find_in(frames);
  if (!frame.empty() && may_sleep_under_a_handle(reading.wait_class) &&
      kDirtyThrottle.find_in(frames).empty()) {
    reading.handle = Handle::kPerhaps;
    reading.handle_frame = frame;
  }
}

void find_inode(Reading& reading) {
  if (reading.wait_class == WaitClass::kLockInode) return;
  const auto& frames = reading.frames;
  if (std::string_view frame = kHoldExclusive.find_in(frames); !frame.empty()) {
    reading.inode = HoldsInode::kExclusive;
    reading.inode_frame = frame;
  } else if (frame = kHoldShared.find_in(frames); !frame.empty()) {
    reading.inode = HoldsInode::kShared;
    reading.inode_frame = frame;
  }
}

// What a loop device's worker does for its device; empty for other tasks.
std::string_view serves_loop(const Reading& reading) {
  const auto& frames = reading.frames;
  if (kLoopWorker.find_in(frames).empty()) return {};
  bool sync = std::any_of(frames.begin(), frames.end(), [](std::string_view frame) {
    return frame.find("fsync") != std::string_view::npos || frame.ends_with("_sync_file");
  });
  if (sync) return "flush";
  if (!kWritesFile.find_in(frames).empty()) return "write";
  return kReadsFile.find_in(frames).empty() ? "" : "read";
}

}  // namespace

void find_holdings(const Task& task, Reading& reading) {
  reading.serves = serves_loop(reading);
  find_handle(task, reading);
  if (!reading.idle) find_inode(reading);
}

std::string_view freezes_fs(const Reading& reading) {
  if (reading.wait_class == WaitClass::kFsFrozen) return {};
  return kFreezeFs.find_in(reading.frames);
}

std::string_view freezes_queue(const Reading& reading) {
  return kFreezeQueue.find_in(reading.frames);
}

bool is_flusher(const Reading& reading) {
  return !kFlusher.find_in(reading.frames).empty();
}

bool is_log_worker(const Reading& reading) {
  return !kLogWorker.find_in(reading.frames).empty();
}

bool is_tree_committer(const Reading& reading) {
  return !kTreeCommitter.find_in(reading.frames).empty() &&
         kTreeWaiter.find_in(reading.frames).empty();
}

std::string_view holds_group(const Reading& reading) {
  return reading.wait_class == WaitClass::kLockOther ? std::string_view()
                                                     : kGroupHolder.find_in(reading.frames);
}

bool is_checkpointer(const Reading& reading) {
  return !kCheckpoint.find_in(reading.frames).empty() && kMutexes.find_in(reading.frames).empty();
}

std::string_view file_system_of(const Reading& reading) {
  constexpr std::string_view kNames[] = {"ext4", "xfs",  "btrfs", "f2fs", "ext3",
                                         "nfs",  "fuse", "ocfs2", "gfs2"};
  for (std::string_view frame : reading.frames) {
    while (frame.starts_with('_')) frame.remove_prefix(1);
    for (std::string_view name : kNames) {
      if (frame.starts_with(name) && frame.substr(name.size()).starts_with('_')) return name;
    }
  }
  return {};
}

}  // namespace stalltrace::dump

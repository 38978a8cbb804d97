#include "userspace/kernel/wait_class_table.h"

#include <array>

#include "userspace/kernel/wait_class_symbols.h"

namespace stalltrace::kernel {
namespace {

using namespace symbols;
using enum WaitClass;

constexpr std::array kGeneral = {
    // ---- runnable. Frames of a task that gave up its CPU but could have run on; reclaim calls
    // cond_resched() so often that there the work itself is the news.
    WaitRow{.number = "preempted",
            .wait_class = kCpuWait,
            .leaf = "__cond_resched* _cond_resched cond_resched* dynamic_cond_resched "
                    "preempt_schedule* __preempt_schedule* do_sched_yield yield "
                    "irqentry_exit* raw_irqentry_exit_cond_resched exit_to_user_mode* "
                    "asm_sysvec_* retint_*",
            .none = kReclaim,
            .meaning = "was runnable and waited for a CPU"},

    // ---- 1: freeze. __percpu_down_read alone is also ext4's writepages lock and the cgroup's
    // thread-group lock.
    WaitRow{.number = "1",
            .wait_class = kFsFrozen,
            .any = "__percpu_down_read __sb_start_write vfs_check_frozen",
            .none = "ext4_writepages ext4_do_writepages ext4_da_writepages copy_process "
                    "cgroup_can_fork begin_new_exec do_exit cgroup_attach_lock",
            .meaning = "waits until the file system is thawed"},
    WaitRow{// /proc/PID/stack leaves __percpu_down_read out.
            .number = "1",
            .wait_class = kFsFrozen,
            .any = "percpu_rwsem_wait",
            .with = "aio_write vfs_write vfs_writev io_write do_iter_write mnt_want_write* "
                    "vfs_fallocate ext4_page_mkwrite xfs_trans_alloc",
            .none = "percpu_down_write kernfs_fop_write_iter ext4_writepages",
            .meaning = "waits until the file system is thawed"},

    // ---- 4: log space, before everything a checkpoint does (5, 7, 20, 21, 25).
    WaitRow{.number = "4",
            .wait_class = kJournalSpace,
            .any = "__jbd2_log_wait_for_space __log_wait_for_space",
            .meaning = "waits for a checkpoint to free space in the journal"},
    WaitRow{.number = "4",
            .wait_class = kJournalSpace,
            .any = "jbd2_log_do_checkpoint log_do_checkpoint",
            .meaning = "writes out a checkpoint of the journal"},

    // ---- 20 to 23: the block layer.
    kTagRow,
    kIolatencyRow,
    kIocostRow,
    kWbtRow,
    kFrozenRow,
    kFrozenInlinedRow,
    WaitRow{.number = "22",
            .wait_class = kBlockThrottle,
            .any = "blkcg_maybe_throttle_current",
            .meaning = "held back by its cgroup's I/O limit on the way to user space"},
    WaitRow{.number = "22",
            .wait_class = kBlockThrottle,
            .any = "mem_cgroup_handle_over_high __mem_cgroup_handle_over_high",
            .meaning = "held back by its cgroup's memory.high limit"},

    // ---- 3: locks other than the inode's. They are taken below the functions of row 2, so they
    // are asked first, the innermost ones at the top.
    WaitRow{.number = "3",
            .wait_class = kLockOther,
            .any = kRwsem,
            .with = "ext4_mb_new_blocks ext4_mb_regular_allocator ext4_mb_init_group "
                    "ext4_mb_load_buddy* ext4_mb_good_group* __ext4_new_inode "
                    "ext4_init_inode_table dquot_* __dquot_*",
            .meaning = "waits for an allocation group's or the quota's lock"},
    WaitRow{.number = "3",
            .wait_class = kLockExtent,
            .any = kRwsem,
            .with = "ext4_map_blocks ext4_map_query_blocks ext4_map_create_blocks "
                    "ext4_da_get_block_prep ext4_da_map_blocks ext4_ext_truncate "
                    "ext4_ext_remove_space ext4_ind_truncate ext4_truncate ext4_get_block* "
                    "ext4_ext_map_blocks ext4_fiemap ext4_da_update_reserve_space "
                    "ext4_discard_preallocations ext4_swap_extents ext4_move_extents",
            .meaning = "waits for the inode's extent map (i_data_sem)"},
    WaitRow{.number = "3",
            .wait_class = kLockOther,
            .any = kRwsem,
            .with = "ext4_xattr_* ext4_try_to_write_inline_data ext4_write_inline_data_end "
                    "ext4_convert_inline_data ext4_readpage_inline ext4_expand_extra_isize",
            .meaning = "waits for the inode's attribute lock (xattr_sem)"},
    WaitRow{.number = "3",
            .wait_class = kLockOther,
            .any = kRwsem,
            .with = "unmap_mapping_* rmap_walk* try_to_unmap* vma_link* unlink_file_vma* "
                    "anon_vma_* __anon_vma_*",
            .meaning = "waits for a lock of the memory mappings of a file"},
    WaitRow{.number = "3",
            .wait_class = kLockOther,
            .any = kRwsem,
            .with = "xlog_cil_commit xlog_cil_push_work xfs_log_commit_cil",
            .meaning = "waits for XFS's commit context, which a log push holds"},
    WaitRow{.number = "3",
            .wait_class = kLockInode,
            .any = kRwsem,
            .with = "xfs_ilock_for_iomap xfs_read_iomap_begin xfs_direct_write_iomap_begin "
                    "xfs_buffered_write_iomap_begin xfs_seek_iomap_begin xfs_iomap_write_* "
                    "xfs_trans_alloc_inode xfs_vn_update_time xfs_bmapi_* xfs_map_blocks "
                    "xfs_ilock_data_map_shared",
            .meaning = "waits for the XFS inode's ILOCK"},
    WaitRow{.number = "3",
            .wait_class = kLockOther,
            .any = kRwsem,
            .with = "btrfs_tree_lock* btrfs_tree_read_lock* __btrfs_tree_* btrfs_lock_root_node "
                    "btrfs_read_lock_root_node find_free_extent btrfs_reserve_extent "
                    "btrfs_cache_block_group",
            .meaning = "waits for a btrfs tree block's or block group's lock"},
    WaitRow{.number = "3",
            .wait_class = kLockMapping,
            .any = kRwsem,
            .with = "filemap_fault ext4_filemap_fault __xfs_filemap_fault xfs_filemap_fault "
                    "ext4_page_mkwrite btrfs_page_mkwrite ext4_punch_hole ext4_setattr "
                    "page_cache_ra_unbounded page_cache_ra_order force_page_cache_ra "
                    "page_cache_sync_ra page_cache_async_ra filemap_create_folio "
                    "filemap_create_page filemap_update_page filemap_invalidate_lock* "
                    "blkdev_fallocate blk_ioctl_discard",
            .meaning = "waits for the page cache's invalidate_lock"},
    WaitRow{.number = "3",
            .wait_class = kLockOther,
            .any = kRwsem,
            .with = "get_user_pages* internal_get_user_pages_fast gup_* __gup_longterm_locked "
                    "pin_user_pages* __get_user_pages* lock_mm_and_find_vma do_madvise "
                    "do_user_addr_fault __do_page_fault do_page_fault vm_mmap_pgoff __vm_munmap "
                    "vm_munmap do_mprotect_pkey __x64_sys_brk mmap_read_lock* mmap_write_lock* "
                    "do_mlock exit_mmap access_remote_vm __access_remote_vm proc_pid_cmdline_read",
            .meaning = "waits for the address space's mmap lock"},

    // ---- 2: the inode's lock. Which inode, and that it is one, the lock's address tells better.
    WaitRow{.number = "2",
            .wait_class = kLockInode,
            .any = kRwsem,
            .with = "ext4_file_write_iter ext4_file_read_iter ext4_buffered_write_iter "
                    "ext4_fallocate ext4_zero_range ext4_collapse_range ext4_insert_range "
                    "ext4_llseek xfs_ilock* xfs_file_* btrfs_inode_lock btrfs_sync_file "
                    "btrfs_file_write_iter btrfs_file_read_iter btrfs_do_write_iter "
                    "btrfs_direct_write btrfs_buffered_write btrfs_fallocate blkdev_* "
                    "generic_file_write_iter vfs_fallocate path_openat open_last_lookups "
                    "lookup_slow __lookup_slow do_unlinkat do_rmdir do_renameat2 lock_rename* "
                    "filename_create vfs_rename vfs_unlink vfs_rmdir vfs_link do_truncate "
                    "chmod_common chown_common vfs_utimes utimes_common vfs_setxattr "
                    "vfs_removexattr iterate_dir lock_two_nondirectories lock_two_inodes",
            .meaning = "waits for the inode's lock (i_rwsem)"},
    WaitRow{// Before 4.7 the inode's lock was a mutex, and 2.6's sync code held it.
            .number = "2",
            .wait_class = kLockInode,
            .any = kMutex,
            .with = "generic_file_aio_write generic_file_write ext4_file_write ext4_file_dio_write "
                    "xfs_rw_ilock xfs_file_aio_write xfs_file_dio_aio_write blkdev_fsync "
                    "do_last lookup_slow vfs_unlink vfs_readdir",
            .meaning = "waits for the inode's lock (i_mutex)"},

    // ---- 5 to 12: jbd2 and ext4.
    WaitRow{.number = "5",
            .wait_class = kJournalCommit,
            .any = "jbd2_log_wait_commit log_wait_commit",
            .meaning = "waits until its transaction is committed"},
    WaitRow{// The old jbd slept one tick by schedule_timeout_uninterruptible.
            .number = "6",
            .wait_class = kJournalBatch,
            .any = "jbd2_journal_stop journal_stop",
            .with = "schedule_hrtimeout* schedule_timeout_uninterruptible",
            .meaning = "sleeps on purpose so that others may join its commit"},
    WaitRow{.number = "7",
            .wait_class = kJournalLocked,
            .any = "wait_transaction_locked",
            .depends = Depends::kTransaction,
            .meaning = "waits until the locked transaction has lost its last open handle"},
    WaitRow{.number = "8",
            .wait_class = kJournalCredits,
            .leaf = "add_transaction_credits wait_transaction_switching",
            .meaning = "waits for credits that other handles have reserved"},
    WaitRow{// Before 3.11 a locked transaction was waited for here as well.
            .number = "8",
            .wait_class = kJournalBarrier,
            .leaf = "start_this_handle",
            .meaning = "waits while updates of the journal are barred"},
    WaitRow{// Must precede row 9: the bit is the same word, the wait is for another writer.
            .number = "10",
            .wait_class = kJournalBuffer,
            .any = "do_get_write_access jbd2_journal_get_undo_access "
                   "jbd2_journal_get_create_access",
            .with = kBufferLock,
            .meaning = "waits for a metadata buffer that is being written to its place"},
    WaitRow{// leaf: 3.x slept in the function itself; since then a bit wait, which is generic.
            .number = "9",
            .wait_class = kJournalBuffer,
            .leaf = "do_get_write_access jbd2_journal_get_undo_access "
                    "jbd2_journal_get_create_access sleep_on_shadow_bh",
            .meaning = "waits for a metadata buffer that a commit is writing"},
    WaitRow{.number = "9",
            .wait_class = kJournalBuffer,
            .any = "do_get_write_access jbd2_journal_forget jbd2_journal_revoke",
            .with = kBufferWait,
            .meaning = "waits for a metadata buffer that a commit is writing"},
    WaitRow{.number = "11",
            .wait_class = kJournalFastcommit,
            .any = "jbd2_fc_begin_commit jbd2_fc_wait_bufs",
            .meaning = "waits for a fast commit"},
    WaitRow{.number = "11",
            .wait_class = kJournalFastcommit,
            .any = "jbd2_journal_lock_updates jbd2_journal_wait_updates",
            .with = "ext4_fc_commit ext4_fc_perform_commit ext4_sync_file",
            .meaning = "its fast commit waits for the open handles"},
    WaitRow{.number = "11",
            .wait_class = kJournalBarrier,
            .any = "jbd2_journal_lock_updates jbd2_journal_wait_updates",
            .meaning = "bars updates of the journal and waits for the open handles"},
    WaitRow{// 6.18: per inode, while a fast commit writes it.
            .number = "11",
            .wait_class = kJournalFastcommit,
            .leaf = "ext4_fc_track_inode ext4_fc_del",
            .meaning = "waits for the fast commit of this inode"},
    WaitRow{.number = "12",
            .wait_class = kLockOther,
            .any = kMutex,
            .with = "ext4_orphan_add ext4_orphan_del",
            .meaning = "waits for the orphan list's lock (s_orphan_lock)"},

    // ---- 13 to 16: XFS.
    WaitRow{.number = "13",
            .wait_class = kLogSpace,
            .any = "xlog_grant_head_wait xlog_grant_head_check xlog_grant_log_space "
                   "xlog_regrant_write_log_space",
            .meaning = "waits for space in the XFS log"},
    WaitRow{.number = "14",
            .wait_class = kLogForce,
            .any = "xlog_wait_on_iclog xlog_wait_on_iclog_lsn",
            .meaning = "waits until the XFS log is written"},
    WaitRow{.number = "14",
            .wait_class = kLogForce,
            .any = "__flush_workqueue flush_workqueue __flush_work flush_work",
            .with = "xlog_cil_push_now xlog_cil_force_seq xlog_cil_force_lsn",
            .meaning = "waits for the push of XFS's committed items into the log"},
    WaitRow{// A push's worker: checkpoints go into the log in their order.
            .number = "14",
            .wait_class = kLogForce,
            .any = "xlog_cil_order_write",
            .meaning = "waits until the checkpoint before it is in the XFS log"},
    WaitRow{// 15: over the CIL's hard limit, or no log buffer free.
            .number = "15",
            .wait_class = kLogForce,
            .leaf = "xlog_cil_commit xlog_cil_push_background xlog_state_get_iclog_space",
            .meaning = "waits because too much is pending for the XFS log"},
    WaitRow{.number = "14",
            .wait_class = kLogForce,
            .leaf = "xlog_force_lsn xlog_force_iclog xlog_force_and_check_iclog xlog_cil_force_seq "
                    "xlog_cil_force_lsn xfs_log_force* _xfs_log_force* __xfs_log_force_lsn",
            .meaning = "waits until the XFS log is written"},
    WaitRow{.number = "16",
            .wait_class = kBlockRead,
            .any = "xfs_buf_iowait xfs_buf_submit_wait",
            .with = "_xfs_buf_read xfs_buf_read* xfs_trans_read_buf* xfs_buf_reverify",
            .meaning = "reads XFS metadata"},
    WaitRow{.number = "16",
            .wait_class = kBlockWrite,
            .any = "xfs_buf_iowait xfs_buf_submit_wait",
            .with = "xfs_bwrite xfs_buf_delwri_*",
            .meaning = "writes XFS metadata"},
    WaitRow{.number = "16",
            .wait_class = kBlockRead,
            .any = "xfs_buf_iowait xfs_buf_submit_wait",
            .depends = Depends::kDirection,
            .meaning = "waits for I/O on XFS metadata"},
    WaitRow{.number = "16",
            .wait_class = kLockOther,
            .any = "xfs_buf_lock __xfs_iunpin_wait xfs_iunpin_wait xfs_buf_wait_unpin "
                   "xfs_extent_busy_flush",
            .meaning = "waits for an XFS buffer or inode that others use"},

    // ---- 17 to 19: btrfs. The log's own rows first: write_all_supers serves both.
    WaitRow{.number = "17",
            .wait_class = kTreeLog,
            .any = "wait_log_commit btrfs_wait_tree_log_extents start_log_trans wait_for_writer",
            .meaning = "waits for the btrfs log tree"},
    WaitRow{.number = "17",
            .wait_class = kTreeLog,
            .leaf = "btrfs_sync_log btrfs_log_inode_parent",
            .meaning = "waits for others that write the btrfs log tree"},
    WaitRow{.number = "17",
            .wait_class = kTreeLog,
            .any = kMutex,
            .with = "btrfs_sync_log btrfs_log_inode_parent btrfs_log_inode btrfs_log_dentry_safe",
            .meaning = "waits for the btrfs log tree's lock"},
    WaitRow{.number = "17",
            .wait_class = kTreeLog,
            .any = "write_all_supers wait_dev_supers barrier_all_devices",
            .with = "btrfs_sync_log",
            .meaning = "flushes the devices and writes the superblocks for the btrfs log"},
    WaitRow{.number = "17",
            .wait_class = kTreeCommit,
            .any = "write_all_supers wait_current_trans wait_for_commit btrfs_wait_for_commit "
                   "btrfs_btree_wait_writeback_range __btrfs_wait_marked_extents "
                   "btrfs_wait_extents btrfs_write_and_wait_transaction",
            .meaning = "waits for a btrfs transaction's commit"},
    WaitRow{.number = "17",
            .wait_class = kTreeCommit,
            .leaf = "btrfs_commit_transaction",
            .meaning = "waits for a btrfs transaction's commit"},
    WaitRow{.number = "18",
            .wait_class = kTreeCommit,
            .any = "__reserve_bytes btrfs_reserve_metadata_bytes reserve_metadata_bytes "
                   "handle_reserve_ticket wait_reserve_ticket",
            .meaning = "waits for btrfs to free space for metadata"},
    WaitRow{.number = "19",
            .wait_class = kPageWriteback,
            .any = "btrfs_start_ordered_extent* btrfs_wait_ordered_range lock_extent* "
                   "__lock_extent btrfs_lock_extent_bits wait_extent_bit",
            .meaning = "waits for writes in flight to this range of the file"},

    // ---- 25 to 27: waiting for one's own I/O.
    WaitRow{.number = "25",
            .wait_class = kBlockFlush,
            .any = "blkdev_issue_flush xfs_blkdev_issue_flush md_flush_request",
            .meaning = "waits for a flush of the device's cache"},
    WaitRow{.number = "27",
            .wait_class = kBlockDrain,
            .any = "inode_dio_wait* __inode_dio_wait ext4_unwritten_wait",
            .meaning = "waits until earlier direct I/O on the inode has finished"},
    WaitRow{.number = "26",
            .wait_class = kBlockRead,
            .leaf = "__iomap_dio_rw iomap_dio_rw __blkdev_direct_IO blkdev_direct_IO "
                    "do_blockdev_direct_IO __blockdev_direct_IO dio_await_completion "
                    "dio_await_one wait_on_sync_kiocb",
            .depends = Depends::kDirection,
            .meaning = "waits for its own direct I/O"},
    WaitRow{.number = "26",
            .wait_class = kBlockRead,
            .any = "submit_bio_wait",
            .with = "__blkdev_direct_IO_simple",
            .depends = Depends::kDirection,
            .meaning = "waits for its own direct I/O"},

    // ---- 28 before 29: pages that a direct write must see clean and gone first.
    WaitRow{.number = "28",
            .wait_class = kPageWriteback,
            .any = kWritebackWait,
            .with = "__iomap_dio_rw iomap_dio_rw kiocb_invalidate_pages kiocb_write_and_wait "
                    "blkdev_direct_write generic_file_direct_write generic_file_direct_IO",
            .meaning = "direct I/O waits for cached pages of the file to be written"},
    WaitRow{.number = "28",
            .wait_class = kPageWriteback,
            .any = kPageBit,
            .with = "invalidate_inode_pages2_range kiocb_invalidate_pages kiocb_write_and_wait",
            .meaning = "direct I/O waits for cached pages of the file"},
    WaitRow{.number = "28",
            .wait_class = kPageWriteback,
            .leaf = "filemap_write_and_wait_range kiocb_write_and_wait kiocb_invalidate_pages",
            .meaning = "waits for cached pages of the file to be written"},
    WaitRow{.number = "29",
            .wait_class = kPageWriteback,
            .any = kWritebackWait,
            .with = "file_write_and_wait_range filemap_write_and_wait_range* ext4_sync_file "
                    "xfs_file_fsync btrfs_sync_file blkdev_fsync vfs_fsync* do_fsync",
            .meaning = "waits until the file's pages are written"},

    // ---- 31: before 30, whose page rows are wide.
    WaitRow{.number = "31",
            .wait_class = kPageDirtyThrottle,
            .any = "balance_dirty_pages*",
            .none = kReclaim,
            .meaning = "held back because too many pages are dirty"},

    // ---- 30: single pages. A page that is being read is locked meanwhile.
    WaitRow{.number = "30",
            .wait_class = kPageWriteback,
            .any = "folio_wait_stable wait_for_stable_page wait_on_stable_page_write",
            .meaning = "waits until the page it wants to change is written"},
    WaitRow{.number = "33",
            .wait_class = kMemoryReclaim,
            .any = kPageBit,
            .with = "do_swap_page swapin_readahead swap_read_folio __read_swap_cache_async",
            .meaning = "waits for memory to come back from swap"},
    WaitRow{.number = "30",
            .wait_class = kBlockRead,
            .any = kPageBit,
            .with = "filemap_read filemap_get_pages filemap_update_page filemap_read_folio "
                    "filemap_fault generic_file_buffered_read do_generic_file_read "
                    "do_read_cache_folio do_read_cache_page read_cache_folio read_cache_page* "
                    "wait_on_page_read",
            .none = kReclaim,
            .meaning = "waits until the page is read"},
    WaitRow{.number = "34",
            .wait_class = kBlockRead,
            .any = "bio_iov_iter_get_pages* iov_iter_get_pages* iov_iter_extract_pages*",
            .with = "handle_mm_fault folio_wait_bit* wait_on_page_bit* filemap_fault",
            .none = kReclaim,
            .meaning = "its own buffer is not in memory and is read in"},
    WaitRow{.number = "30",
            .wait_class = kPageLock,
            .any = "__folio_lock* folio_lock __lock_page* lock_page* migration_entry_wait*",
            .none = kReclaim,
            .meaning = "waits for a page's lock"},
    WaitRow{.number = "30",
            .wait_class = kPageLock,
            .any = "folio_wait_bit* wait_on_page_bit* sleep_on_page*",
            .with = "mpage_prepare_extent_to_map __filemap_get_folio* pagecache_get_page "
                    "grab_cache_page_write_begin find_lock_page* find_or_create_page "
                    "truncate_inode_pages* write_cache_pages writeback_iter "
                    "extent_write_cache_pages",
            .none = "folio_wait_writeback wait_on_page_writeback",
            .meaning = "waits for a page's lock"},
    WaitRow{// 6.18: folio_wait_bit_common is inlined.
            .number = "30",
            .wait_class = kPageLock,
            .leaf = "__filemap_get_folio",
            .meaning = "waits for a page's lock"},
    WaitRow{// 3.x: wait_on_page_writeback is inlined.
            .number = "30",
            .wait_class = kPageWriteback,
            .any = kPageBit,
            .with = "generic_perform_write ext4_write_begin ext4_da_write_begin iomap_write_begin "
                    "block_write_begin ext4_page_mkwrite block_page_mkwrite iomap_page_mkwrite",
            .meaning = "waits until the page it wants to change is written"},

    // ---- 32: metadata that is not in memory.
    WaitRow{.number = "32",
            .wait_class = kBlockRead,
            .any = kBufferWait,
            .with = "ext4_read_bh* __read_extent_tree_block read_extent_tree_block "
                    "ext4_wait_block_bitmap ext4_read_block_bitmap* ext4_read_inode_bitmap "
                    "__ext4_get_inode_loc* ext4_get_inode_loc ext4_bread* __ext4_sb_bread_gfp "
                    "ext4_sb_bread* ext4_map_blocks ext4_ext_* ext4_mb_* ext4_reserve_inode_write "
                    "ext4_lookup ext4_find_entry __ext4_find_entry ext4_readdir ext4_getblk "
                    "__ext4_read_dirblock __ext4_iget ext4_iget ext4_xattr_* __ext4_new_inode "
                    "ext4_free_branches __bread_gfp __bread bh_read bh_submit_read __bh_read "
                    "read_extent_buffer_pages*",
            .meaning = "reads metadata of the file system"},
    WaitRow{.number = "32",
            .wait_class = kBlockRead,
            .leaf = "ext4_read_bh* __read_extent_tree_block read_extent_tree_block "
                    "ext4_wait_block_bitmap ext4_read_inode_bitmap ext4_read_block_bitmap_nowait "
                    "__ext4_get_inode_loc ext4_bread ext4_bread_batch read_extent_buffer_pages*",
            .meaning = "reads metadata of the file system"},
    WaitRow{.number = "32",
            .wait_class = kBlockRead,
            .any = kBufferWait,
            .with = "ext4_block_write_begin __block_write_begin_int __block_write_begin "
                    "ext4_block_zero_page_range __ext4_block_zero_page_range "
                    "ext4_block_truncate_page ext4_zero_partial_blocks block_truncate_page",
            .meaning = "reads the block that it changes a part of"},
    WaitRow{.number = "32",
            .wait_class = kBlockRead,
            .leaf = "ext4_block_write_begin __block_write_begin_int ext4_block_zero_page_range "
                    "__ext4_block_zero_page_range ext4_block_truncate_page block_truncate_page",
            .meaning = "reads the block that it changes a part of"},
    WaitRow{.number = "26",
            .wait_class = kBlockWrite,
            .any = kBufferWait,
            .with = "sync_dirty_buffer __sync_dirty_buffer fsync_buffers_list osync_buffers_list "
                    "sync_mapping_buffers generic_buffers_fsync* jbd2_write_superblock "
                    "write_dirty_buffer",
            .meaning = "writes metadata of the file system"},
    WaitRow{.number = "11",
            .wait_class = kJournalFastcommit,
            .any = "ext4_fc_commit ext4_fc_perform_commit",
            .with = "__mutex_lock* mutex_lock* out_of_line_wait_on_bit* __wait_on_buffer",
            .meaning = "writes a fast commit"},

    WaitRow{.number = "26",
            .wait_class = kBlockWrite,
            .any = "submit_bio_wait",
            .with = "blkdev_issue_discard* __blkdev_issue_discard blkdev_issue_zeroout* "
                    "blkdev_issue_write_zeroes* blkdev_issue_secure_erase blkdev_common_ioctl",
            .meaning = "waits for a discard or for zeroes to be written"},

    // ---- 35 before 33: the first direct I/O of a mount makes a workqueue, threads and all.
    WaitRow{.number = "35",
            .wait_class = kOther,
            .any = "sb_init_dio_done_wq",
            .meaning = "makes a workqueue, once per mount"},

    // ---- 33: memory.
    WaitRow{.number = "33",
            .wait_class = kMemoryReclaim,
            .any = kReclaim,
            .meaning = "waits for memory to be freed"},

    // ---- what is left of the above, by the kind of thing waited for.
    WaitRow{.number = "29",
            .wait_class = kPageWriteback,
            .any = kWritebackWait,
            .meaning = "waits until pages are written"},
    WaitRow{
        .number = "30", .wait_class = kPageLock, .any = kPageBit, .meaning = "waits for a page"},
    WaitRow{.number = "29",
            .wait_class = kPageWriteback,
            .any = "wb_wait_for_completion __inode_wait_for_writeback inode_wait_for_writeback "
                   "inode_sleep_on_writeback wait_sb_inodes",
            .meaning = "waits until writeback has worked through the file system"},
    WaitRow{.number = "29",
            .wait_class = kPageWriteback,
            .any = "__flush_workqueue flush_workqueue",
            .with = "ext4_sync_fs ext4_evict_inode",
            .meaning = "waits for the conversion of written extents"},
    WaitRow{.number = "37",
            .wait_class = kLockOther,
            .any = "__flush_work flush_work",
            .with = "destroy_inode evict xfs_inodegc_flush xfs_inodegc_queue",
            .meaning = "waits until a kernel worker has cleared away deleted inodes"},
    WaitRow{.number = "37",
            .wait_class = kLockOther,
            .any = "__kthread_create_on_node kthread_create_on_node",
            .meaning = "waits until a kernel thread has been made"},
    WaitRow{.number = "26",
            .wait_class = kBlockRead,
            .any = "submit_bio_wait blk_execute_rq bio_await",
            .depends = Depends::kDirection,
            .meaning = "waits for its own I/O"},
    WaitRow{.number = "36",
            .wait_class = kUringWait,
            .any = "io_cqring_wait read_events io_getevents do_io_getevents",
            .none = kAnyLock,
            .meaning = "waits for completions on purpose"},
    WaitRow{.number = "36",
            .wait_class = kUringWait,
            .leaf = "io_wq_worker io_wqe_worker io_sq_thread",
            .meaning = "has nothing to do"},
    WaitRow{.number = "37",
            .wait_class = kOther,
            .any = "request_wait_answer fuse_simple_request __fuse_simple_request "
                   "__fuse_request_send",
            .meaning = "waits for the user-space server of a FUSE file system"},
    WaitRow{
        .number = "37", .wait_class = kLockOther, .any = kAnyLock, .meaning = "waits for a lock"},
    WaitRow{// The kernel leaves .sched.text, and the mutex's functions with it, out of a sleeper's
            // stack.
            .number = "37",
            .wait_class = kLockOther,
            .leaf = "fdget_pos __fdget_pos",
            .meaning = "waits for the file position, which another thread's call on the same file "
                       "descriptor uses"},
    WaitRow{// /proc/PID/stack leaves the rwsem out.
            .number = "3",
            .wait_class = kLockOther,
            .leaf = "__ext4_new_inode",
            .guess = true,
            .meaning = "waits for an allocation group's lock, by the function it sleeps in"},
};

}  // namespace

std::span<const WaitRow> wait_table() {
  return kGeneral;
}

}  // namespace stalltrace::kernel

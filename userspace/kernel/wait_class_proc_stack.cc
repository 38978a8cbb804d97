#include <array>

#include "userspace/kernel/wait_class_table.h"

namespace stalltrace::kernel {
namespace {

using enum WaitClass;

// /proc/PID/stack leaves out the scheduler's section: schedule, mutexes, rwsems, bit waits and
// completions. What called them is then innermost, and tells in most cases which it was.
constexpr std::array kProcStack = {
    WaitRow{.number = "2",
            .wait_class = kLockInode,
            .leaf = "ext4_file_write_iter ext4_file_read_iter ext4_buffered_write_iter "
                    "ext4_fallocate xfs_ilock* btrfs_inode_lock path_openat open_last_lookups "
                    "do_unlinkat do_rmdir do_renameat2 lock_rename* filename_create do_truncate",
            .guess = true,
            .meaning = "waits for the inode's lock, by the function it sleeps in"},
    WaitRow{.number = "3",
            .wait_class = kLockExtent,
            .leaf = "ext4_map_blocks ext4_map_query_blocks ext4_map_create_blocks "
                    "ext4_da_get_block_prep ext4_da_map_blocks ext4_truncate ext4_ext_truncate",
            .guess = true,
            .meaning = "waits for the inode's extent map, by the function it sleeps in"},
    WaitRow{.number = "3",
            .wait_class = kLockMapping,
            .leaf = "filemap_fault ext4_filemap_fault ext4_punch_hole ext4_setattr "
                    "page_cache_ra_unbounded page_cache_ra_order",
            .guess = true,
            .meaning = "waits for the page cache's lock, by the function it sleeps in"},
    WaitRow{.number = "3",
            .wait_class = kLockOther,
            .leaf = "lock_mm_and_find_vma do_user_addr_fault do_madvise gup_fast_fallback "
                    "ext4_orphan_add ext4_orphan_del "
                    "btrfs_tree_lock* btrfs_tree_read_lock* __btrfs_tree_*",
            .guess = true,
            .meaning = "waits for a lock, by the function it sleeps in"},
    WaitRow{.number = "6",
            .wait_class = kJournalBatch,
            .leaf = "jbd2_journal_stop",
            .guess = true,
            .meaning = "sleeps on purpose so that others may join its commit"},
    WaitRow{.number = "32",
            .wait_class = kBlockRead,
            .leaf = "__ext4_find_entry ext4_find_entry __block_write_begin_int __bread_gfp "
                    "ext4_read_block_bitmap ext4_mb_init_cache __ext4_read_dirblock",
            .guess = true,
            .meaning = "reads metadata of the file system"},
    WaitRow{.number = "26",
            .wait_class = kBlockWrite,
            .leaf = "__sync_dirty_buffer sync_dirty_buffer fsync_buffers_list ext4_commit_super "
                    "jbd2_write_superblock",
            .guess = true,
            .meaning = "writes metadata of the file system"},

};

}  // namespace

std::span<const WaitRow> proc_stack_table() {
  return kProcStack;
}

}  // namespace stalltrace::kernel

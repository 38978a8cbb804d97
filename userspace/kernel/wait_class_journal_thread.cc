#include <array>

#include "userspace/kernel/wait_class_symbols.h"
#include "userspace/kernel/wait_class_table.h"

namespace stalltrace::kernel {
namespace {

using namespace symbols;
using enum WaitClass;

// The phases of a commit, from what kjournald2 sleeps in.
constexpr std::array kJournalThread = {
    kTagRow,
    kIolatencyRow,
    kIocostRow,
    kWbtRow,
    kFrozenRow,
    kFrozenInlinedRow,
    WaitRow{.number = "j1",
            .wait_class = kCommitHandles,
            .any = "jbd2_journal_wait_updates",
            .meaning = "the commit waits for open handles"},
    WaitRow{.number = "j2",
            .wait_class = kCommitCheckpoint,
            .any = "jbd2_update_log_tail __jbd2_update_log_tail jbd2_write_superblock "
                   "jbd2_journal_update_sb_log_tail jbd2_cleanup_journal_tail "
                   "jbd2_log_do_checkpoint",
            .meaning = "the commit writes the journal's superblock"},
    WaitRow{// j_checkpoint_mutex; the callbacks at the commit's end take locks of their own.
            .number = "j2",
            .wait_class = kCommitCheckpoint,
            .any = kMutex,
            .with = "jbd2_journal_commit_transaction",
            .none = "ext4_journal_commit_callback ext4_process_freed_data ext4_fc_cleanup",
            .meaning = "the commit waits for a checkpoint"},
    WaitRow{.number = "j3",
            .wait_class = kCommitData,
            .any = "jbd2_journal_finish_inode_data_buffers journal_finish_inode_data_buffers "
                   "ext4_journal_finish_inode_data_buffers folio_wait_writeback* "
                   "wait_on_page_writeback* __filemap_fdatawait_range filemap_fdatawait_range*",
            .meaning = "the commit waits for the files' new data to be written"},
    WaitRow{.number = "j4",
            .wait_class = kCommitData,
            .any = "ext4_journal_submit_inode_data_buffers ext4_normal_submit_inode_data_buffers "
                   "jbd2_submit_inode_data jbd2_journal_submit_inode_data_buffers "
                   "journal_submit_data_buffers journal_submit_inode_data_buffers "
                   "ext4_writepages ext4_do_writepages ext4_da_writepages generic_writepages "
                   "write_cache_pages",
            .none = kReclaim,
            .meaning = "the commit sends off the files' new data"},
    WaitRow{.number = "j5",
            .wait_class = kCommitRecord,
            .any = "journal_wait_on_commit_record journal_submit_commit_record",
            .none = kReclaim,
            .meaning = "the commit writes its record"},
    WaitRow{// An external journal's data device, or journal_async_commit.
            .number = "j6",
            .wait_class = kCommitLog,
            .any = "blkdev_issue_flush",
            .meaning = "the commit flushes a device"},
    WaitRow{// The record's wait has these symbols too: log_or_record() tells them apart.
            .number = "j7",
            .wait_class = kCommitLog,
            .any = kBufferWait,
            .with = "jbd2_journal_commit_transaction journal_commit_transaction",
            .none = "ext4_journal_commit_callback ext4_process_freed_data ext4_mb_*",
            .meaning = "the commit writes blocks to the journal"},
    WaitRow{// 5.10 and early 5.15 wait for handles in the function itself. Later kernels do so only
            // before the commit begins, for a fast commit under way.
            .number = "j1",
            .wait_class = kCommitHandles,
            .leaf = "jbd2_journal_commit_transaction journal_commit_transaction",
            .with = "schedule __schedule",
            .meaning = "the commit waits for open handles"},
    WaitRow{// /proc/PID/stack leaves out schedule, and the bit wait of j7.
            .number = "j7",
            .wait_class = kCommitLog,
            .leaf = "jbd2_journal_commit_transaction journal_commit_transaction",
            .guess = true,
            .meaning = "the commit writes blocks to the journal"},
    WaitRow{.number = "idle",
            .wait_class = kOther,
            .leaf = "kjournald2 kjournald",
            .meaning = "no commit is under way"},
};

}  // namespace

std::span<const WaitRow> journal_thread_table() {
  return kJournalThread;
}

}  // namespace stalltrace::kernel

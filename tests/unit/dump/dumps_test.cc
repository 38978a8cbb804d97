#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/dump/write_forms.h"
#include "userspace/dump/explain.h"
#include "userspace/dump/parse.h"

namespace stalltrace::dump {
namespace {

// The text must outlive what is parsed from it.
struct Read {
  explicit Read(std::string source) : text(std::move(source)), dump(parse(text)) {
    found = explain(dump);
  }
  Read(const Read&) = delete;

  [[nodiscard]] const Root& root() const { return found.roots.at(0); }
  [[nodiscard]] std::string root_task() const {
    return root().task ? label_of(dump.tasks[*root().task]) : "";
  }
  [[nodiscard]] std::vector<std::string> chain() const {
    std::vector<std::string> labels;
    for (const Link& link : root().chain) labels.push_back(label_of(dump.tasks[*link.task]));
    return labels;
  }
  [[nodiscard]] std::string advice() const {
    std::string all;
    for (const Advice& one : found.advice) {
      all += one.text + "\n";
      for (const std::string& command : one.commands) all += command + "\n";
    }
    return all;
  }
  [[nodiscard]] size_t tasks_in(const std::string& wait_class) const {
    size_t count = 0;
    for (const Group& group : found.groups) {
      if (kernel::name_of(group.wait_class) == wait_class) count += group.tasks.size();
    }
    return count;
  }

  std::string text;
  Dump dump;
  Explanation found;
};

Written task(const std::string& comm, unsigned pid, char state, const std::string& stack) {
  return {comm, pid, state, words(stack)};
}

const char* const kLocked =
    "__schedule < schedule < wait_transaction_locked < add_transaction_credits < "
    "start_this_handle < jbd2__journal_start < __ext4_journal_start_sb < ext4_dirty_inode < "
    "__mark_inode_dirty < generic_update_time < file_update_time < ext4_file_write_iter < "
    "vfs_write";
const char* const kCommitHandles =
    "__schedule < schedule < jbd2_journal_wait_updates < jbd2_journal_commit_transaction < "
    "kjournald2 < kthread";
const char* const kCommitLog =
    "__schedule < schedule < io_schedule < bit_wait_io < __wait_on_bit < out_of_line_wait_on_bit "
    "< jbd2_journal_commit_transaction < kjournald2 < kthread";
const char* const kIdleJournal = "__schedule < schedule < kjournald2 < kthread < ret_from_fork";
const char* const kSyncer =
    "__schedule < schedule < jbd2_log_wait_commit < ext4_sync_file < do_fsync";

TEST(Dumps, RunnableHolderInReclaimIsTheRoot) {
  // What was reported as the holder was a victim; the holder was in no list of blocked tasks.
  auto tasks = of_report("R43");
  ASSERT_EQ(tasks.size(), 7U);
  const Written& holder = tasks.back();
  for (auto form : {TextForm::kSysrqW, TextForm::kHungOld, TextForm::kArm64, TextForm::kCrash,
                    TextForm::kProcStack}) {
    std::string text;
    for (const Written& one : tasks) text += write_stack(one, form);
    Read read(text);
    ASSERT_EQ(read.dump.tasks.size(), 7U);
    EXPECT_EQ(read.root().cause, "memory");
    ASSERT_TRUE(read.root().task);
    EXPECT_EQ(read.dump.tasks[*read.root().task].pid, holder.pid);
    EXPECT_EQ(read.root().sure, Sure::kInferred);
    EXPECT_EQ(read.found.committers.size(), 1U);
    EXPECT_FALSE(read.found.holder_missing);
    // victim -> journal thread -> holder.
    EXPECT_EQ(read.root().chain.size(), 3U);
    // All three that wait for the journal, and the one that is throttled behind the flusher.
    EXPECT_GE(read.root().waiting.size(), 3U);
    // The bystander that reclaims without a handle is nobody's root.
    for (const Root& root : read.found.roots) {
      if (root.task) {
        EXPECT_NE(read.dump.tasks[*root.task].comm, "dd");
      }
    }
  }
  Read read(sysrq(tasks));
  EXPECT_EQ(read.found.blocked, 4U);
  EXPECT_EQ(read.found.runnable, 2U);
  EXPECT_EQ(read.root().waiting.size(), 4U);
  EXPECT_EQ(read.found.committers[0].dev, "md0");
  EXPECT_NE(read.root().chain.back().text.find("runnable"), std::string::npos);
}

TEST(Dumps, HolderThatIsNotListed) {
  auto tasks = of_report("R44");
  ASSERT_EQ(tasks.size(), 5U);
  Read read(sysrq(tasks));
  EXPECT_TRUE(read.found.holder_missing);
  EXPECT_EQ(read.root().cause, "unexplained");
  EXPECT_EQ(read.root().waiting.size(), 4U);
  EXPECT_EQ(read.chain().back(), "jbd2/sda9-8[" + std::to_string(tasks[0].pid) + "]");
  EXPECT_FALSE(read.root().task);
  EXPECT_NE(read.root().text.find("not in this text"), std::string::npos);
  for (const char* command : {"echo t > /proc/sysrq-trigger", "echo l > /proc/sysrq-trigger",
                              "/proc/[0-9]*/task/*/sta", "stalltrace trace"}) {
    EXPECT_NE(read.advice().find(command), std::string::npos) << command;
  }
  // Neither journal.locked nor the journal's thread may pass for the root.
  for (const Root& root : read.found.roots) {
    EXPECT_FALSE(root.cause.starts_with("journal")) << root.cause;
    EXPECT_FALSE(root.cause.starts_with("commit")) << root.cause;
  }
}

TEST(Dumps, OldProcStackOfTheThreadIsSettledByItsVictims) {
  // Before 5.16 /proc/PID/stack shows the same for two phases.
  std::string text;
  for (const Written& one : of_report("R44")) text += write_stack(one, TextForm::kProcStack);
  Read read(text);
  ASSERT_EQ(read.found.committers.size(), 1U);
  EXPECT_EQ(read.found.committers[0].phase, kernel::WaitClass::kCommitHandles);
  EXPECT_TRUE(read.found.holder_missing);
}

TEST(Dumps, HolderThatReadsMetadata) {
  Read read(sysrq({task("jbd2/vdb-8", 90, 'D', kCommitHandles), task("fio", 91, 'D', kLocked),
                   task("fio", 92, 'D', kLocked),
                   task("tar", 93, 'D',
                        "__schedule < schedule < io_schedule < bit_wait_io < __wait_on_bit < "
                        "out_of_line_wait_on_bit < ext4_wait_block_bitmap < ext4_mb_init_cache < "
                        "ext4_mb_load_buddy_gfp < ext4_mb_regular_allocator < ext4_mb_new_blocks "
                        "< ext4_ext_map_blocks < ext4_map_blocks < ext4_writepages")}));
  EXPECT_EQ(read.root().cause, "device.read");
  EXPECT_EQ(read.root_task(), "tar[93]");
  EXPECT_EQ(read.chain(), (std::vector<std::string>{"fio[91]", "jbd2/vdb-8[90]", "tar[93]"}));
  EXPECT_EQ(read.found.roots.size(), 1U);
  // Two tasks of one stack are one group.
  EXPECT_EQ(read.found.groups[0].tasks.size(), 2U);
}

TEST(Dumps, WhileTheThreadWritesNobodyHoldsItBack) {
  // The thread that locks transactions is writing one: who waits for the running one waits because
  // it is full.
  Read read(sysrq({task("jbd2/vdb-8", 90, 'D', kCommitLog), task("fio", 91, 'D', kLocked),
                   task("syncer", 92, 'D', kSyncer)}));
  EXPECT_EQ(read.tasks_in("journal.locked"), 0U);
  EXPECT_EQ(read.tasks_in("journal.credits"), 1U);
  EXPECT_EQ(read.root().cause, "device.write");
  EXPECT_EQ(read.root().dev, "vdb");
  EXPECT_EQ(read.root().waiting.size(), 2U);
  EXPECT_FALSE(read.found.holder_missing);
}

TEST(Dumps, IdleThreadIsSaid) {
  Read read(sysrq({task("jbd2/vdb-8", 90, 'S', kIdleJournal), task("syncer", 92, 'D', kSyncer)},
                  "sysrq: Show State"));
  EXPECT_EQ(read.root().cause, "unexplained");
  ASSERT_FALSE(read.found.notes.empty());
  EXPECT_NE(read.found.notes[0].find("idle"), std::string::npos);
}

TEST(Dumps, CyclePrintsItsEdgesAndStops) {
  // A has the inode's lock and starts a handle; B has a handle and wants the inode's lock.
  const std::string a =
      "__schedule < schedule < wait_transaction_locked < add_transaction_credits < "
      "start_this_handle < jbd2__journal_start < __ext4_journal_start_sb < ext4_dirty_inode < "
      "__mark_inode_dirty < file_update_time < ext4_buffered_write_iter < ext4_file_write_iter";
  const std::string b =
      "__schedule < schedule < rwsem_down_write_slowpath < down_write < ext4_file_write_iter < "
      "ext4_add_entry < ext4_add_nondir < ext4_create < path_openat";
  Read read(sysrq({task("A", 1001, 'D', a), task("B", 1002, 'D', b),
                   task("jbd2/dm-3-8", 1003, 'D', kCommitHandles), task("C", 1004, 'D', kSyncer)}));
  ASSERT_EQ(read.found.cycles.size(), 1U);
  const Cycle& cycle = read.found.cycles[0];
  ASSERT_EQ(cycle.size(), 3U);
  std::vector<std::string> labels;
  for (const Edge& edge : cycle) labels.push_back(label_of(read.dump.tasks[edge.from]));
  EXPECT_EQ(labels, (std::vector<std::string>{"A[1001]", "jbd2/dm-3-8[1003]", "B[1002]"}));
  for (size_t i = 0; i < cycle.size(); ++i) {
    EXPECT_EQ(cycle[i].to, cycle[(i + 1) % cycle.size()].from);
    EXPECT_FALSE(cycle[i].text.empty());
  }
  EXPECT_EQ(read.root().cause, "cycle");
  // A stack does not say which inode: the cycle is no more than a guess.
  EXPECT_EQ(read.root().sure, Sure::kGuess);
  EXPECT_EQ(read.root().waiting.size(), 3U);
}

TEST(Dumps, CycleByTheKernelsWord) {
  std::string text =
      "[ 1.0] INFO: task A:1 is blocked on a mutex likely owned by task B:2.\n"
      "[ 1.0] INFO: task B:2 <writer> blocked on an rw-semaphore likely owned by task A:1 "
      "<writer>\n";
  const char* mutex = "__schedule < schedule < schedule_preempt_disabled < __mutex_lock < foo_bar";
  const char* rwsem = "__schedule < schedule < rwsem_down_write_slowpath < down_write < foo_baz";
  text += write_stack(task("A", 1, 'D', mutex), TextForm::kHungNew);
  text += write_stack(task("B", 2, 'D', rwsem), TextForm::kHungNew);
  Read read(text);
  ASSERT_EQ(read.found.cycles.size(), 1U);
  EXPECT_EQ(read.found.cycles[0].size(), 2U);
  EXPECT_EQ(read.root().cause, "cycle");
  EXPECT_EQ(read.root().sure, Sure::kInferred);
}

TEST(Dumps, OwnerOutsideTheText) {
  std::string text = write_stack(
      task("A", 1, 'D', "__schedule < schedule < __mutex_lock < foo_bar"), TextForm::kHungNew);
  text += "INFO: task A:1 is blocked on a mutex likely owned by task kworker/u98:0:7811.\n";
  Read read(text);
  EXPECT_EQ(read.root().cause, "unexplained");
  EXPECT_NE(read.root().text.find("kworker/u98:0[7811]"), std::string::npos);
}

TEST(Dumps, ReaderOwnedRwsem) {
  std::string text =
      "INFO: task A:1 <writer> blocked on an rw-semaphore likely owned by task B:2 <reader>\n";
  text += write_stack(task("A", 1, 'D',
                           "__schedule < schedule < rwsem_down_write_slowpath < "
                           "down_write < ext4_buffered_write_iter"),
                      TextForm::kHungNew);
  Read read(text);
  EXPECT_EQ(read.root().cause, "readers");
}

TEST(Dumps, ManyReadersAreNoSingleOwner) {
  std::vector<Written> tasks{task("writer", 500, 'D',
                                  "__schedule < schedule < rwsem_down_write_slowpath < down_write "
                                  "< ext4_buffered_write_iter < ext4_file_write_iter")};
  for (unsigned i = 0; i < 5; ++i) {
    tasks.push_back(task("reader", 501 + i, 'D',
                         "__schedule < schedule < io_schedule < __iomap_dio_rw < iomap_dio_rw < "
                         "ext4_file_read_iter < aio_read < io_submit_one"));
  }
  Read read(sysrq(tasks));
  auto readers = std::find_if(read.found.roots.begin(), read.found.roots.end(),
                              [](const Root& root) { return root.cause == "readers"; });
  ASSERT_NE(readers, read.found.roots.end());
  EXPECT_EQ(readers->sure, Sure::kGuess);
  ASSERT_EQ(readers->chain.size(), 2U);
  EXPECT_EQ(readers->chain[1].also.size(), 4U);  // all those seen are listed
  EXPECT_EQ(readers->waiting.size(), 1U);
}

TEST(Dumps, FrozenFileSystem) {
  const char* frozen =
      "__schedule < schedule < percpu_rwsem_wait < __percpu_down_read < vfs_write < ksys_write";
  Read alone(sysrq({task("app", 7, 'D', frozen), task("app", 8, 'D', frozen)}));
  EXPECT_EQ(alone.root().cause, "frozen");
  EXPECT_EQ(alone.root().waiting.size(), 2U);
  EXPECT_NE(alone.advice().find("fsfreeze -u"), std::string::npos);

  Read with_freezer(sysrq({task("app", 7, 'D', frozen),
                           task("fsfreeze", 9, 'D',
                                "__schedule < schedule < jbd2_log_wait_commit < jbd2_journal_flush "
                                "< ext4_freeze < freeze_super < __x64_sys_ioctl"),
                           task("jbd2/sdc1-8", 10, 'D', kCommitLog)}));
  EXPECT_EQ(with_freezer.chain(),
            (std::vector<std::string>{"app[7]", "fsfreeze[9]", "jbd2/sdc1-8[10]"}));
  EXPECT_EQ(with_freezer.root().cause, "device.write");
}

TEST(Dumps, FrozenQueueNamesWhoFreezes) {
  Read read(sysrq({task("app", 7, 'D',
                        "__schedule < schedule < __bio_queue_enter < blk_mq_submit_bio < "
                        "submit_bio_noacct_nocheck < ext4_bio_write_folio"),
                   task("udevd", 9, 'D',
                        "__schedule < schedule < blk_mq_freeze_queue_wait < elevator_switch < "
                        "elv_iosched_store < queue_attr_store < kernfs_fop_write_iter")}));
  EXPECT_EQ(read.chain(), (std::vector<std::string>{"app[7]", "udevd[9]"}));
  EXPECT_EQ(read.root().cause, "device.queue");
}

TEST(Dumps, DeviceThatAnswersNothing) {
  Written fio = of_report("R17").at(0);
  Read slow(sysrq({fio}));
  EXPECT_EQ(slow.root().cause, "device.queue");
  // 181 s without a single wake-up are no slowness.
  Read hung(write_stack(fio, TextForm::kHungNew));
  EXPECT_EQ(hung.root().cause, "device.hung");
  EXPECT_EQ(hung.dump.tasks[0].blocked_s, 181U);
}

TEST(Dumps, BatchingSleepHoldsTheHandle) {
  Read read(sysrq({task("jbd2/vdb-8", 90, 'D', kCommitHandles), task("fio", 91, 'D', kLocked),
                   task("sync", 93, 'D',
                        "__schedule < schedule < schedule_hrtimeout_range < jbd2_journal_stop < "
                        "__ext4_journal_stop < ext4_write_end")}));
  EXPECT_EQ(read.root().cause, "knob");
  EXPECT_EQ(read.root_task(), "sync[93]");
}

TEST(Dumps, LockdepNamesTheHolder) {
  std::string text =
      sysrq({task("jbd2/vdb-8", 90, 'D', kCommitHandles), task("fio", 91, 'D', kLocked)});
  text +=
      "Showing all locks held in the system:\n"
      "2 locks held by cp/93:\n"
      " #0: ffff88810 (sb_writers#4){.+.+}-{0:0}, at: do_sendfile+0x1/0x2\n"
      " #1: ffff88820 (jbd2_handle){++++}-{0:0}, at: start_this_handle+0xd2d/0x1420\n"
      "1 lock held by fio/91:\n"
      " #0: ffff88830 (&sb->s_type->i_mutex_key#10){++++}-{3:3}, at: "
      "ext4_file_write_iter+0x1/0x2\n";
  Read read(text);
  EXPECT_FALSE(read.found.holder_missing);
  EXPECT_EQ(read.root_task(), "cp[93]");
  EXPECT_EQ(read.root().cause, "unexplained");  // who it is is known, not what it does
}

TEST(Dumps, LockdepNamesTheOwnerOfALock) {
  const char* waits =
      "__schedule < schedule < rwsem_down_write_slowpath < down_write < ext4_buffered_write_iter";
  std::string text = sysrq({task("a", 1, 'D', waits),
                            task("b", 2, 'D',
                                 "__schedule < schedule < io_schedule < "
                                 "__iomap_dio_rw < ext4_file_write_iter"),
                            task("c", 3, 'D',
                                 "__schedule < schedule < io_schedule < __iomap_dio_rw < "
                                 "ext4_file_write_iter < vfs_write")});
  text +=
      "1 lock held by a/1:\n #0: ffff01 (&sb->s_type->i_mutex_key){++++}-{3:3}, at: "
      "ext4_buffered_write_iter+0x1/0x2\n"
      "1 lock held by b/2:\n #0: ffff02 (&sb->s_type->i_mutex_key){++++}-{3:3}, at: "
      "ext4_file_write_iter+0x1/0x2\n"
      "1 lock held by c/3:\n #0: ffff01 (&sb->s_type->i_mutex_key){++++}-{3:3}, at: "
      "ext4_file_write_iter+0x1/0x2\n";
  Read read(text);
  auto chain = std::find_if(
      read.found.roots.begin(), read.found.roots.end(),
      [&](const Root& root) { return root.chain.size() == 2 && root.chain[0].task == 0U; });
  ASSERT_NE(chain, read.found.roots.end());
  EXPECT_EQ(label_of(read.dump.tasks[*chain->chain[1].task]), "c[3]");
  EXPECT_EQ(chain->chain[1].sure, Sure::kInferred);
}

TEST(Dumps, AllTasksOfAnIdleMachine) {
  std::vector<Written> tasks{
      task("systemd", 1, 'S', "__schedule < schedule < do_epoll_wait < __x64_sys_epoll_wait"),
      task("kthreadd", 2, 'S', "__schedule < schedule < kthreadd < ret_from_fork"),
      task("kworker/0:0", 3, 'I', "__schedule < schedule < worker_thread < kthread"),
      task("jbd2/vda1-8", 4, 'S', kIdleJournal),
      task("fio", 5, 'S', "__schedule < schedule < read_events < do_io_getevents"),
      task("bash", 6, 'R', "sysrq_handle_showstate < __handle_sysrq < write_sysrq_trigger")};
  Read read(sysrq(tasks, "sysrq: Show State"));
  EXPECT_TRUE(read.dump.sysrq_all);
  EXPECT_EQ(read.found.blocked, 0U);
  EXPECT_TRUE(read.found.roots.empty());
  EXPECT_EQ(read.found.idle, 5U);
}

TEST(Dumps, RunnableIsNeverAnIoStall) {
  // Woken already: the stack still shows what it had waited for.
  Read read(sysrq({task("fio", 5, 'R', "__schedule < schedule < io_schedule < blk_mq_get_tag"),
                   task("cp", 6, 'R', kSyncer)}));
  EXPECT_EQ(read.found.blocked, 0U);
  EXPECT_TRUE(read.found.roots.empty());
  EXPECT_EQ(read.tasks_in("cpu.wait"), 2U);
}

TEST(Dumps, LogSpaceLeadsToTheCommit) {
  auto tasks = of_report("R47");
  tasks.push_back(task("jbd2/vdb-8", 90, 'D', kCommitLog));
  Read read(sysrq(tasks));
  EXPECT_EQ(read.root().cause, "device.write");
  EXPECT_EQ(read.root().chain.size(), 2U);
}

TEST(Dumps, TwoJournalsAreOnlyAGuess) {
  Read read(sysrq({task("jbd2/vdb-8", 90, 'D', kCommitHandles),
                   task("jbd2/vdc-8", 91, 'D', kCommitHandles), task("fio", 92, 'D', kLocked)}));
  EXPECT_EQ(read.root().sure, Sure::kGuess);
  EXPECT_EQ(read.root().chain[1].also.size(), 1U);
}

// Before 3.11 one function waited for a locked transaction, for a full one and for a barrier, and
// the commit for its handles in its own; schedule() itself is not in those reports.
TEST(Dumps, OldKernelsNamesAreNotTodays) {
  const std::string report =
      "INFO: task mysqld:2345 blocked for more than 120 seconds.\n"
      "      Not tainted 2.6.32-431.el6.x86_64 #1\n"
      "mysqld        D 0000000000000003     0  2345      1 0x00000080\n"
      "Call Trace:\n"
      " [<ffffffffa00ce262>] start_this_handle+0x262/0x4e0 [jbd2]\n"
      " [<ffffffff8109b290>] ? autoremove_wake_function+0x0/0x40\n"
      " [<ffffffffa00ce6c0>] jbd2_journal_start+0xd0/0x110 [jbd2]\n"
      " [<ffffffffa01176d6>] ext4_journal_start_sb+0x56/0xe0 [ext4]\n"
      " [<ffffffffa00f0a2d>] ext4_dirty_inode+0x2d/0x60 [ext4]\n"
      "INFO: task jbd2/sda3-8:345 blocked for more than 120 seconds.\n"
      "jbd2/sda3-8   D 0000000000000001     0   345      2 0x00000000\n"
      "Call Trace:\n"
      " [<ffffffffa00d081f>] jbd2_journal_commit_transaction+0x19f/0x1500 [jbd2]\n"
      " [<ffffffff8109b290>] ? autoremove_wake_function+0x0/0x40\n"
      " [<ffffffffa00d6a68>] kjournald2+0xb8/0x220 [jbd2]\n"
      " [<ffffffff8109aef6>] kthread+0x96/0xa0\n";
  Read old(report);
  ASSERT_EQ(old.found.readings.size(), 2U);
  EXPECT_EQ(old.found.readings[0].wait_class, kernel::WaitClass::kJournalLocked);
  EXPECT_EQ(old.found.readings[1].wait_class, kernel::WaitClass::kCommitHandles);
  EXPECT_TRUE(old.found.holder_missing);
  EXPECT_EQ(old.root().cause, "unexplained");
  EXPECT_EQ(old.advice().find("fsfreeze"), std::string::npos);
}

// What only stands on top of a stack cannot be read from one that lacks its top.
TEST(Dumps, StackWithoutItsTopTellsNoBarrier) {
  Read cut(sysrq({task("app", 7, 'D',
                       "start_this_handle < jbd2__journal_start < __ext4_journal_start_sb < "
                       "ext4_dirty_inode < __mark_inode_dirty < file_update_time")}));
  EXPECT_EQ(cut.found.readings.at(0).wait_class, kernel::WaitClass::kOther);
  EXPECT_NE(cut.found.readings[0].meaning.find("cut at its top"), std::string::npos);
  EXPECT_EQ(cut.root().cause, "unexplained");
  Read whole(sysrq({task("app", 7, 'D',
                         "__schedule < schedule < start_this_handle < jbd2__journal_start < "
                         "__ext4_journal_start_sb < ext4_dirty_inode")}));
  EXPECT_EQ(whole.found.readings.at(0).wait_class, kernel::WaitClass::kJournalBarrier);
  // Barred it is, but not every bar is a freeze.
  EXPECT_EQ(whole.root().cause, "unexplained");
}

TEST(Dumps, OneFileSystemsFunctionsHoldNoLockOfAnother) {
  const std::string xfs =
      "__schedule < schedule < rwsem_down_write_slowpath < down_write < xfs_ilock < "
      "xfs_vn_update_time < file_update_time";
  const std::string ext4 =
      "__schedule < schedule < io_schedule_timeout < balance_dirty_pages < "
      "balance_dirty_pages_ratelimited < generic_perform_write < ext4_buffered_write_iter";
  Read read(sysrq({task("xfs", 7, 'D', xfs), task("ext4", 8, 'D', ext4)}));
  for (const Root& root : read.found.roots) {
    bool of_xfs = std::find(root.waiting.begin(), root.waiting.end(), 0U) != root.waiting.end();
    EXPECT_TRUE(!of_xfs || root.cause == "unexplained") << root.cause;
  }
}

// Two CPUs print at a time: the kernel says who printed which line.
TEST(Dumps, CallersAreToldApart) {
  const std::string a = sysrq({task("app", 4242, 'D', kLocked)});
  const std::string b = sysrq({task("jbd2/vdb-8", 300, 'D', kCommitHandles)});
  auto lines_of = [](const std::string& text, const std::string& caller) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      size_t close = line.find("] ");
      lines.push_back(line.starts_with("[") && close != std::string::npos
                          ? line.substr(0, close + 1) + caller + line.substr(close + 1)
                          : "[ 1234.500000]" + caller + " " + line);
      at = end + 1;
    }
    return lines;
  };
  std::vector<std::string> first = lines_of(a, "[T4242]"), second = lines_of(b, "[  T300]");
  std::string mixed;
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size()) mixed += first[i] + "\n";
    if (i < second.size()) mixed += second[i] + "\n";
  }
  Read read(mixed);
  ASSERT_EQ(read.dump.tasks.size(), 2U) << mixed;
  EXPECT_EQ(read.tasks_in("journal.locked"), 1U);
  EXPECT_EQ(read.tasks_in("commit.handles"), 1U);
}

TEST(Dumps, ColoursAndOldLineEndsAreNoText) {
  EXPECT_EQ(plain_text("\x1b[32m[  1.0]\x1b[0m INFO: a\n"), "[  1.0] INFO: a\n");
  EXPECT_EQ(plain_text("a\rb\r"), "a\nb\n");
  EXPECT_EQ(plain_text("a\r\nb"), "a\r\nb");
  EXPECT_EQ(plain_text("cut \x1b["), "cut ");
}

TEST(Dumps, CutOff) {
  std::string whole = sysrq(of_report("R43"));
  std::string half = whole.substr(0, whole.rfind("shrink_node"));
  EXPECT_TRUE(Read(half).dump.cut);
  EXPECT_FALSE(Read(whole).dump.cut);
}

TEST(Dumps, TenThousandTasks) {
  std::vector<Written> tasks{task("jbd2/vdb-8", 90, 'D', kCommitHandles)};
  for (unsigned i = 0; i < 10000; ++i) {
    Written one = task("fio", 1000 + i, 'D', i % 3 == 0 ? kSyncer : kLocked);
    // Every seventh stack is like no other.
    if (i % 7 == 0) one.frames.push_back(fmt::format("caller_{}", i));
    tasks.push_back(one);
  }
  const std::string text = sysrq(tasks);
  auto start = std::chrono::steady_clock::now();
  Read read(text);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(read.found.blocked, 10000U);
  EXPECT_EQ(read.root().waiting.size(), 10000U);
  RecordProperty("seconds", std::to_string(seconds));
  // An optimized build takes a tenth of a second; one with sanitizers on a busy machine far more.
  EXPECT_LT(seconds, 30);
}

}  // namespace
}  // namespace stalltrace::dump

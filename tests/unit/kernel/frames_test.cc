#include "userspace/kernel/frames.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/kernel/written.h"

namespace stalltrace::kernel {
namespace {

TEST(Frames, MeaningfulTellsTheStory) {
  auto show = [](const char* text, size_t limit) {
    auto frames = frames_of(text);
    std::vector<std::string_view> views(frames.begin(), frames.end());
    std::string joined;
    for (std::string_view frame : meaningful(views, limit)) {
      joined += (joined.empty() ? "" : " < ") + std::string(frame);
    }
    return joined;
  };
  const char* mtime =
      "bpf_prog_1_x __schedule schedule wait_transaction_locked add_transaction_credits "
      "start_this_handle jbd2__journal_start __ext4_journal_start_sb ext4_dirty_inode "
      "__mark_inode_dirty generic_update_time file_update_time ext4_file_write_iter aio_write "
      "io_submit_one __x64_sys_io_submit do_syscall_64 entry_SYSCALL_64_after_hwframe";
  EXPECT_EQ(show(mtime, 5),
            "wait_transaction_locked < start_this_handle < ext4_dirty_inode < file_update_time < "
            "ext4_file_write_iter");
  EXPECT_EQ(show(mtime, 3), "wait_transaction_locked < start_this_handle < ext4_file_write_iter");
  EXPECT_EQ(show(mtime, 1), "wait_transaction_locked");
  EXPECT_EQ(show("__schedule schedule", 5), "__schedule");
  EXPECT_EQ(show("", 5), "");
  // The sleeping function stays, be it a wrapper.
  EXPECT_EQ(show("schedule add_transaction_credits start_this_handle", 5),
            "add_transaction_credits < start_this_handle");
}

TEST(Frames, GenericOnes) {
  for (const char* frame :
       {"bpf_prog_d1_f", "bpf_trace_run4", "__traceiter_sched_switch", "__schedule", "schedule",
        "schedule_preempt_disabled", "schedule_timeout", "io_schedule", "io_schedule_timeout",
        "blk_io_schedule", "bit_wait", "bit_wait_io", "__wait_on_bit", "__wait_on_bit_lock",
        "out_of_line_wait_on_bit", "out_of_line_wait_on_bit_lock", "__sched_text_start"}) {
    EXPECT_TRUE(is_generic(frame)) << frame;
  }
  for (const char* frame : {"rwsem_down_read_slowpath", "wait_transaction_locked",
                            "schedule_hrtimeout_range_clock", "submit_bio_wait", "scheduler"}) {
    EXPECT_FALSE(is_generic(frame)) << frame;
  }
}

TEST(Frames, SuffixesFold) {
  EXPECT_EQ(fold_suffix("__mutex_lock.constprop.0"), "__mutex_lock");
  EXPECT_EQ(fold_suffix("xlog_cil_push_now.isra.0"), "xlog_cil_push_now");
  EXPECT_EQ(fold_suffix("f.part.0.cold"), "f");
  EXPECT_EQ(fold_suffix("plain"), "plain");
}

}  // namespace
}  // namespace stalltrace::kernel

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/dump/write_forms.h"
#include "userspace/dump/explain.h"
#include "userspace/dump/parse.h"

namespace stalltrace::dump {
namespace {

std::vector<std::string> symbols_of(const Task& task) {
  std::vector<std::string> names;
  for (const Frame& frame : task.frames) {
    if (!frame.unreliable) names.emplace_back(frame.symbol);
  }
  return names;
}

// parse() points into its text: the texts of all tests are kept.
Dump read(std::string text) {
  static std::deque<std::string> kept;
  return parse(kept.emplace_back(std::move(text)));
}

std::string class_of(const Explanation& found, size_t task) {
  return std::string(kernel::name_of(found.readings.at(task).wait_class));
}

class EveryForm : public testing::TestWithParam<TextForm> {};

TEST_P(EveryForm, IsReadAndClassified) {
  const TextForm form = GetParam();
  auto stacks = reported_stacks();
  ASSERT_EQ(stacks.size(), 22U);
  for (const Reported& one : stacks) {
    const std::string text = write_stack(one.task, form);
    SCOPED_TRACE(one.report + " " + one.task.comm + "\n" + text);
    const Dump dump = read(text);
    ASSERT_EQ(dump.tasks.size(), 1U);
    const Task& task = dump.tasks.front();
    std::vector<std::string> expected = one.task.frames;
    if (form == TextForm::kProcStack || form == TextForm::kLatencyStats) {
      expected = without_scheduler(expected);
    }
    if (form == TextForm::kLatencyStats && expected.size() > 12) expected.resize(12);
    EXPECT_EQ(symbols_of(task), expected);
    if (has_pid(form)) {
      EXPECT_EQ(task.pid, one.task.pid);
      if (form != TextForm::kProcStack) {
        EXPECT_EQ(task.comm, one.task.comm);
      }
    }
    const Explanation found = explain(dump);
    std::string wanted = one.wait_class;
    bool names_left_out = form == TextForm::kProcStack || form == TextForm::kLatencyStats;
    if (names_left_out && wanted == "commit.handles") {
      // Of these kernels the text is the same for both waits: it must not be sure.
      EXPECT_EQ(found.readings[0].sure, Sure::kGuess);
      continue;
    }
    if (names_left_out && one.report == "R02") wanted = "block.read";
    if (names_left_out && one.task.frames[0] == "trace_sched_switch") continue;  // nothing is left
    EXPECT_EQ(class_of(found, 0), wanted);
    if (one.task.state == 'R') {
      for (const Root& root : found.roots) EXPECT_FALSE(root.cause.starts_with("device."));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, EveryForm, testing::ValuesIn(kAllForms));

TEST(Forms, TellMoreThanTheStack) {
  Written task{.comm = "db writer",
               .pid = 77,
               .frames = words("__schedule schedule "
                               "jbd2_log_wait_commit "
                               "ext4_sync_file do_fsync")};
  Dump hung = read(write_stack(task, TextForm::kHungNew));
  EXPECT_EQ(hung.tasks.at(0).comm, "db writer");
  EXPECT_EQ(hung.tasks[0].blocked_s, 181U);
  EXPECT_EQ(hung.tasks[0].state, 'D');
  EXPECT_EQ(hung.kernel, "6.1.0-18-amd64");
  EXPECT_TRUE(hung.lists_blocked_only);
  EXPECT_FALSE(hung.cut);

  Dump old = read(write_stack(task, TextForm::kHungOld));
  EXPECT_EQ(old.tasks.at(0).comm, "db writer");
  EXPECT_EQ(old.tasks[0].blocked_s, 120U);
  EXPECT_EQ(old.kernel, "4.18.0-240.el8.x86_64");

  Dump latency = read(write_stack(task, TextForm::kLatencyStats));
  EXPECT_EQ(latency.tasks.at(0).count, 405U);
  EXPECT_EQ(latency.tasks[0].total_us, 28572881U);
  EXPECT_EQ(latency.tasks[0].max_us, 2619592U);

  EXPECT_EQ(read(write_stack(task, TextForm::kBpftrace)).tasks.at(0).count, 17U);
  EXPECT_EQ(read(write_stack(task, TextForm::kPerf)).tasks.at(0).state, 'D');
}

TEST(Forms, OldestKernels) {
  // 2.6.18: modules before the name, relatives behind, strays without question marks.
  const char* text =
      "jbd2/dm-9-8   D ffff81043e0a1420     0   762    585           763   748 (L-TLB)\n"
      " ffff81041daa7d60 0000000000000046 ffff81041daa7d00 ffffffff8008cf5f\n"
      "Call Trace:\n"
      " [<ffffffff88582f6d>] :jbd2:jbd2_journal_commit_transaction+0x191/0x1068\n"
      " [<ffffffff800a28b4>] autoremove_wake_function+0x0/0x2e\n"
      " [<ffffffff88586f7c>] :jbd2:kjournald2+0x9a/0x1ec\n"
      " [<ffffffff80032974>] kthread+0xfe/0x132\n";
  Dump dump = read(text);
  ASSERT_EQ(dump.tasks.size(), 1U);
  EXPECT_EQ(dump.tasks[0].pid, 762U);
  EXPECT_EQ(dump.tasks[0].comm, "jbd2/dm-9-8");
  EXPECT_EQ(symbols_of(dump.tasks[0]), words("jbd2_journal_commit_transaction kjournald2 kthread"));
}

TEST(Forms, AllFramesUnreliable) {
  const char* text =
      "INFO: task postgres:9 blocked for more than 121 seconds.\n"
      "task:postgres        state:D stack:    0 pid:    9 ppid:     1 flags:0x00000000\n"
      "Call Trace:\n"
      " ? bit_wait+0x60/0x60\n ? schedule+0x3e/0x90\n ? autoremove_wake_function+0x60/0x60\n"
      " ? jbd2_log_wait_commit+0x9e/0x130 [jbd2]\n ? ktime_get+0x3e/0xb0\n"
      " ? ext4_sync_file+0x1f0/0x340 [ext4]\n ? do_fsync+0x38/0x60\n";
  Dump dump = read(text);
  ASSERT_EQ(dump.tasks.size(), 1U);
  Explanation found = explain(dump);
  EXPECT_EQ(class_of(found, 0), "journal.commit");
  EXPECT_EQ(found.readings[0].sure, Sure::kGuess);
}

TEST(Forms, ProcStacksWithAndWithoutHeadings) {
  const std::string commit =
      "[<0>] jbd2_log_wait_commit+0x9e/0x130 [jbd2]\n"
      "[<0>] ext4_sync_file+0x1f0/0x340 [ext4]\n[<0>] do_fsync+0x38/0x60\n";
  const std::string tag = "[<0>] blk_mq_get_tag+0x11e/0x2c0\n[<0>] blk_mq_submit_bio+0x1/0x2\n";
  auto check = [](const std::string& text, unsigned first, unsigned second,
                  const std::string& comm = "", char state = 0) {
    SCOPED_TRACE(text);
    Dump dump = read(text);
    ASSERT_EQ(dump.tasks.size(), 2U);
    EXPECT_EQ(dump.tasks[0].pid, first);
    EXPECT_EQ(dump.tasks[1].pid, second);
    if (!comm.empty()) {
      EXPECT_EQ(dump.tasks[1].comm, comm);
    }
    if (state != 0) {
      EXPECT_EQ(dump.tasks[1].state, state);
    }
    Explanation found = explain(dump);
    EXPECT_EQ(class_of(found, 0), "journal.commit");
    EXPECT_EQ(class_of(found, 1), "block.tag");
  };
  check(commit + "\n" + tag, 0, 0);
  check("== 12 postgres ==\n" + commit + "== 13 fio ==\n" + tag, 12, 13, "fio");
  check("== 12 postgres D ==\n" + commit + "== 13 fio D ==\n" + tag, 12, 13, "fio", 'D');
  check("==> /proc/12/stack <==\n" + commit + "\n==> /proc/13/stack <==\n" + tag, 12, 13);
  check("==> /proc/12/comm <==\npostgres\n\n==> /proc/12/stack <==\n" + commit +
            "\n==> /proc/13/comm <==\nfio\n\n==> /proc/13/stack <==\n" + tag,
        12, 13, "fio");
  check("/proc/12/task/12/stack:\n" + commit + "/proc/12/task/13/stack:\n" + tag, 12, 13);
  check("12: postgres\n" + commit + "13: fio\n" + tag, 12, 13, "fio");
  check("postgres (12)\n" + commit + "fio[13]:\n" + tag, 12, 13, "fio");
  check("PID 12 (postgres)\n" + commit + "PID 13 (fio)\n" + tag, 12, 13, "fio");
  check("postgres\n" + commit + "fio\n" + tag, 0, 0, "fio");
  check("Name:\tpostgres\nUmask:\t0022\nState:\tD (disk sleep)\nTgid:\t12\nPid:\t12\nPPid:\t1\n" +
            commit + "Name:\tfio\nState:\tD (disk sleep)\nTgid:\t12\nPid:\t13\nPPid:\t1\n" + tag,
        12, 13, "fio", 'D');
  // grep's prefixes, with names from another file.
  std::string grep;
  for (const char* line : {"jbd2_log_wait_commit", "ext4_sync_file"}) {
    grep += fmt::format("/proc/12/task/12/stack:[<0>] {}+0x1/0x2\n", line);
  }
  grep +=
      "/proc/12/task/12/stat:12 (postgres) D 1 12 12 0 -1 4194304\n"
      "/proc/12/task/12/statm:1 2 3 4 5 6 7\n"
      "/proc/12/task/12/status:Name:\tpostgres\n";
  grep +=
      "/proc/12/task/13/stack:[<0>] blk_mq_get_tag+0x1/0x2\n"
      "/proc/12/task/13/stack:[<0>] blk_mq_submit_bio+0x1/0x2\n"
      "/proc/12/task/13/stat:13 (fio (x) y) D 1 12 12 0 -1 4194304\n";
  check(grep, 12, 13, "fio (x) y", 'D');
  // Old kernels end with a line of their own.
  check(
      "== 12 a ==\n[<ffffffffa0066871>] jbd2_log_wait_commit+0x9e/0x130 [jbd2]\n"
      "[<ffffffff811e1234>] do_fsync+0x1/0x2\n[<ffffffffffffffff>] 0xffffffffffffffff\n"
      "== 13 b ==\n[<ffffffff81301234>] bt_get+0x1/0x2\n[<ffffffffffffffff>] 0xffffffffffffffff\n",
      12, 13, "b");
}

TEST(Forms, CpuBacktraces) {
  const char* text =
      "[ 50.1] sysrq: Show backtrace of all active CPUs\n"
      "[ 50.1] NMI backtrace for cpu 1\n"
      "[ 50.1] CPU: 1 UID: 0 PID: 88 Comm: kworker/u8:3 Kdump: loaded Not tainted 6.12.9 #2\n"
      "[ 50.1] Workqueue: ext4-rsv-conversion ext4_end_io_rsv_work\n"
      "[ 50.1] RIP: 0010:shrink_lruvec+0x10/0x20\n"
      "[ 50.1] Code: 48 89 e5 41 57\n"
      "[ 50.1] Call Trace:\n"
      "[ 50.1]  <NMI>\n[ 50.1]  ? nmi_cpu_backtrace+0x1/0x2\n[ 50.1]  </NMI>\n"
      "[ 50.1]  <TASK>\n"
      "[ 50.1]  shrink_node+0x1/0x2\n[ 50.1]  try_to_free_pages+0x1/0x2\n"
      "[ 50.1]  insert_revoke_hash+0x1/0x2\n[ 50.1]  ext4_free_blocks+0x1/0x2\n"
      "[ 50.1]  </TASK>\n";
  Dump dump = read(text);
  ASSERT_EQ(dump.tasks.size(), 1U);
  EXPECT_EQ(dump.tasks[0].comm, "kworker/u8:3");
  EXPECT_EQ(dump.tasks[0].pid, 88U);
  EXPECT_TRUE(dump.tasks[0].on_cpu);
  EXPECT_EQ(dump.kernel, "6.12.9");
  EXPECT_EQ(symbols_of(dump.tasks[0]), words("shrink_lruvec shrink_node try_to_free_pages "
                                             "insert_revoke_hash ext4_free_blocks"));
  Explanation found = explain(dump);
  EXPECT_EQ(class_of(found, 0), "memory.reclaim");
  EXPECT_EQ(found.readings[0].handle, Handle::kOpen);
}

TEST(Forms, PrefixesChangeNothing) {
  Written task{.comm = "mysqld",
               .pid = 31,
               .frames = words("__schedule schedule io_schedule "
                               "blk_mq_get_tag blk_mq_submit_bio")};
  auto lines = log_lines(task, true, false);
  for (const char* prefix : {"",
                             "> ",
                             ">> ",
                             "> > ",
                             ">",
                             "[  123.456789] ",
                             "[  123.456789][ T1234] ",
                             "[  123.456789] [   C0] ",
                             "<6>[  123.456789] ",
                             "[Mon Mar  4 12:00:00 2024] ",
                             "Mar  4 12:00:00 host kernel: ",
                             "Mar 14 12:00:00 host kernel: [12345.678901] ",
                             "2024-03-04T12:00:00.123456+00:00 host kernel: ",
                             "2024-03-04T12:00:00,123456+00:00 ",
                             "2024-03-04 12:00:00 host kernel: ",
                             "Mar 04 12:00:00.123456 host kernel: ",
                             "> Mar  4 12:00:00 host kernel: [12345.678901] ",
                             "kern  :err   : [  123.456789] ",
                             "3,1234,123456789,-;",
                             "\t",
                             "    "}) {
    for (const char* end : {"\n", "\r\n", "   \n"}) {
      SCOPED_TRACE(prefix);
      Dump dump = read(join(lines, prefix, end));
      ASSERT_EQ(dump.tasks.size(), 1U);
      EXPECT_EQ(dump.tasks[0].comm, "mysqld");
      EXPECT_EQ(dump.tasks[0].pid, 31U);
      EXPECT_EQ(dump.tasks[0].blocked_s, 181U);
      EXPECT_EQ(symbols_of(dump.tasks[0]), task.frames);
    }
  }
}

TEST(Forms, LinesOfOthersBetween) {
  Written task{.comm = "mysqld",
               .pid = 31,
               .frames = words("__schedule schedule io_schedule "
                               "blk_mq_get_tag blk_mq_submit_bio")};
  std::string text;
  for (const std::string& line : log_lines(task, true, false)) {
    text += "Mar  4 12:00:00 host kernel: " + line + "\n";
    text += "Mar  4 12:00:00 host systemd[1]: schedule\n";
    text += "Mar  4 12:00:00 host app[7]: [<0>] wait_transaction_locked+0x1/0x2\n";
    text += "Mar  4 12:00:00 host kernel: eth0: link is up at 1000 Mbps\n\n";
  }
  Dump dump = read(text);
  ASSERT_EQ(dump.tasks.size(), 1U);
  EXPECT_EQ(symbols_of(dump.tasks[0]), task.frames);
}

TEST(Forms, NoStackIsNoTask) {
  for (const char* text :
       {"", "\n", "hello", "schedule", "a\nb\nc\nd\n", "The quick brown fox\njumps over\n",
        "main\nread\nwrite\n", "{\"a\": [\"b\", \"c\"]}", "x < y", "1 2 3", "@[]: 1", "{ }",
        "CPU: 1 PID: 2 Comm: x", "INFO: task x:1 blocked for more than 120 seconds.",
        "Call Trace:", "<TASK>", "2 locks held by a:"}) {
    EXPECT_TRUE(read(text).tasks.empty()) << text;
  }
}

TEST(Forms, SeveralReportsOfOneTask) {
  Written task{.comm = "rm",
               .pid = 5,
               .frames = words("__schedule schedule "
                               "jbd2_log_wait_commit ext4_sync_file")};
  std::string text = write_stack(task, TextForm::kHungNew) + write_stack(task, TextForm::kHungNew);
  Dump dump = read(text);
  ASSERT_EQ(dump.tasks.size(), 1U);
  EXPECT_EQ(dump.tasks[0].times_seen, 2U);
  EXPECT_FALSE(dump.tasks[0].moved);
  task.frames = words("__schedule schedule wait_transaction_locked start_this_handle");
  dump = read(text + write_stack(task, TextForm::kHungNew));
  ASSERT_EQ(dump.tasks.size(), 1U);
  EXPECT_EQ(dump.tasks[0].times_seen, 3U);
  EXPECT_TRUE(dump.tasks[0].moved);
  EXPECT_EQ(class_of(explain(dump), 0), "journal.locked");
}

TEST(Forms, OurOwnNotation) {
  Dump dump =
      read("   100 %  1.65 s  journal.commit  jbd2_log_wait_commit < ext4_sync_file < ...\n");
  ASSERT_EQ(dump.tasks.size(), 1U);
  EXPECT_EQ(class_of(explain(dump), 0), "journal.commit");
}

}  // namespace
}  // namespace stalltrace::dump

#include "userspace/dump/reading.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "userspace/dump/holders.h"
#include "userspace/dump/patterns.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::dump {
namespace {

using kernel::WaitClass;

// Functions in which tasks sleep that have nothing to do or wait for a person, a peer or a timer.
const Patterns kIdleLeaves(
    "ep_poll do_epoll_wait poll_schedule_timeout* do_select do_poll do_sys_poll futex_wait_queue* "
    "futex_do_wait futex_wait __futex_wait hrtimer_nanosleep do_nanosleep common_nsleep "
    "pipe_read anon_pipe_read pipe_wait* unix_stream_* unix_wait_for_peer inet_csk_accept "
    "inet_csk_wait_for_connect do_wait kernel_wait4 kernel_waitid sigsuspend "
    "__do_sys_rt_sigsuspend "
    "do_sigtimedwait n_tty_read wait_woken tty_* worker_thread rescuer_thread kthreadd "
    "kthread_worker_fn kthread smpboot_thread_fn rcu_* kswapd kswapd_try_to_sleep ksm_scan_thread "
    "khugepaged* kcompactd oom_reaper kauditd_thread watchdog irq_thread "
    "skb_wait_for_more_packets __skb_wait_for_more_packets sk_wait_data do_signal_stop "
    "ptrace_stop do_exit fuse_dev_do_read devtmpfsd devtmpfs_work_loop io_wq_worker io_wqe_worker "
    "io_sq_thread msleep msleep_interruptible loop_thread cleaner_kthread transaction_kthread "
    "xfsaild cpu_stopper_thread ksoftirqd __refrigerator do_sys_pause sys_pause "
    "__do_sys_pause kjournald2 kjournald gc_worker scsi_error_handler md_thread psi_rtpoll_worker "
    "dmcrypt_write bdi_writeback_workfn inotify_read eventfd_read signalfd_read timerfd_read "
    "fanotify_read do_msgrcv do_semtimedop __do_semtimedop kmsg_read do_syslog "
    "proc_reg_read devkmsg_read evdev_read vfs_coredump fuse_uring_* ublk_* "
    "migration_cpu_stop cpuhp_* swapgs* schedule_tail vhost_* kvm_vcpu_block io_schedule_prepare");

// The task that makes the dump shows how it does so.
const Patterns kDumpMakers(
    "sysrq_handle_* __handle_sysrq write_sysrq_trigger show_state_filter "
    "nmi_trigger_cpumask_backtrace "
    "nmi_cpu_backtrace arch_trigger_cpumask_backtrace trigger_all_cpu_backtrace "
    "check_hung_uninterruptible_tasks proc_pid_stack stack_trace_save_tsk");

// What stands on a stack from calls that ended long ago, in nearly every stack without reliable
// frames.
const Patterns kLeftovers(
    "autoremove_wake_function wake_bit_function default_wake_function woken_wake_function "
    "prepare_to_wait* finish_wait ktime_get* read_tsc kvm_clock_* pvclock_* native_sched_clock "
    "sched_clock* lock_timer_base* try_to_del_timer_sync del_timer_sync pick_next_task* "
    "__switch_to* delayacct_* update_curr* dequeue_* enqueue_* newidle_balance load_balance "
    "find_busiest_group commit_timeout process_timeout wake_up_* __wake_up* ttwu_* "
    "_raw_spin_* finish_task_switch native_* paravirt_* kmem_cache_free kfree __kmalloc* "
    "ftrace_* lock_acquire lock_release lockdep_* mark_held_locks trace_hardirqs_* "
    "mod_timer __mod_timer queued_* mntput* path_put");

const Patterns kOffCpu(
    "__schedule schedule __cond_resched _cond_resched "
    "preempt_schedule*");

const Patterns kStartsHandle("start_this_handle");

const Patterns kJournalThread("kjournald2 kjournald");

bool is_dead_or_stopped(char state) {
  return state == 'Z' || state == 'X' || state == 'T' || state == 't' || state == 'I' ||
         state == 'P';
}

std::vector<std::string_view> trustworthy(const Task& task, bool& all_unreliable) {
  std::vector<std::string_view> frames;
  for (const Frame& frame : task.frames) {
    if (!frame.unreliable) frames.push_back(frame.symbol);
  }
  all_unreliable = frames.empty() && !task.frames.empty();
  // A single reliable frame among many others is where the unwinder gave up.
  bool too_few = frames.size() < 2 && task.frames.size() >= 5;
  if (all_unreliable || too_few) {
    all_unreliable = true;
    frames.clear();
    for (const Frame& frame : task.frames) {
      if (!kLeftovers.match(frame.symbol)) frames.push_back(frame.symbol);
    }
  }
  return frames;
}

// A task in state R waits for no I/O, whatever its stack shows: it was woken already.
void read_runnable(Reading& reading, const Task& task) {
  if (reading.wait_class == WaitClass::kMemoryReclaim) {
    reading.meaning = "is freeing memory, and runnable";
    return;
  }
  bool off_cpu = kOffCpu.find_in(reading.frames) != std::string_view();
  // /proc/PID/stack leaves the scheduler's functions out.
  bool shows_scheduler = task.form != Form::kProcStack && task.form != Form::kPlain;
  if (task.on_cpu || (shows_scheduler && !off_cpu && !reading.frames.empty())) {
    reading.wait_class = WaitClass::kCpuRun;
    reading.meaning = "was running on a CPU";
    reading.row = "running";
  } else {
    reading.wait_class = WaitClass::kCpuWait;
    reading.meaning = "was runnable: on a CPU or waiting for one";
    reading.row = "preempted";
  }
}

// Before 3.11, as far as the release is known. Its hung-task reports leave schedule() itself out.
bool is_before_3_11(std::string_view kernel) {
  unsigned major = 0, minor = 0;
  if (std::sscanf(std::string(kernel).c_str(), "%u.%u", &major, &minor) != 2) return false;
  return major < 3 || (major == 3 && minor < 11);
}

// Waits that got functions of their own only later (wait_transaction_locked with 3.11): the rows of
// the table are for the names of today.
void read_before_3_11(Reading& reading, const Task& task) {
  if (task.form != Form::kKernelLog) return;
  if (reading.wait_class == WaitClass::kJournalBarrier &&
      !kStartsHandle.find_in(reading.frames).empty()) {
    reading.wait_class = WaitClass::kJournalLocked;
    reading.meaning =
        "waits for a transaction that is locked (or full, or barred: before 3.11 all "
        "have this stack)";
    reading.sure = Sure::kGuess;
  }
  if (reading.wait_class == WaitClass::kCommitLog && reading.sure == Sure::kGuess) {
    reading.wait_class = WaitClass::kCommitHandles;
    reading.meaning = "the commit waits for open handles";
    reading.sure = Sure::kInferred;
  }
}

// A report shows schedule() on top of a task that sleeps. Without it, and without any function that
// only waits, the innermost calls are missing, and these are the ones that would tell.
void read_cut(Reading& reading, const Task& task) {
  bool cut = task.form == Form::kKernelLog && task.state == 'D' && !task.frames.empty() &&
             std::none_of(task.frames.begin(), task.frames.end(), [](const Frame& frame) {
               return kernel::is_generic(frame.symbol) || kOffCpu.match(frame.symbol);
             });
  if (!cut || reading.wait_class != WaitClass::kJournalBarrier) return;
  reading.wait_class = WaitClass::kOther;
  reading.row = "cut";
  reading.meaning =
      "starts a handle; the stack is cut at its top: whether the transaction is "
      "locked or full, the log, or a barrier is not told";
  reading.sure = Sure::kGuess;
}

}  // namespace

std::string_view name_of(Sure sure) {
  return sure == Sure::kInferred ? "inferred" : "guess";
}

bool has_frame(const Reading& reading, std::string_view symbol) {
  return std::find(reading.frames.begin(), reading.frames.end(), symbol) != reading.frames.end();
}

Reading read_stack(const Task& task, std::string_view kernel) {
  Reading reading;
  bool all_unreliable = false;
  reading.frames = trustworthy(task, all_unreliable);
  reading.journal_thread = task.comm.starts_with("jbd2/") || task.comm.starts_with("kjournald") ||
                           !kJournalThread.find_in(reading.frames).empty();
  kernel::WaitMatch match =
      kernel::match_wait(reading.frames, {.journal_thread = reading.journal_thread});
  if (match.row.empty() && task.frames.size() > reading.frames.size() && !all_unreliable) {
    // The '?' frames as a last resort.
    std::vector<std::string_view> all;
    for (const Frame& frame : task.frames) {
      if (!kLeftovers.match(frame.symbol)) all.push_back(frame.symbol);
    }
    match = kernel::match_wait(all, {.journal_thread = reading.journal_thread});
    if (!match.row.empty()) {
      reading.frames = std::move(all);
      all_unreliable = true;
    }
  }
  reading.wait_class = match.wait_class;
  reading.row = match.row;
  reading.meaning = match.meaning;
  reading.sure = match.guess || all_unreliable ? Sure::kGuess : Sure::kInferred;
  if (is_before_3_11(kernel)) {
    read_before_3_11(reading, task);
  } else {
    read_cut(reading, task);
  }
  reading.runnable = task.state == 'R' || match.wait_class == WaitClass::kCpuWait;
  reading.of_the_dump = !kDumpMakers.find_in(reading.frames).empty();
  if (task.state == 'R') read_runnable(reading, task);

  auto leaf = std::find_if(reading.frames.begin(), reading.frames.end(),
                           [](std::string_view frame) { return !kernel::is_generic(frame); });
  bool idle_leaf = leaf != reading.frames.end() && kIdleLeaves.match(*leaf);
  bool nothing_known =
      reading.wait_class == WaitClass::kOther && (reading.row.empty() || reading.row == "idle");
  reading.idle = is_dead_or_stopped(task.state) || reading.wait_class == WaitClass::kUringWait ||
                 (reading.journal_thread && kernel::is_idle_journal_thread(reading.frames)) ||
                 (nothing_known && (task.state == 'S' || idle_leaf));
  if (task.frames.empty() && task.state != 'R') reading.idle = true;
  find_holdings(task, reading);
  return reading;
}

}  // namespace stalltrace::dump

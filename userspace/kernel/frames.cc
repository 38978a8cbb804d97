#include "userspace/kernel/frames.h"

#include <algorithm>
#include <array>

namespace stalltrace::kernel {
namespace {

template <size_t N>
bool matches(std::string_view frame, const std::array<std::string_view, N>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [frame](std::string_view pattern) {
    if (!pattern.ends_with('*')) return frame == pattern;
    return frame.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

constexpr std::array<std::string_view, 51> kGeneric{
    // The tracer itself, and what ftrace or kretprobes leave on a stack.
    "bpf_prog_*", "bpf_trace_run*", "bpf_trampoline_*", "__bpf_prog_*", "__bpf_trace_*",
    "__traceiter_*", "trace_sched_switch", "trace_event_raw_event_*", "perf_trace_*",
    "bpf_get_stack*", "bpf_get_task_stack*", "__bpf_get_*", "kretprobe_trampoline",
    "__kretprobe_trampoline", "arch_rethook_trampoline", "ftrace_trampoline", "__builtin__ftrace",
    // The scheduler. On 6.1 io_schedule_timeout prints as __sched_text_start, its alias.
    "prepare_task_switch", "context_switch", "__switch_to*", "finish_task_switch", "__schedule",
    "__schedule_loop", "schedule", "schedule_preempt_disabled", "schedule_timeout",
    "schedule_timeout_*", "io_schedule", "io_schedule_timeout", "io_schedule_prepare",
    "blk_io_schedule", "__sched_text_start", "schedule_rtlock", "rt_mutex_schedule",
    // Waiting for a bit, in the names of 3.x to 6.18.
    "bit_wait", "bit_wait_io", "bit_wait_timeout", "bit_wait_io_timeout", "__wait_on_bit",
    "__wait_on_bit_lock", "out_of_line_wait_on_bit*", "sync_buffer", "sleep_on_buffer", "sync_page",
    "sleep_on_page", "sleep_on_page_killable", "sleep_on_shadow_bh", "sleep_on_bit*",
    "__sched_text_end", "_stext", "dequeue_task*"};

// Wrappers that stand between two functions worth naming.
constexpr std::array<std::string_view, 62> kPlumbing{
    // Below the file system: how a handle or a buffer is reached.
    "add_transaction_credits", "jbd2__journal_start", "jbd2_journal_start",
    "__ext4_journal_start_sb", "__ext4_journal_get_write_access", "jbd2_journal_get_write_access",
    "__ext4_mark_inode_dirty", "ext4_mark_inode_dirty", "ext4_reserve_inode_write",
    "__mark_inode_dirty", "generic_update_time", "inode_update_time", "update_time",
    "file_modified", "file_modified_flags", "call_rwsem_down_*", "down_read*", "down_write*",
    "mutex_lock*", "__mutex_lock_slowpath", "wait_on_buffer", "do_wait_for_common",
    "wait_for_common*", "__wait_for_common",
    // Block layer on the way to the function that sleeps.
    "__submit_bio*", "submit_bio_noacct*", "generic_make_request*", "__blk_mq_alloc_request*",
    "__rq_qos_throttle",
    // From user space down to the file operation.
    "entry_*", "ret_from_*", "do_syscall_*", "x64_sys_call", "__x64_sys_*", "__ia32_sys_*",
    "__arm64_sys_*", "__se_sys_*", "__do_sys_*", "sys_*", "ksys_*", "system_call_*", "el0*",
    "invoke_syscall*", "vfs_write", "vfs_read", "vfs_fsync*", "vfs_writev", "vfs_readv",
    "vfs_iter_*", "do_iter_*", "do_writev", "do_readv", "do_pwritev", "do_preadv", "new_sync_*",
    "do_sync_*", "aio_write", "aio_read", "io_submit_one", "do_io_submit", "do_fsync", "kthread"};

}  // namespace

bool is_generic(std::string_view frame) {
  return matches(frame, kGeneric);
}

std::vector<std::string_view> meaningful(std::span<const std::string_view> frames, size_t limit) {
  std::vector<std::string_view> kept;
  for (std::string_view frame : frames) {
    if (frame.empty() || is_generic(frame)) continue;
    // The function that sleeps stays whatever it is.
    if (kept.empty() || !matches(frame, kPlumbing)) kept.push_back(frame);
  }
  if (kept.empty() && !frames.empty()) kept.push_back(frames.front());
  if (kept.size() > limit && limit > 0) {
    std::string_view outermost = kept.back();
    kept.resize(limit);
    if (limit > 1) kept.back() = outermost;
  }
  return kept;
}

std::string_view fold_suffix(std::string_view symbol) {
  // A leading '.' is part of the name (PowerPC entry points).
  size_t dot = symbol.find('.', 1);
  return dot == std::string_view::npos ? symbol : symbol.substr(0, dot);
}

}  // namespace stalltrace::kernel

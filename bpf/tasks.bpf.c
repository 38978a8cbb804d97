/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The edges of the window: tasks that are under way when it opens, and when it closes. Each is an
 * iterator that user space reads once. */
#include "bpf/state.bpf.h"
#include "bpf/calls.bpf.h"
#include "bpf/dirtied.bpf.h"
#include "bpf/journal.bpf.h"
#include "bpf/quota.bpf.h"
#include "bpf/waits.bpf.h"

static __always_inline void mark_asleep(struct task_state *state, u32 sleep_state)
{
	struct wire_wait *wait = &state->slot[0];

	wait->out_ns = bpf_ktime_get_ns();
	wait->waking_ns = 0;
	wait->waker.tid = 0;
	wait->frames = 0;
	wait->flags = WAIT_CUT_START;
	wait->state = sleep_state;
	state->asleep = 1;
}

/* A commit's thread, woken or asleep: its sleeps are the commit's. */
static __always_inline void adopt_journal_thread(struct task_struct *task, struct task_state *state)
{
	u32 tid = task->pid;
	u64 *journal = bpf_map_lookup_elem(&journal_threads, &tid);
	struct wire_commit *commit;

	if (!journal)
		return;
	state->journal_thread = 1;
	commit = bpf_map_lookup_elem(&commits, journal);
	if (!commit)
		return;
	state->journal = *journal;
	set_device(state, commit->dev);
}

/* A handle that was open when the window opened: journal_info is other file systems', too, so that
 * all it leads to must fit. */
static __always_inline void adopt_handle(struct task_struct *task)
{
	struct jbd2_journal_handle *handle = task->journal_info;
	struct transaction_s *transaction;
	struct journal_s *journal;
	struct task_state *state;
	u32 dev;

	if (!handle)
		return;
	transaction = BPF_CORE_READ(handle, h_transaction);
	journal = BPF_CORE_READ(transaction, t_journal);
	if (!transaction || !journal ||
	    (BPF_CORE_READ(journal, j_running_transaction) != transaction &&
	     BPF_CORE_READ(journal, j_committing_transaction) != transaction))
		return;
	dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
	if (!traced_slot(dev))
		return;
	state = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state || state->handle_start_ns)
		return;
	state->handle_journal = (u64)journal;
	state->handle_start_ns = window_open_ns;
	state->handle_dev = dev;
	state->handle_tid = BPF_CORE_READ(transaction, t_tid);
	state->handle_type = BPF_CORE_READ_BITFIELD_PROBED(handle, h_type);
	state->handle_line = BPF_CORE_READ_BITFIELD_PROBED(handle, h_line_no);
}

/* When the window opens: whoever sleeps in a call of interest, or uninterruptibly in the kernel's
 * own threads, is known from now on; those threads themselves are, too. Runs just after the window
 * has opened: a task that wakes while we look at it is put right by its next switch. */
SEC("iter/task")
int adopt(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_state *state;
	struct pt_regs *regs;
	u32 sleep_state, call;
	u64 id;

	if (!task || (u32)task->tgid == config.own_tgid || task->exit_state)
		return 0;
	sleep_state = task->__state;
	adopt_handle(task);
	/* The kernel's own threads and io_uring's enter no syscall; what they wait for is told by
	 * their stacks. Any of them may come to work for a file system, before it sends any I/O. */
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER)) {
		state = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!state || !sleep_state)
			return 0;
		adopt_journal_thread(task, state);
		if (is_uninterruptible(sleep_state))
			mark_asleep(state, sleep_state);
		else if ((task->flags & PF_WQ_WORKER) && !state->idle_since)
			state->idle_since = bpf_ktime_get_ns();
		return 0;
	}
	if (!sleep_state)
		return 0;
	/* It sleeps, so it is in the kernel, and its registers are those it came with. */
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	id = BPF_CORE_READ(regs, orig_ax);
	if (id >= WIRE_SYSCALLS)
		return 0;
	call = config.rules[id & (WIRE_SYSCALLS - 1)].call;
	/* io_uring_enter most likely waits for completions, which is no stall. */
	if (!call || call == CALL_IO_URING_ENTER)
		return 0;
	if (config.rules[id & (WIRE_SYSCALLS - 1)].target == TARGET_FD &&
	    !is_traced_file(file_of(task, BPF_CORE_READ(regs, di))))
		return 0;
	state = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state) {
		count_loss(LOSS_TASK_STORAGE);
		return 0;
	}
	if (state->call) /* begun since the window opened */
		return 0;
	begin_call(state, call, id);
	state->call_flags = CALL_CUT_START;
	if (config.rules[id & (WIRE_SYSCALLS - 1)].target == TARGET_FD)
		set_file(state, file_of(task, BPF_CORE_READ(regs, di)));
	mark_asleep(state, sleep_state);
	return 0;
}

/* When the window closes: sleeps and calls that still go on, handles still open. The hooks have
 * stopped touching the state by then. */
SEC("iter/task")
int drain(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_state *state;
	u64 now = bpf_ktime_get_ns();

	if (!task)
		return 0;
	state = state_of(task);
	if (!state)
		return 0;
	if (state->handle_start_ns) {
		struct wire_handle handle;

		open_handle(&handle, state, task, now);
		emit(&handle, sizeof(handle), LOSS_RING_OTHER);
	}
	send_dirtied(state);
	if (state->asleep) {
		u32 cur = state->slots & (TASK_SLOTS - 1);
		struct wire_wait *wait = &state->slot[cur];

		end_sleep_here(state, wait, task, now);
		emit_wait(wait);
	}
	if (in_its_call(task, state) && (state->dev_slot || state->call == CALL_SYNC || state->call_flags & CALL_KNOB) &&
	    (now - state->call_start_ns >= config.threshold_ns || state->wanted)) {
		send_gathered(state);
		state->call_flags |= CALL_UNFINISHED;
		if (now - state->call_start_ns < config.threshold_ns)
			state->call_flags |= CALL_WANTED;
		emit_call(state, task, now, 0);
	}
	bpf_task_storage_delete(&tasks, task);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every sleep of every task of interest: when it went off the CPU, who woke it and when, when it
 * ran again, and where in the kernel it had slept. */
#include "bpf/state.bpf.h"
#include "bpf/interrupts.bpf.h"
#include "bpf/quota.bpf.h"
#include "bpf/sync.bpf.h"
#include "bpf/waits.bpf.h"

/* When the task that each CPU runs now was switched to. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} slices SEC(".maps");

#define SLICE_FLOOR_NS 1000000

/* The task that runs just before ours gets its CPU is often a passer-by: who had the CPU for long
 * while ours waited is told by its slice. */
static __always_inline void end_slice(struct task_struct *prev, u64 now)
{
	struct wire_slice slice = {};
	u32 zero = 0;
	u64 *since = bpf_map_lookup_elem(&slices, &zero);
	u64 start;

	if (!since)
		return;
	start = *since;
	*since = now;
	if (!start || now - start < SLICE_FLOOR_NS || !prev->pid)
		return;
	slice.header.kind = WIRE_SLICE;
	slice.header.size = sizeof(slice);
	name_task(&slice.task, prev);
	slice.start_ns = start;
	slice.end_ns = now;
	slice.cpu = bpf_get_smp_processor_id();
	emit(&slice, sizeof(slice), LOSS_RING_OTHER);
}

/* The waker may pass unseen, and the stack with it: so many a second are taken when the task goes to
 * sleep, which costs a CPU 0.2 % at most; sleeps that come faster are short, and matter less. */
#define EARLY_STACKS_A_SECOND 1000

struct early_stacks {
	u64 second;
	u64 count;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct early_stacks);
} early_stacks SEC(".maps");

static __always_inline bool early_stack_is_cheap(u64 now)
{
	u32 zero = 0;
	struct early_stacks *taken = bpf_map_lookup_elem(&early_stacks, &zero);

	if (!taken)
		return false;
	if (taken->second != now >> 30) { /* of 1.07 s */
		taken->second = now >> 30;
		taken->count = 0;
	}
	return taken->count++ < EARLY_STACKS_A_SECOND;
}

static __always_inline void fall_asleep(struct task_state *state, struct task_struct *task,
					bool preempted, u32 task_sleep_state, u64 now)
{
	struct wire_wait *wait = &state->slot[state->slots & (TASK_SLOTS - 1)];

	wait->out_ns = now;
	wait->waking_ns = 0;
	wait->frames = 0;
	wait->state = task_sleep_state;
	wait->waker.tid = 0;
	wait->waker_context = WAKER_UNKNOWN;
	wait->flags = preempted ? WAIT_PREEMPTED : 0;
	wait->journal_tid = 0;
	wait->journal_state = 0;
	wait->target_tid = 0;
	state->asleep = 1;
	state->ran_at_out_ns = task->se.sum_exec_runtime;
	state->delay_at_out_ns = run_delay_ns(task);
	if (preempted) {
		state->stopped_at_waking_ns = stopped_by_quota_ns(task);
		return;
	}
	if (state->lock_addr && state->lock_sleeps++)
		wait->flags |= WAIT_LOCK_AGAIN;
	if (some_pass_unseen || early_stack_is_cheap(now))
		take_stack(wait, task);
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		wait->flags |= WAIT_IOWAIT;
	if (state->starting_journal) {
		struct journal_s *journal = (void *)state->starting_journal;
		struct transaction_s *running = BPF_CORE_READ(journal, j_running_transaction);

		wait->flags |= WAIT_STARTING_HANDLE;
		wait->journal_blocks = BPF_CORE_READ(journal, j_total_len);
		wait->journal_free = BPF_CORE_READ(journal, j_free);
		if (running) {
			wait->journal_tid = BPF_CORE_READ(running, t_tid);
			wait->journal_state = BPF_CORE_READ(running, t_state);
		}
	}
	if (state->sync_inode)
		wait->target_tid = ext4_wanted_transaction(state->sync_inode, state->call);
}

/* sched_info.last_queued is of the scheduler's clock: its offset from ours is taken from wake-ups
 * that were seen. */
static u64 queued_offset;

static __always_inline u64 last_queued_ns(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.last_queued) ? task->sched_info.last_queued : 0;
}

/* When a task whose wake-up was not seen was put on a runqueue. */
static __always_inline u64 queued_at(struct task_struct *task, u64 now)
{
	u64 queued = last_queued_ns(task);

	some_pass_unseen = 1;
	if (!queued || !queued_offset)
		return now;
	queued -= queued_offset;
	return queued < now ? queued : now;
}

static __always_inline void wake_up(struct task_state *state, struct task_struct *prev,
				    struct task_struct *task, u64 now)
{
	struct wire_wait *wait = &state->slot[state->slots & (TASK_SLOTS - 1)];
	u64 took = now - wait->out_ns;
	u64 waking;
	bool seen;

	state->asleep = 0;
	waking = wait->waking_ns;
	seen = waking || (wait->flags & WAIT_PREEMPTED);
	/* The waker may come before we see the switch (it runs on another CPU). */
	if (wait->flags & WAIT_PREEMPTED)
		waking = wait->out_ns;
	else if (!waking)
		waking = queued_at(task, now);
	else if (waking > now)
		waking = now;
	else
		queued_offset = last_queued_ns(task) - waking;
	if (waking < wait->out_ns)
		waking = wait->out_ns;
	if (took < sleep_floor_ns(state)) {
		if (state->call) {
			state->short_waits++;
			state->short_blocked_ns += waking - wait->out_ns;
			state->short_runnable_ns += now - waking;
		}
		return;
	}
	wait->waking_ns = waking;
	wait->in_ns = now;
	wait->cpu = bpf_get_smp_processor_id();
	if (seen && now - waking >= QUOTA_FLOOR_NS &&
	    stopped_by_quota_ns(task) - state->stopped_at_waking_ns > (now - waking) / 2)
		wait->flags |= WAIT_QUOTA;
	name_task(&wait->ran_before, prev);
	if (!wait->frames && !(wait->flags & WAIT_PREEMPTED))
		take_stack(wait, task);
	finish_wait(state, wait, task);
	keep_or_send(state, wait, now);
}

static __always_inline bool is_of_interest(struct task_state *state, struct task_struct *task,
					   bool preempted, u32 sleep_state)
{
	if (state->call || state->handle_start_ns || state->journal)
		return true;
	if (preempted)
		return task->flags & PF_WQ_WORKER;
	if (is_uninterruptible(sleep_state))
		return true;
	/* A file system's thread pauses interruptibly, too: XFS's xfsaild between its rounds. An
	 * idle journal thread's sleeps say nothing. */
	return state->sends_io && !state->journal_thread && !(sleep_state & TASK_NOLOAD);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct task_state *state;
	u64 now;

	if (!window_open)
		return 0;
	now = bpf_ktime_get_ns();
	leave_interrupts(); /* what switches tasks is none; some ends pass unseen */
	end_slice(prev, now);
	state = state_of(prev);
	if (state) {
		close_lost_sleep(state, prev);
		u32 sleep_state = prev->__state;
		bool preempted = preempt || !sleep_state;

		if (is_of_interest(state, prev, preempted, sleep_state)) {
			fall_asleep(state, prev, preempted, sleep_state, now);
		} else {
			state->asleep = 0;
			if ((prev->flags & PF_WQ_WORKER) && (sleep_state & TASK_NOLOAD))
				state->idle_since = now;
		}
	}
	state = state_of(next);
	if (state && state->asleep)
		wake_up(state, prev, next, now);
	return 0;
}

/* Runs in the waker's context, under the woken task's pi_lock. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct task_state *state;
	struct wire_wait *wait;
	u64 now;

	if (!window_open)
		return 0;
	state = state_of(task);
	if (!state)
		return 0;
	if (!state->asleep) {
		/* An idle jbd2 thread sleeps interruptibly, which is not recorded; who wakes it
		 * asks for a commit. */
		if (state->journal_thread && !state->journal && !state->requested_ns) {
			state->requested_ns = bpf_ktime_get_ns();
			name_current(&state->requester);
			if (waker_context() != WAKER_TASK)
				state->requester.tid = 0; /* the commit timer */
			else
				state->requested_outside_sync = !is_syncing(current_state());
		}
		/* A worker that had nothing to do has now, and waits for a CPU to do it. */
		if (task->flags & PF_WQ_WORKER) {
			now = bpf_ktime_get_ns();
			stop_idling(state, task, now);
			fall_asleep(state, task, true, 0, now);
		}
		return 0;
	}
	wait = &state->slot[state->slots & (TASK_SLOTS - 1)];
	if (wait->waking_ns || wait->flags & WAIT_PREEMPTED)
		return 0;
	now = bpf_ktime_get_ns();
	wait->waking_ns = now;
	state->stopped_at_waking_ns = stopped_by_quota_ns(task);
	name_current(&wait->waker);
	wait->waker_context = waker_context();
	if (wait->waker_context == WAKER_TASK && state->sync_start_ns) {
		struct task_state *waker = current_state();

		if (waker && waker->journal_thread)
			commit_woke_sync(state, wait->target_tid);
	} else if (wait->waker_context == WAKER_HARDIRQ && state->sync_start_ns) {
		batch_sleep_ended(state, now - wait->out_ns);
	}
	note_completed_request(wait, now);
	if (!wait->frames && now - wait->out_ns >= sleep_floor_ns(state))
		take_stack(wait, task);
	if (now - wait->out_ns >= config.wait_floor_ns) {
		struct task_state *releaser = current_state();

		if (releaser && state->lock_addr)
			releaser->wanted = 1;
		if (releaser && now - wait->out_ns >= config.threshold_ns / 10 &&
		    wait->waker_context == WAKER_TASK)
			send_idling(releaser);
	}
	return 0;
}

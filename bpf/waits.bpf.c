/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every sleep of every task of interest: when it went off the CPU, who woke it and when, when it
 * ran again, and where in the kernel it had slept. */
#include "bpf/state.bpf.h"
#include "bpf/interrupts.bpf.h"
#include "bpf/waits.bpf.h"

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
	if (preempted)
		return;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		wait->flags |= WAIT_IOWAIT;
	if (state->starting_journal) {
		struct journal_s *journal = (void *)state->starting_journal;
		struct transaction_s *running = BPF_CORE_READ(journal, j_running_transaction);

		wait->flags |= WAIT_STARTING_HANDLE;
		if (running) {
			wait->journal_tid = BPF_CORE_READ(running, t_tid);
			wait->journal_state = BPF_CORE_READ(running, t_state);
		}
	}
	if (state->sync_inode)
		wait->target_tid = ext4_wanted_transaction(state->sync_inode, state->call);
}

static __always_inline void wake_up(struct task_state *state, struct task_struct *prev,
				    struct task_struct *task, u64 now)
{
	struct wire_wait *wait = &state->slot[state->slots & (TASK_SLOTS - 1)];
	u64 took = now - wait->out_ns;
	u64 waking;

	state->asleep = 0;
	waking = wait->waking_ns;
	/* The waker may come before we see the switch (it runs on another CPU). */
	if (wait->flags & WAIT_PREEMPTED)
		waking = wait->out_ns;
	else if (!waking || waking > now)
		waking = now;
	else if (waking < wait->out_ns)
		waking = wait->out_ns;
	if (took < sleep_floor_ns(state, now)) {
		if (state->call) {
			state->short_waits++;
			state->short_blocked_ns += waking - wait->out_ns;
			state->short_runnable_ns += now - waking;
		}
		return;
	}
	wait->waking_ns = waking;
	wait->in_ns = now;
	name_task(&wait->ran_before, prev);
	if (!wait->frames)
		take_stack(wait, task);
	finish_wait(state, wait, task);
	keep_or_send(state, wait, now);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct task_state *state;
	u64 now;

	if (!window_open)
		return 0;
	now = bpf_ktime_get_ns();
	state = state_of(prev);
	if (state) {
		close_lost_sleep(state, prev);
		u32 sleep_state = prev->__state;
		bool preempted = preempt || !sleep_state;

		if (state->call || state->handle_start_ns ||
		    (!preempted && is_uninterruptible(sleep_state)))
			fall_asleep(state, prev, preempted, sleep_state, now);
		else
			state->asleep = 0;
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
		}
		return 0;
	}
	wait = &state->slot[state->slots & (TASK_SLOTS - 1)];
	if (wait->waking_ns || wait->flags & WAIT_PREEMPTED)
		return 0;
	now = bpf_ktime_get_ns();
	wait->waking_ns = now;
	name_current(&wait->waker);
	wait->waker_context = waker_context();
	note_completed_request(wait, now);
	if (now - wait->out_ns >= sleep_floor_ns(state, now))
		take_stack(wait, task);
	if (state->lock_addr && now - wait->out_ns >= config.wait_floor_ns) {
		struct task_state *releaser = current_state();

		if (releaser)
			releaser->wanted = 1;
	}
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a finished (or cut off) sleep carries, for the scheduler hooks and the task iterators. */
#ifndef STALLTRACE_WAITS_BPF_H
#define STALLTRACE_WAITS_BPF_H

#include "bpf/state.bpf.h"
#include "bpf/ext4.bpf.h"

#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_NOLOAD 0x400 /* idle workers sleep so */

static __always_inline bool is_uninterruptible(u32 sleep_state)
{
	return (sleep_state & TASK_UNINTERRUPTIBLE) && !(sleep_state & TASK_NOLOAD);
}

/* A task woken right after this CPU completed a request was waiting for it: the interrupted
 * task, or a block server's, has nothing to do with it. */
#define COMPLETION_WAKES_WITHIN_NS 100000

static __always_inline void note_completed_request(struct wire_wait *wait, u64 now)
{
	u32 zero = 0;
	struct last_complete *last = bpf_map_lookup_elem(&last_completes, &zero);

	if (!last || now - last->at_ns > COMPLETION_WAKES_WITHIN_NS)
		return;
	if (last->tid != (u32)bpf_get_current_pid_tgid())
		return;
	wait->waker_request = last->times;
	wait->flags |= WAIT_WAKER_REQUEST;
}

/* Read from the sleeper, when it is woken or at the latest when it is switched to: it does not run
 * yet. No stack is taken when a task goes to sleep, so sleeps too short to matter cost none. */
static __always_inline void take_stack(struct wire_wait *wait, struct task_struct *task)
{
	long bytes = bpf_get_task_stack(task, wait->stack, sizeof(wait->stack), 0);

	wait->frames = bytes > 0 ? (u64)bytes / sizeof(u64) : 0;
}

/* Shorter sleeps are only counted. Most calls are fast: what cannot matter in a stall is passed
 * over. */
static __always_inline u64 sleep_floor_ns(struct task_state *state, u64 now)
{
	if (state->call)
		return now - state->call_start_ns < config.threshold_ns / 10
			       ? config.wait_floor_ns
			       : config.actor_floor_ns;
	if (state->handle_start_ns || state->journal_thread)
		return config.actor_floor_ns;
	return config.threshold_ns / 10;
}

/* Everything that is known of the sleep but its times and its stack. */
static __always_inline void finish_wait(struct task_state *state, struct wire_wait *wait,
					struct task_struct *task)
{
	if (!wait->frames && !(wait->flags & WAIT_PREEMPTED))
		count_loss(LOSS_STACK);
	name_task(&wait->task, task);
	wait->dev = state->dev;
	wait->ino = state->ino;
	wait->call_start_ns = 0;
	if (state->call) {
		wait->flags |= WAIT_IN_CALL;
		wait->call_start_ns = state->call_start_ns;
	}
	if (state->journal_thread) {
		wait->flags |= WAIT_JOURNAL_THREAD;
		wait->dev = state->dev;
	}
	wait->handle_tid = 0;
	if (state->handle_start_ns) {
		wait->flags |= WAIT_HANDLE_OPEN;
		wait->handle_tid = state->handle_tid;
	}
	wait->lock_addr = 0;
	if (state->lock_addr && !(wait->flags & WAIT_PREEMPTED)) {
		wait->flags |= WAIT_LOCK;
		wait->lock_addr = state->lock_addr;
		wait->lock_flags = state->lock_flags;
		wait->lock_dev = state->lock_dev;
		wait->lock_ino = state->lock_ino;
		wait->lock_owner = state->lock_owner;
		wait->lock_owner_is_reader = state->lock_owner_is_reader;
	}
}

/* Tail first: a call's waits are kept until it proves slow; a journal thread's, a worker's or a
 * wanted holder's go out at once. */
static __always_inline void keep_or_send(struct task_state *state, struct wire_wait *wait, u64 now)
{
	bool keep = state->call && !state->wanted && now - state->call_start_ns < config.threshold_ns;

	if (keep && state->slots < TASK_SLOTS - 1) {
		state->slots++;
		return;
	}
	send_gathered(state);
	emit_wait(wait);
}

/* The task runs, and we have not seen it switched to: on some machines switches away from certain
 * tasks fire no tracepoint (seen on 6.18 in a guest: 14 in 2,538, for ftrace as well). Its sleep
 * ended when it was woken; when it got a CPU is not known. To be called in its own context. */
static __always_inline void close_lost_sleep(struct task_state *state, struct task_struct *task)
{
	struct wire_wait *wait;
	u64 now;

	if (!state->asleep)
		return;
	state->asleep = 0;
	wait = &state->slot[state->slots & (TASK_SLOTS - 1)];
	if (!wait->frames) /* preempted, or too short to matter */
		return;
	now = bpf_ktime_get_ns();
	wait->in_ns = wait->waking_ns;
	wait->ran_before.tid = 0;
	finish_wait(state, wait, task);
	keep_or_send(state, wait, now);
}

#endif

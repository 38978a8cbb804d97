/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a finished (or cut off) sleep carries, for the scheduler hooks and the task iterators. */
#ifndef STALLTRACE_WAITS_BPF_H
#define STALLTRACE_WAITS_BPF_H

#include "bpf/state.bpf.h"
#include "bpf/ext4.bpf.h"
#include "bpf/interrupts.bpf.h"
#include "bpf/quota.bpf.h"

#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_NOLOAD 0x400 /* idle workers sleep so */

static __always_inline bool is_uninterruptible(u32 sleep_state)
{
	return (sleep_state & TASK_UNINTERRUPTIBLE) && !(sleep_state & TASK_NOLOAD);
}

/* A task woken right after this CPU completed a request was waiting for it: the interrupted
 * task, or a block server's, has nothing to do with it. A softirq ends the bios of a large request,
 * and their pages, one by one: who is woken in it waited for that request, however long it takes. */
#define COMPLETION_WAKES_WITHIN_NS 100000

static __always_inline void note_completed_request(struct wire_wait *wait, u64 now)
{
	u32 zero = 0;
	struct last_complete *last = bpf_map_lookup_elem(&last_completes, &zero);

	u64 softirq = current_softirq();

	if (!last)
		return;
	if (now - last->at_ns > COMPLETION_WAKES_WITHIN_NS && (!softirq || softirq != last->softirq))
		return;
	if (last->tid != (u32)bpf_get_current_pid_tgid())
		return;
	wait->waker_request = last->times;
	wait->flags |= WAIT_WAKER_REQUEST;
}

/* What the current worker does for others began with its last idle time: sent once, when it first
 * ends a long sleep, sends I/O or gives work to another worker. */
static __always_inline void send_idling(struct task_state *worker)
{
	if (!worker->idle_unsent)
		return;
	worker->idle_unsent = 0;
	emit_wait(&worker->slot[IDLE_SLOT]);
}

/* A workqueue's worker was given something to do. Held back until it proves to matter. */
static __always_inline void stop_idling(struct task_state *state, struct task_struct *task, u64 now)
{
	struct wire_wait *wait = &state->slot[IDLE_SLOT];
	struct task_state *giver;

	if (!state->idle_since || state->call)
		return;
	wait->out_ns = state->idle_since;
	wait->waking_ns = now;
	wait->in_ns = now; /* its waiting for a CPU is a wait of its own */
	state->idle_since = 0;
	state->idle_unsent = 1;
	wait->flags = WAIT_IDLE;
	wait->state = task->__state;
	name_task(&wait->task, task);
	name_current(&wait->waker);
	wait->waker_context = waker_context();
	if (wait->waker_context == WAKER_TASK) {
		giver = current_state();
		if (giver)
			send_idling(giver);
	}
	note_completed_request(wait, now);
	wait->call_start_ns = 0;
	wait->dev = 0;
	wait->ino = 0;
	wait->handle_tid = 0;
	wait->target_tid = 0;
	wait->journal_tid = 0;
	wait->journal_state = 0;
	wait->lock_addr = 0;
	wait->ran_before.tid = 0;
	wait->frames = 0;
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
static __always_inline u64 sleep_floor_ns(struct task_state *state)
{
	if (state->call || state->handle_start_ns || state->journal_thread)
		return config.wait_floor_ns;
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
		if (state->syncing_dev)
			wait->dev = state->syncing_dev;
		wait->flags |= WAIT_IN_CALL;
		wait->call_start_ns = state->call_start_ns;
	}
	if (state->journal_thread)
		wait->flags |= WAIT_JOURNAL_THREAD;
	wait->handle_tid = 0;
	if (state->handle_start_ns) {
		wait->flags |= WAIT_HANDLE_OPEN;
		wait->handle_tid = state->handle_tid;
		if (!wait->dev)
			wait->dev = state->handle_dev;
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

/* A sleep under way, as far as it goes; not in the task's own context. */
static __always_inline void end_sleep_here(struct task_state *state, struct wire_wait *wait,
					   struct task_struct *task, u64 now)
{
	wait->in_ns = now;
	if ((wait->waking_ns || wait->flags & WAIT_PREEMPTED) && is_stopped_by_quota(task))
		wait->flags |= WAIT_QUOTA;
	if (!wait->waking_ns)
		wait->waking_ns = now;
	wait->flags |= WAIT_STILL_ASLEEP;
	wait->ran_before.tid = 0;
	if (!wait->frames)
		take_stack(wait, task);
	finish_wait(state, wait, task);
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

/* How long the task has waited for a CPU in all, up to the last time it got one. */
static __always_inline u64 run_delay_ns(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/* Switches and wake-ups that fire no hook: on some machines those away from certain tasks, and all
 * that happens in interrupts upon them (seen on 6.18 in a guest: 14 switches in 2,538, for ftrace
 * as well). From the first one seen on, stacks are taken when a task goes to sleep: nobody else may
 * be there to take them. */
extern int some_pass_unseen;

/* The task runs, and we have not seen it switched to. For how long it was off the CPU, and how long
 * of that it waited for one, the scheduler's own account tells. To be called in its own context. */
static __always_inline void close_lost_sleep(struct task_state *state, struct task_struct *task)
{
	struct wire_wait *wait;
	u64 now, gone, ran, delay;

	if (!state->asleep)
		return;
	state->asleep = 0;
	some_pass_unseen = 1;
	wait = &state->slot[state->slots & (TASK_SLOTS - 1)];
	now = bpf_ktime_get_ns();
	ran = task->se.sum_exec_runtime - state->ran_at_out_ns;
	gone = now - wait->out_ns;
	gone = gone > ran ? gone - ran : 0;
	if (gone < sleep_floor_ns(state))
		return;
	wait->in_ns = wait->out_ns + gone;
	if (wait->flags & WAIT_PREEMPTED) {
		wait->waking_ns = wait->out_ns;
	} else {
		delay = run_delay_ns(task) - state->delay_at_out_ns;
		if (!wait->waking_ns)
			wait->waking_ns = wait->in_ns - (delay < gone ? delay : gone);
		if (wait->in_ns < wait->waking_ns)
			wait->in_ns = wait->waking_ns;
	}
	wait->ran_before.tid = 0;
	wait->cpu = bpf_get_smp_processor_id();
	finish_wait(state, wait, task);
	keep_or_send(state, wait, now);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* While the window is open: the calls, sleeps and handles that stand just now. The events go to
 * whoever reads the iterator, not into the ring, and nothing of the tasks' state is touched: what
 * they become will be sent as if nobody had looked. */
#include "bpf/state.bpf.h"
#include "bpf/calls.bpf.h"
#include "bpf/journal.bpf.h"
#include "bpf/quota.bpf.h"
#include "bpf/waits.bpf.h"

/* A copy, as the task may go on while we look. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct task_state);
} peeked SEC(".maps");

static __always_inline void write_wait(struct seq_file *seq, struct wire_wait *wait)
{
	u32 size = wait_size(wait);

	if (size)
		bpf_seq_write(seq, wait, size);
}

static __always_inline void peek_handle(struct seq_file *seq, struct task_state *state,
					struct task_struct *task, u64 now)
{
	struct wire_handle handle;

	open_handle(&handle, state, task, now);
	bpf_seq_write(seq, &handle, sizeof(handle));
}

static __always_inline void peek_sleep(struct seq_file *seq, struct task_state *state,
				       struct task_struct *task, u64 now)
{
	struct wire_wait *wait = &state->slot[state->slots & (TASK_SLOTS - 1)];

	if (wait->out_ns > now || now - wait->out_ns < sleep_floor_ns(state))
		return;
	end_sleep_here(state, wait, task, now);
	write_wait(seq, wait);
}

static __always_inline void peek_call(struct seq_file *seq, struct task_state *state,
				      struct task_struct *task, u64 now)
{
	struct wire_call *event;

	if (!in_its_call(task, state) || !(state->dev_slot || state->call == CALL_SYNC) ||
	    state->call_flags & CALL_KNOB || state->call_start_ns > now)
		return;
	if (now - state->call_start_ns < config.threshold_ns && !state->wanted)
		return;
	for (u32 i = 0; i < TASK_SLOTS - 1; ++i) {
		if (i >= state->slots)
			break;
		write_wait(seq, &state->slot[i]);
	}
	state->call_flags |= CALL_UNFINISHED;
	if (now - state->call_start_ns < config.threshold_ns)
		state->call_flags |= CALL_WANTED;
	event = fill_call(state, task, now, 0);
	if (event)
		bpf_seq_write(seq, event, sizeof(*event));
}

SEC("iter/task")
int peek(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct seq_file *seq = ctx->meta->seq;
	struct task_state *state, *copy;
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0;

	if (!task)
		return 0;
	state = state_of(task);
	if (!state || !(state->asleep || state->call || state->handle_start_ns))
		return 0;
	copy = bpf_map_lookup_elem(&peeked, &zero);
	if (!copy || bpf_probe_read_kernel(copy, sizeof(*copy), state))
		return 0;
	if (copy->handle_start_ns && copy->handle_start_ns < now)
		peek_handle(seq, copy, task, now);
	/* Its gathered sleeps first: the one under way lies behind them. */
	peek_call(seq, copy, task, now);
	if (copy->asleep)
		peek_sleep(seq, copy, task, now);
	return 0;
}

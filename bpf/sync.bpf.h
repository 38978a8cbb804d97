/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What each sync of a file or file system needed and did: batching is counted from it. */
#ifndef STALLTRACE_SYNC_BPF_H
#define STALLTRACE_SYNC_BPF_H

#include "bpf/ext4.bpf.h"
#include "bpf/state.bpf.h"

static __always_inline void begin_sync(struct task_state *state, u32 dev)
{
	state->sync_start_ns = bpf_ktime_get_ns();
	state->sync_flush_ns = 0;
	state->sync_batch_ns = 0;
	state->sync_data_bytes = 0;
	state->sync_wanted = 0;
	state->sync_flags = 0;
	state->sync_dev = dev;
}

/* A task with a handle, or on its way to one, waits for other things of the journal. */
static __always_inline bool waits_in_sync(struct task_state *state)
{
	return state->sync_start_ns && !state->handle_start_ns && !state->starting_journal;
}

/* Or about to: sync and syncfs ask for a commit before the pass that waits, which is their sync.
 * Whoever stops a handle of a transaction older than the commit interval, or needs room in the log,
 * asks for a commit outside of any (jbd2_journal_stop, __jbd2_log_wait_for_space). */
static __always_inline bool is_syncing(struct task_state *state)
{
	return state &&
	       (state->sync_start_ns || state->call == CALL_SYNC || state->call == CALL_SYNCFS);
}

/* The journal thread wakes `state`'s task. */
static __always_inline void commit_woke_sync(struct task_state *state, u32 target_tid)
{
	if (!waits_in_sync(state) || state->sync_flags & SYNC_COMMIT_WOKE)
		return;
	state->sync_flags |= SYNC_COMMIT_WOKE;
	if (target_tid)
		state->sync_wanted = target_tid;
}

/* jbd2_journal_stop of a synchronous handle: it may sleep for others to join, then waits for the
 * commit. From here on the call is a sync. */
static __always_inline void begin_handle_sync(struct task_state *state, u32 dev, u32 tid)
{
	if (state->sync_start_ns || !state->call)
		return;
	begin_sync(state, dev);
	state->sync_start_ns = state->call_start_ns;
	state->sync_wanted = tid;
	state->sync_flags = SYNC_HANDLE;
}

/* A timer wakes the task of a synchronous handle before any commit did. */
static __always_inline void batch_sleep_ended(struct task_state *state, u64 slept_ns)
{
	if ((state->sync_flags & (SYNC_HANDLE | SYNC_COMMIT_WOKE)) == SYNC_HANDLE)
		state->sync_batch_ns += slept_ns;
}

static __always_inline void end_sync(struct task_state *state, s64 result)
{
	struct wire_sync event = {};

	if (!state->sync_start_ns)
		return;
	event.header.kind = WIRE_SYNC;
	event.header.size = sizeof(event);
	name_current(&event.task);
	event.start_ns = state->sync_start_ns;
	event.end_ns = bpf_ktime_get_ns();
	event.flush_ns = state->sync_flush_ns;
	event.dev = state->sync_dev;
	event.call = state->call;
	event.flags = state->sync_flags;
	event.wanted_tid = state->sync_wanted;
	event.result = result;
	event.batch_ns = state->sync_batch_ns;
	event.data_bytes = state->sync_data_bytes;
	if (state->sync_inode) {
		struct inode *inode = (void *)state->sync_inode;

		event.ino = BPF_CORE_READ(inode, i_ino);
		if (!event.wanted_tid)
			event.wanted_tid = ext4_wanted_transaction(state->sync_inode, state->call);
	}
	state->sync_start_ns = 0;
	emit(&event, sizeof(event), LOSS_RING_OTHER);
}

#endif

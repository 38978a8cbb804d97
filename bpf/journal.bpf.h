/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef STALLTRACE_JOURNAL_BPF_H
#define STALLTRACE_JOURNAL_BPF_H

#include "bpf/dirtied.bpf.h"
#include "bpf/state.bpf.h"

/* The commit under way in each journal, by struct journal_s *. User space reads what is left when
 * the window closes: unfinished commits. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u64);
	__type(value, struct wire_commit);
} commits SEC(".maps") __weak;

/* jbd2 threads that were there when the window opened: tid -> struct journal_s *. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u64);
} journal_threads SEC(".maps") __weak;

/* The inode that most of the commit's ordered data is of. */
static __always_inline void name_data_inode(struct wire_commit *commit, struct inode *inode)
{
	u64 ino = BPF_CORE_READ(inode, i_ino), key = (u64)inode;
	struct inode_worker *worker;

	if (commit->data_ino == ino)
		return;
	commit->data_ino = ino;
	worker = bpf_map_lookup_elem(&inode_workers, &key);
	if (worker && worker->ino == ino && worker->tid == commit->tid)
		commit->data_owner = worker->task;
	else
		commit->data_owner.tid = 0;
	commit->data_path[0][0] = 0;
	name_inode(commit->data_path, inode);
}

/* The task's handle, still open. */
static __always_inline void open_handle(struct wire_handle *handle, struct task_state *state,
					struct task_struct *task, u64 now)
{
	__builtin_memset(handle, 0, sizeof(*handle));
	handle->header.kind = WIRE_HANDLE;
	handle->header.size = sizeof(*handle);
	name_task(&handle->task, task);
	handle->dev = state->handle_dev;
	handle->tid = state->handle_tid;
	handle->type = state->handle_type;
	handle->line = state->handle_line;
	handle->start_ns = state->handle_start_ns;
	handle->stop_ns = now;
	handle->ino = state->handle_ino;
	handle->flags = HANDLE_UNFINISHED;
	handle->call = state->call;
}

#endif

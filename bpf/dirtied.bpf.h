/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who put how much metadata into which transaction: the commit writes all of it, whoever waits. */
#ifndef STALLTRACE_DIRTIED_BPF_H
#define STALLTRACE_DIRTIED_BPF_H

#include "bpf/state.bpf.h"

/* The file's name and those of the folders above it, innermost first. */
static __always_inline void name_inode(char (*parts)[WIRE_PATH_PART], struct inode *inode)
{
	struct hlist_node *alias = BPF_CORE_READ(inode, i_dentry.first);
	struct dentry *dentry;

	if (!alias) /* deleted, or its name has left the cache */
		return;
	dentry = (void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias);
	for (int i = 0; i < WIRE_DATA_PARTS; ++i) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

		bpf_probe_read_kernel_str(parts[i], WIRE_PATH_PART,
					  BPF_CORE_READ(dentry, d_name.name));
		if (parent == dentry)
			break;
		dentry = parent;
	}
}

/* Who had a handle on an inode last, in a call of its own, by struct inode *: a commit that writes
 * the inode's data first asks whose that is. A kernel worker writes back for others. */
struct inode_worker {
	u64 ino;
	u32 tid; /* of the transaction */
	u32 pad;
	struct wire_task task;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct inode_worker);
} inode_workers SEC(".maps") __weak;

static __always_inline void note_worker(struct task_state *state, u32 tid)
{
	u64 key = state->handle_inode;
	struct inode_worker worker = {};

	if (!key || !state->call || (state->worked_inode == key && state->worked_tid == tid))
		return;
	state->worked_inode = key;
	state->worked_tid = tid;
	worker.ino = state->handle_ino;
	worker.tid = tid;
	name_current(&worker.task);
	bpf_map_update_elem(&inode_workers, &key, &worker, BPF_ANY);
}

/* Once per task and transaction: when the task joins another one, ends, or the window closes. */
static __always_inline void send_dirtied(struct task_state *state)
{
	if ((s32)state->dirtied.blocks <= 0)
		return;
	state->dirtied.header.kind = WIRE_DIRTIED;
	state->dirtied.header.size = sizeof(state->dirtied);
	emit(&state->dirtied, sizeof(state->dirtied), LOSS_RING_OTHER);
	state->dirtied.blocks = 0;
}

/* A handle of the current task ends. jbd2_journal_dirty_metadata takes a credit from it for each
 * buffer that was not in the transaction before (b_modified), so that the credits used by all
 * handles of a transaction are its metadata blocks, each counted once; jbd2_journal_forget gives it
 * back, and a handle may give back what one before it had taken. What a handle dirtied before
 * it was restarted (jbd2__journal_restart) is not told. */
static __always_inline void count_dirtied(struct task_state *state, u32 dev, u32 tid, s32 blocks)
{
	struct wire_dirtied *dirtied = &state->dirtied;

	if (!blocks)
		return;
	if (dirtied->tid != tid || dirtied->dev != dev) {
		send_dirtied(state);
		name_current(&dirtied->task);
		dirtied->dev = dev;
		dirtied->tid = tid;
		dirtied->blocks = 0;
		dirtied->handles = 0;
		dirtied->most_blocks = 0;
	}
	dirtied->blocks += blocks;
	if (blocks < 0)
		return;
	dirtied->handles++;
	if ((u32)blocks <= dirtied->most_blocks)
		return;
	dirtied->most_blocks = blocks;
	dirtied->ino = state->handle_ino;
	for (int i = 0; i < WIRE_DATA_PARTS; ++i)
		dirtied->name[i][0] = 0;
	if (state->handle_inode)
		name_inode(dirtied->name, (struct inode *)state->handle_inode);
}

#endif

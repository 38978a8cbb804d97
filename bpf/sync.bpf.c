/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where ext4 syncs a file or a file system. In kernel workers this is all that is seen of a call. */
#include "bpf/state.bpf.h"
#include "bpf/calls.bpf.h"
#include "bpf/sync.bpf.h"

SEC("tp_btf/ext4_sync_file_enter")
int BPF_PROG(ext4_sync_file_enter, struct file *file, int datasync)
{
	struct task_struct *task;
	struct task_state *state;
	u64 inode;

	if (!window_open || !is_traced_file(file))
		return 0;
	task = bpf_get_current_task_btf();
	state = make_current_state();
	if (!state)
		return 0;
	/* AIO fsync and the completion work of O_DSYNC writes run in workqueues, io_uring's fsync in
	 * its own workers. */
	if (!state->call && (task->flags & (PF_WQ_WORKER | PF_IO_WORKER))) {
		begin_call(state, task->flags & PF_WQ_WORKER ? CALL_KWORKER : CALL_URING_WORKER, 0);
		set_file(state, file);
	}
	if (!state->call)
		return 0;
	if (!state->dev_slot)
		set_file(state, file);
	inode = (u64)BPF_CORE_READ(file, f_inode);
	state->sync_inode = inode;
	state->sync_tid = ext4_wanted_transaction(inode, state->call);
	begin_sync(state, BPF_CORE_READ(file, f_inode, i_sb, s_dev));
	return 0;
}

SEC("tp_btf/ext4_sync_file_exit")
int BPF_PROG(ext4_sync_file_exit, struct inode *inode, int result)
{
	struct task_state *state;

	if (!window_open)
		return 0;
	state = current_state();
	if (!state)
		return 0;
	end_sync(state, result);
	state->sync_inode = 0;
	if (state->call == CALL_KWORKER || state->call == CALL_URING_WORKER)
		end_call(state, result);
	return 0;
}

/* sync and syncfs: one after the other of the file systems, the last until the call's end. */
SEC("tp_btf/ext4_sync_fs")
int BPF_PROG(ext4_sync_fs, struct super_block *sb, int wait)
{
	struct task_state *state;
	struct ext4_sb_info *info;
	struct transaction_s *wanted;
	u32 dev;

	if (!window_open || !sb || !wait) /* 6.12 cannot know that it is never null */
		return 0;
	state = current_state();
	if (!state || (state->call != CALL_SYNC && state->call != CALL_SYNCFS))
		return 0;
	end_sync(state, 0);
	dev = BPF_CORE_READ(sb, s_dev);
	state->syncing_dev = dev;
	if (!traced_slot(dev))
		return 0;
	begin_sync(state, dev);
	info = BPF_CORE_READ(sb, s_fs_info);
	/* jbd2_journal_start_commit: the running one, or else the one being committed */
	wanted = BPF_CORE_READ(info, s_journal, j_running_transaction);
	if (!wanted)
		wanted = BPF_CORE_READ(info, s_journal, j_committing_transaction);
	if (wanted)
		state->sync_wanted = BPF_CORE_READ(wanted, t_tid);
	return 0;
}

#define EXT4_FC_STATUS_OK 0
#define EXT4_FC_STATUS_SKIPPED 2 /* another's fast commit had it */

SEC("tp_btf/ext4_fc_commit_stop")
int BPF_PROG(ext4_fc_commit_stop, struct super_block *sb, int blocks, int reason)
{
	struct task_state *state;

	if (!window_open || (reason != EXT4_FC_STATUS_OK && reason != EXT4_FC_STATUS_SKIPPED))
		return 0;
	state = current_state();
	if (state && state->sync_start_ns)
		state->sync_flags |= SYNC_FAST_COMMIT;
	return 0;
}

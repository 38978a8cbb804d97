/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* jbd2: commits with their phases, handles that hold a commit back. All times are ours: the
 * kernel's own statistics are in jiffies. */
#include "bpf/state.bpf.h"
#include "bpf/calls.bpf.h"
#include "bpf/dirtied.bpf.h"
#include "bpf/journal.bpf.h"

static __always_inline struct wire_commit *commit_of(struct journal_s *journal)
{
	u64 key = (u64)journal;

	return bpf_map_lookup_elem(&commits, &key);
}

SEC("tp_btf/jbd2_start_commit")
int BPF_PROG(jbd2_start_commit, struct journal_s *journal, struct transaction_s *transaction)
{
	struct wire_commit fresh = {};
	struct wire_commit *commit;
	struct task_state *state;
	u64 key = (u64)journal;
	u32 dev;

	if (!window_open || !journal || !transaction)
		return 0;
	dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
	if (!traced_slot(dev))
		return 0;
	state = make_current_state();
	if (!state)
		return 0;
	if (bpf_map_update_elem(&commits, &key, &fresh, BPF_ANY)) {
		count_loss(LOSS_TABLE_FULL);
		return 0;
	}
	commit = commit_of(journal);
	if (!commit)
		return 0;
	name_current(&commit->thread);
	commit->journal = key;
	commit->dev = dev;
	commit->journal_dev = BPF_CORE_READ(journal, j_dev, bd_dev);
	commit->tid = BPF_CORE_READ(transaction, t_tid);
	commit->start_ns = bpf_ktime_get_ns();
	commit->requested_ns = state->requested_ns;
	commit->requester = state->requester;
	if (state->requested_outside_sync)
		commit->flags |= COMMIT_OUTSIDE_SYNC;
	state->requested_ns = 0;
	state->requester.tid = 0;
	state->requested_outside_sync = 0;
	state->journal_thread = 1;
	state->journal = key;
	state->data_inode = 0;
	state->dev = dev;
	state->dev_slot = traced_slot(dev);
	return 0;
}

/* The commit that is under way in this journal; one whose start was before the window is met
 * here for the first time. */
static __always_inline struct wire_commit *commit_under_way(struct journal_s *journal,
							    struct transaction_s *transaction)
{
	struct wire_commit fresh = {};
	struct wire_commit *commit = commit_of(journal);
	struct task_state *state;
	u64 key = (u64)journal;
	u32 tid = BPF_CORE_READ(transaction, t_tid);

	if (commit && commit->tid == tid)
		return commit;
	fresh.dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
	if (!traced_slot(fresh.dev))
		return NULL;
	name_current(&fresh.thread);
	fresh.journal = key;
	fresh.journal_dev = BPF_CORE_READ(journal, j_dev, bd_dev);
	fresh.tid = tid;
	fresh.flags = COMMIT_CUT_START;
	if (bpf_map_update_elem(&commits, &key, &fresh, BPF_ANY)) {
		count_loss(LOSS_TABLE_FULL);
		return NULL;
	}
	state = make_current_state();
	if (state) {
		state->journal_thread = 1;
		state->journal = key;
		state->dev = fresh.dev;
		state->dev_slot = traced_slot(fresh.dev);
	}
	return commit_of(journal);
}

#define COMMIT_PHASE(name, field)                                                                  \
	SEC("tp_btf/" #name)                                                                       \
	int BPF_PROG(name, struct journal_s *journal, struct transaction_s *transaction)           \
	{                                                                                          \
		struct wire_commit *commit;                                                        \
                                                                                                   \
		if (!window_open || !journal || !transaction)                                      \
			return 0;                                                                  \
		commit = commit_under_way(journal, transaction);                                   \
		if (commit)                                                                        \
			commit->field = bpf_ktime_get_ns();                                        \
		return 0;                                                                          \
	}

COMMIT_PHASE(jbd2_commit_locking, locking_ns)
COMMIT_PHASE(jbd2_commit_flushing, flushing_ns)
COMMIT_PHASE(jbd2_commit_logging, logging_ns)

/* Once per inode whose data has to be on disk before the commit (fs/jbd2/commit.c,
 * jbd2_journal_submit_data_buffers). */
SEC("tp_btf/jbd2_submit_inode_data")
int BPF_PROG(jbd2_submit_inode_data, struct inode *inode)
{
	struct task_state *state;
	struct wire_commit *commit;

	if (!window_open || !inode)
		return 0;
	state = current_state();
	if (!state || !state->journal)
		return 0;
	commit = commit_of((struct journal_s *)state->journal);
	if (!commit)
		return 0;
	state->data_inode = (u64)inode;
	state->data_inode_bytes = 0;
	if (!commit->data_inodes)
		name_data_inode(commit, inode);
	commit->data_inodes++;
	return 0;
}

SEC("tp_btf/jbd2_run_stats")
int BPF_PROG(jbd2_run_stats, dev_t dev, tid_t tid, struct transaction_run_stats_s *stats)
{
	struct task_state *state;
	struct wire_commit *commit;

	if (!window_open || !stats)
		return 0;
	state = current_state();
	if (!state || !state->journal)
		return 0;
	commit = commit_of((struct journal_s *)state->journal);
	if (!commit || commit->tid != tid)
		return 0;
	commit->stats_ns = bpf_ktime_get_ns();
	commit->handle_count = BPF_CORE_READ(stats, rs_handle_count);
	commit->blocks = BPF_CORE_READ(stats, rs_blocks);
	commit->blocks_logged = BPF_CORE_READ(stats, rs_blocks_logged);
	return 0;
}

SEC("tp_btf/jbd2_end_commit")
int BPF_PROG(jbd2_end_commit, struct journal_s *journal, struct transaction_s *transaction)
{
	struct wire_commit *commit;
	struct task_state *state;
	u64 key = (u64)journal;

	if (!window_open || !journal || !transaction)
		return 0;
	commit = commit_under_way(journal, transaction);
	if (!commit)
		return 0;
	commit->end_ns = bpf_ktime_get_ns();
	commit->average_ns = BPF_CORE_READ(journal, j_average_commit_time);
	commit->header.kind = WIRE_COMMIT;
	commit->header.size = sizeof(*commit);
	emit(commit, sizeof(*commit), LOSS_RING_OTHER);
	bpf_map_delete_elem(&commits, &key);
	state = current_state();
	if (state)
		state->journal = 0;
	return 0;
}

/* ext4_journal_start_* fire before any waiting; jbd2_handle_start after all of it, and not for a
 * nested handle. */
static __always_inline void starting_handle(struct super_block *sb, struct inode *inode)
{
	u64 ino = inode ? BPF_CORE_READ(inode, i_ino) : 0;
	struct ext4_sb_info *info;
	struct task_state *state;
	struct task_struct *task = bpf_get_current_task_btf();
	u32 dev = BPF_CORE_READ(sb, s_dev);

	if (!traced_slot(dev) || task->journal_info || (u32)task->tgid == config.own_tgid)
		return;
	state = make_current_state();
	if (!state)
		return;
	if (!state->call || !state->dev_slot)
		set_device(state, dev);
	info = BPF_CORE_READ(sb, s_fs_info);
	state->starting_journal = (u64)BPF_CORE_READ(info, s_journal);
	state->starting_ns = bpf_ktime_get_ns();
	state->handle_inode = (u64)inode;
	if (ino) {
		state->handle_ino = ino;
		if (!state->call || !state->ino)
			state->ino = ino;
	}
}

SEC("tp_btf/ext4_journal_start_inode")
int BPF_PROG(ext4_journal_start_inode, struct inode *inode)
{
	if (window_open && inode)
		starting_handle(BPF_CORE_READ(inode, i_sb), inode);
	return 0;
}

SEC("tp_btf/ext4_journal_start_sb")
int BPF_PROG(ext4_journal_start_sb, struct super_block *sb)
{
	if (window_open && sb)
		starting_handle(sb, NULL);
	return 0;
}

/* up to 6.1 */
SEC("tp_btf/ext4_journal_start")
int BPF_PROG(ext4_journal_start, struct super_block *sb)
{
	if (window_open && sb)
		starting_handle(sb, NULL);
	return 0;
}

/* Creating something takes a handle before there is an inode. */
SEC("tp_btf/ext4_allocate_inode")
int BPF_PROG(ext4_allocate_inode, struct inode *inode)
{
	struct task_state *state;

	if (!window_open || !inode)
		return 0;
	state = current_state();
	if (!state || !state->handle_start_ns || state->handle_ino)
		return 0;
	state->handle_inode = (u64)inode;
	state->handle_ino = BPF_CORE_READ(inode, i_ino);
	return 0;
}

static __always_inline void handle_joined(struct task_state *state, u32 dev, u32 tid, u32 type,
					  u32 line)
{
	if (state->starting_journal)
		state->handle_journal = state->starting_journal;
	state->starting_journal = 0;
	state->starting_ns = 0;
	state->handle_start_ns = bpf_ktime_get_ns();
	state->handle_dev = dev;
	state->handle_tid = tid;
	state->handle_type = type;
	state->handle_line = line;
}

SEC("tp_btf/jbd2_handle_start")
int BPF_PROG(jbd2_handle_start, dev_t dev, tid_t tid, u32 type, u32 line)
{
	struct task_state *state;

	if (!window_open)
		return 0;
	state = current_state();
	if (state && state->starting_ns)
		handle_joined(state, dev, tid, type, line);
	return 0;
}

/* The handle has left its transaction and joined another: tid 0 if that failed. */
SEC("tp_btf/jbd2_handle_restart")
int BPF_PROG(jbd2_handle_restart, dev_t dev, tid_t tid, u32 type, u32 line)
{
	struct task_state *state;

	if (!window_open)
		return 0;
	state = current_state();
	if (!state || !state->handle_start_ns)
		return 0;
	if (tid)
		handle_joined(state, dev, tid, type, line);
	else
		state->handle_start_ns = 0;
	return 0;
}

/* A handle of a locked transaction holds back its commit, and with it every new handle. Fires at
 * the beginning of the last jbd2_journal_stop: the handle is let go after a batching sleep, if
 * there is one. */
SEC("tp_btf/jbd2_handle_stats")
int BPF_PROG(jbd2_handle_stats, dev_t dev, tid_t tid, u32 type, u32 line, int interval, int sync,
	     int requested, int dirtied)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct jbd2_journal_handle *handle;
	struct wire_handle event = {};
	struct transaction_s *transaction;
	struct wire_commit *commit;
	struct task_state *state;

	if (!window_open)
		return 0;
	state = state_of(task);
	if (!state || !state->handle_start_ns)
		return 0;
	handle = task->journal_info;
	transaction = BPF_CORE_READ(handle, h_transaction);
	if (BPF_CORE_READ(transaction, t_state) != T_RUNNING) {
		state->wanted = 1;
		event.header.kind = WIRE_HANDLE;
		event.header.size = sizeof(event);
		name_current(&event.task);
		event.dev = dev;
		event.tid = tid;
		event.type = type;
		event.line = line;
		event.start_ns = state->handle_start_ns;
		event.stop_ns = bpf_ktime_get_ns();
		event.ino = state->handle_ino;
		event.flags = HANDLE_LATE | (sync ? HANDLE_SYNC : 0);
		event.call = state->call;
		emit(&event, sizeof(event), LOSS_RING_OTHER);
		/* No entry: the commit began before the window. */
		commit = commit_of((struct journal_s *)state->handle_journal);
		if (commit && commit->tid == tid)
			__sync_fetch_and_add(&commit->late_handles, 1);
	}
	count_dirtied(state, dev, tid, dirtied);
	note_worker(state, tid);
	state->handle_start_ns = 0;
	state->handle_ino = 0;
	state->handle_inode = 0;
	if (sync)
		begin_handle_sync(state, dev, tid);
	return 0;
}

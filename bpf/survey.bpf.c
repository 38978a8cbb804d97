/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What was under way when the window opened, read from the kernel's own tables: requests in the
 * device with their age, the commit of each journal and its phase, frozen file systems. So a stall
 * is explained that began long before, and a device that completes nothing at all. User space
 * opens a mount point or a disk each, and tells the file descriptors. */
#include "bpf/state.bpf.h"
#include "bpf/calls.bpf.h"
#include "bpf/flush.bpf.h"
#include "bpf/freeze.bpf.h"
#include "bpf/journal.bpf.h"

#define EXT4_MAGIC 0xef53
#define MAX_TAGS 1024      /* per hardware queue; blk-mq allows 10240, drivers take less */
#define MAX_QUEUES 64

static __always_inline bool in_flight(struct request *rq, u64 queue)
{
	return (u64)BPF_CORE_READ(rq, q) == queue && BPF_CORE_READ(rq, state) == MQ_RQ_IN_FLIGHT;
}

/* When it was handed to the driver; where the queue does not note that, when it was made. */
static __always_inline u64 issued_at(struct request *rq)
{
	u64 issued = BPF_CORE_READ(rq, io_start_time_ns);

	if (!issued)
		issued = BPF_CORE_READ(rq, start_time_ns);
	return issued ? issued : window_open_ns;
}

static __always_inline void survey_data(struct request *rq, u64 queue, u32 disk)
{
	struct wire_request_entry *entry;
	u64 key = (u64)rq;

	if (requests_find(key)) /* issued since the window opened */
		return;
	entry = requests_insert(key);
	if (!entry)
		return;
	entry->issuer.tid = 0;
	entry->issue_ns = issued_at(rq);
	entry->start_ns = BPF_CORE_READ(rq, start_time_ns);
	entry->sector = BPF_CORE_READ(rq, __sector);
	entry->disk = disk;
	entry->op = BPF_CORE_READ(rq, cmd_flags);
	entry->bytes = BPF_CORE_READ(rq, __data_len);
	entry->flush_data = 0;
	entry->flags = REQUEST_CUT_START;
	if (!in_flight(rq, queue)) /* it completed while we looked */
		requests_remove(key);
}

/* Functions that are not inlined: the verifier walks through each once, not once per turn. */
__attribute__((noinline)) int survey_request(u64 request, u64 queue)
{
	struct request *rq = (void *)request;
	u64 key = request, issued;
	u32 disk, slot;

	if (!in_flight(rq, queue))
		return 0;
	disk = request_disk(rq);
	slot = traced_slot(disk);
	if (!slot)
		return 0;
	if ((BPF_CORE_READ(rq, cmd_flags) & REQ_OP_MASK) != REQ_OP_FLUSH) {
		survey_data(rq, queue, disk);
		return 0;
	}
	issued = issued_at(rq);
	if (issued > window_open_ns || bpf_map_lookup_elem(&flushes, &key))
		return 0;
	flush_issued(rq, disk, slot, issued, FLUSH_CUT_START);
	return 0;
}

__attribute__((noinline)) int survey_tags(u64 tags_address, u64 queue)
{
	struct blk_mq_tags *tags = (void *)tags_address;
	struct request **requests = BPF_CORE_READ(tags, rqs);
	u32 count = BPF_CORE_READ(tags, nr_tags);

	for (u32 i = 0; i < MAX_TAGS && i < count; ++i) {
		u64 request = 0;

		bpf_probe_read_kernel(&request, sizeof(request), requests + i);
		if (request)
			survey_request(request, queue);
	}
	return 0;
}

__attribute__((noinline)) int survey_disk(u64 bdev_address)
{
	struct block_device *bdev = (void *)bdev_address;
	struct request_queue *queue = BPF_CORE_READ(bdev, bd_disk, queue);
	struct blk_mq_tag_set *set = BPF_CORE_READ(queue, tag_set);
	struct blk_mq_tags **tags = BPF_CORE_READ(set, tags);
	u32 count = BPF_CORE_READ(set, nr_hw_queues);

	if (!tags) /* dm, md: they hand bios down */
		return 0;
	for (u32 i = 0; i < MAX_QUEUES && i < count; ++i) {
		u64 one = 0;

		bpf_probe_read_kernel(&one, sizeof(one), tags + i);
		if (one)
			survey_tags(one, (u64)queue);
	}
	return 0;
}

/* fs/jbd2/commit.c: the transaction is the running one while it is locked, then the committing
 * one. What came before its present phase is not known. */
__attribute__((noinline)) int survey_journal(u64 journal_address)
{
	struct journal_s *journal = (void *)journal_address;
	struct wire_commit commit = {};
	struct transaction_s *transaction = BPF_CORE_READ(journal, j_running_transaction);
	struct task_struct *thread = BPF_CORE_READ(journal, j_task);
	u64 key = (u64)journal, now = window_open_ns;
	u32 phase;

	commit.thread.tid = BPF_CORE_READ(thread, pid);
	commit.thread.pid = BPF_CORE_READ(thread, tgid);
	bpf_probe_read_kernel_str(commit.thread.comm, sizeof(commit.thread.comm), thread->comm);
	bpf_map_update_elem(&journal_threads, &commit.thread.tid, &key, BPF_ANY);
	if (!transaction || BPF_CORE_READ(transaction, t_state) == T_RUNNING)
		transaction = BPF_CORE_READ(journal, j_committing_transaction);
	if (!transaction)
		return 0;
	phase = BPF_CORE_READ(transaction, t_state);
	commit.journal = key;
	commit.dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
	commit.journal_dev = BPF_CORE_READ(journal, j_dev, bd_dev);
	commit.tid = BPF_CORE_READ(transaction, t_tid);
	commit.flags = COMMIT_CUT_START;
	if (phase == T_RUNNING)
		return 0;
	if (phase <= T_SWITCH)
		commit.locking_ns = now;
	else if (phase == T_FLUSH)
		commit.flushing_ns = now;
	else if (phase < T_COMMIT_JFLUSH)
		commit.logging_ns = now;
	else if (phase == T_COMMIT_JFLUSH)
		commit.record_ns = now;
	else
		commit.stats_ns = now;
	/* A phase that began since is there already. */
	bpf_map_update_elem(&commits, &key, &commit, BPF_NOEXIST);
	return 0;
}

static __always_inline void survey_freeze(struct super_block *sb, u32 dev)
{
	struct wire_freeze freeze = {};

	if (!BPF_CORE_READ(sb, s_writers.frozen))
		return;
	freeze.dev = dev;
	freeze.flags = FREEZE_CUT_START;
	freeze.start_ns = window_open_ns;
	bpf_map_update_elem(&freezes, &dev, &freeze, BPF_NOEXIST);
}

__attribute__((noinline)) int survey_place(u64 file_address)
{
	struct file *file = (void *)file_address;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);
	struct ext4_sb_info *info;
	struct journal_s *journal;

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK) {
		u64 host = (u64)BPF_CORE_READ(file, f_mapping, host);

		survey_disk(host - bpf_core_field_offset(struct bdev_inode, vfs_inode) +
			    bpf_core_field_offset(struct bdev_inode, bdev));
		return 0;
	}
	survey_disk((u64)BPF_CORE_READ(sb, s_bdev));
	survey_freeze(sb, BPF_CORE_READ(sb, s_dev));
	if (BPF_CORE_READ(sb, s_magic) != EXT4_MAGIC)
		return 0;
	info = BPF_CORE_READ(sb, s_fs_info);
	journal = BPF_CORE_READ(info, s_journal);
	if (!journal)
		return 0;
	survey_journal((u64)journal);
	if (BPF_CORE_READ(journal, j_dev) != BPF_CORE_READ(journal, j_fs_dev))
		survey_disk((u64)BPF_CORE_READ(journal, j_dev));
	return 0;
}

/* A bucket of the table of requests, when the window has closed: what is not in flight any more, or
 * is another request by now, has completed unseen. */
__attribute__((noinline)) int recheck_bucket(u32 index)
{
	struct requests_bucket *bucket = bpf_map_lookup_elem(&requests, &index);

	if (!bucket)
		return 0;
	for (int i = 0; i < WIRE_TABLE_PLACES; ++i) {
		struct request *rq = (void *)bucket->key[i];

		if (!rq)
			continue;
		if (in_flight(rq, (u64)BPF_CORE_READ(rq, q)) &&
		    BPF_CORE_READ(rq, start_time_ns) == bucket->entry[i].start_ns &&
		    BPF_CORE_READ(rq, __sector) == bucket->entry[i].sector)
			continue;
		send_unseen_end(&bucket->entry[i], bpf_ktime_get_ns());
		bucket->key[i] = 0;
	}
	return 0;
}

SEC("iter/task")
int recheck(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task || (u32)task->pid != config.own_tgid)
		return 0;
	for (u32 i = 0; i < WIRE_TABLE_BUCKETS; ++i)
		recheck_bucket(i);
	return 0;
}

SEC("iter/task")
int survey(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task || (u32)task->pid != config.own_tgid)
		return 0;
	for (u32 i = 0; i < WIRE_SURVEYED && i < config.surveyed; ++i) {
		struct file *file = file_of(task, config.survey_fd[i]);

		if (file)
			survey_place((u64)file);
	}
	return 0;
}

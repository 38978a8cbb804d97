/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests between driver and device, and flushes apart from them: who asked for each, how long
 * it waited for the flush before it, how long the device took (block/blk-flush.c). */
#include "bpf/block.bpf.h"
#include "bpf/flush.bpf.h"
#include "bpf/async.bpf.h"
#include "bpf/journal.bpf.h"
#include "bpf/mapped.bpf.h"
#include "bpf/raw.bpf.h"
#include "bpf/waits.bpf.h"

/* blk-throttle hands a bio that it held back to the block layer from a kernel worker. */
static __always_inline bool is_released_by_throttle(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct kthread *kthread;
	struct worker *worker;

	if (!(task->flags & PF_WQ_WORKER) || !config.throttle_work)
		return false;
	kthread = (void *)BPF_CORE_READ(task, worker_private);
	worker = (void *)BPF_CORE_READ(kthread, data);
	return (u64)BPF_CORE_READ(worker, current_func) == config.throttle_work;
}

static __always_inline void throttle_released(struct bio *bio, u32 disk)
{
	struct cgroup_subsys_state *css = NULL;
	struct wire_throttle event = {};
	struct blkcg *blkcg = BPF_CORE_READ(bio, bi_blkg, blkcg);

	event.header.kind = WIRE_THROTTLE;
	event.header.size = sizeof(event);
	event.disk = disk;
	event.op = bio->bi_opf;
	event.sector = bio->bi_iter.bi_sector;
	event.bytes = bio->bi_iter.bi_size;
	event.released_ns = bpf_ktime_get_ns();
	if (blkcg)
		css = (void *)blkcg + bpf_core_field_offset(struct blkcg, css);
	for (int i = 0; i < WIRE_CGROUP_PARTS && css; ++i) {
		struct cgroup_subsys_state *parent = BPF_CORE_READ(css, parent);

		if (!parent) /* the root has no name */
			break;
		bpf_probe_read_kernel_str(event.cgroup[i], WIRE_PATH_PART,
					  BPF_CORE_READ(css, cgroup, kn, name));
		css = parent;
	}
	emit(&event, sizeof(event), LOSS_RING_OTHER);
}

/* What a sync writes is its data; what a commit's thread writes after the transaction was locked
 * and before it logs is others' (or the same). */
static __always_inline void count_data(struct bio *bio)
{
	struct task_state *state = current_state();
	struct wire_commit *commit;
	u64 key;

	if (!state || !(state->journal || state->sync_start_ns) || !is_for_a_driver(bio))
		return;
	if (!state->journal) {
		/* On its way to a handle it may have to write others' blocks out of the log. */
		if ((bio->bi_opf & REQ_OP_MASK) == REQ_OP_WRITE && !state->starting_journal)
			state->sync_data_bytes += bio->bi_iter.bi_size;
		return;
	}
	key = state->journal;
	commit = bpf_map_lookup_elem(&commits, &key);
	if (!commit || !commit->flushing_ns || commit->logging_ns)
		return;
	commit->data_bytes += bio->bi_iter.bi_size;
	state->data_inode_bytes += bio->bi_iter.bi_size;
	if (!state->data_inode || state->data_inode_bytes <= commit->data_ino_bytes)
		return;
	name_data_inode(commit, (struct inode *)state->data_inode);
	commit->data_ino_bytes = state->data_inode_bytes;
}

/* A kernel thread that sends I/O works for a file system: whoever waits for it asks what it waited
 * for. */
static __always_inline void know_worker(struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state;

	if (!(task->flags & PF_KTHREAD))
		return;
	state = state_of(task);
	if ((state && state->sends_io && !state->idle_unsent) || !traced_slot(bio_disk(bio)))
		return;
	if (!state)
		state = make_current_state();
	if (!state)
		return;
	state->sends_io = 1;
	send_idling(state);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	struct task_state *state;
	struct flush_bio *entry;
	u32 opf = bio->bi_opf;

	if (!window_open)
		return 0;
	async_bio_queued(bio);
	mapped_bio_queued(bio);
	know_worker(bio);
	if (is_released_by_throttle()) {
		u32 disk = bio_disk(bio);

		if (traced_slot(disk))
			throttle_released(bio, disk);
	}
	if (!(opf & REQ_PREFLUSH) && (opf & REQ_OP_MASK) != REQ_OP_FLUSH) {
		count_data(bio);
		return 0;
	}
	if (!traced_slot(BPF_CORE_READ(bio, bi_bdev, bd_dev)) || !is_for_a_driver(bio))
		return 0;
	entry = flush_bios_insert(address_of(bio));
	if (!entry)
		return 0;
	name_current(&entry->task);
	entry->queued_ns = bpf_ktime_get_ns();
	entry->has_data = bio->bi_iter.bi_size != 0;
	entry->journal_tid = 0;
	state = current_state();
	if (state && !entry->has_data && waits_in_sync(state))
		state->sync_flush_ns = entry->queued_ns;
	if (state && state->journal) {
		u64 key = state->journal;
		struct wire_commit *commit = bpf_map_lookup_elem(&commits, &key);

		if (commit) {
			entry->journal_tid = commit->tid;
			/* The commit record; an external journal's thread first sends a bare
			 * flush to the file system's device. */
			if (entry->has_data && commit->logging_ns)
				commit->record_ns = entry->queued_ns;
		}
	}
	return 0;
}

/* Of devices that only map, and of bios that end before a driver has them. */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_complete, struct request_queue *queue, struct bio *bio)
{
	if (!window_open)
		return 0;
	if (config.maps)
		mapped_bio_completed(bio);
	if (bio->bi_status == BLK_STS_AGAIN) {
		u32 slot = traced_slot(bio_disk(bio));

		if (slot)
			record_hist(slot, HIST_REFUSED, 0);
	}
	async_bio_completed(address_of(bio), bpf_ktime_get_ns(), bio->bi_status ? -5 /* EIO */ : 0, true);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	struct wire_request_entry *entry;
	u32 disk, slot;

	if (!window_open)
		return 0;
	disk = request_disk(rq);
	slot = traced_slot(disk);
	if (!slot)
		return 0;
	if (is_flush_request(rq)) {
		flush_issued(rq, disk, slot, bpf_ktime_get_ns(), 0);
		return 0;
	}
	entry = requests_find(address_of(rq));
	if (!entry)
		entry = requests_insert(address_of(rq));
	else if (entry->start_ns != rq->start_time_ns || entry->sector != rq->__sector)
		send_unseen_end(entry, bpf_ktime_get_ns()); /* used again; else it was requeued */
	if (!entry)
		return 0;
	name_current(&entry->issuer);
	entry->flags = 0;
	entry->issue_ns = bpf_ktime_get_ns();
	entry->start_ns = rq->start_time_ns; /* 0 where the queue keeps no iostats */
	entry->sector = rq->__sector;
	entry->disk = disk;
	entry->op = rq->cmd_flags;
	entry->bytes = rq->__data_len;
	entry->flush_data = config.flush_data_end_io && (u64)rq->end_io == config.flush_data_end_io;
	if (entry->flush_data)
		close_flush_before(rq, slot, entry->issue_ns);
	async_request_issued(rq, entry->issue_ns);
	return 0;
}

/* A request issued this soon after a flush may have reached the device before it. */
#define SAME_TIME_NS 1000000

static __always_inline void send_if_slow(struct wire_request_entry *entry,
					 struct wire_request_times *times, s32 error)
{
	struct wire_request event = {};
	u64 from = times->start_ns ? times->start_ns : times->issue_ns;

	if (times->complete_ns - from < config.request_floor_ns)
		return;
	event.header.kind = WIRE_REQUEST;
	event.header.size = sizeof(event);
	event.times = *times;
	if (entry)
		event.task = entry->issuer;
	event.flags = entry ? entry->flags : REQUEST_CUT_START;
	event.error = error;
	emit(&event, sizeof(event), LOSS_RING_OTHER);
}

static __always_inline void request_completed(struct request *rq, u32 slot, s32 error, u32 bytes,
					      struct wire_request_times *times)
{
	u64 key = address_of(rq);
	struct wire_request_entry *entry = requests_find(key);
	struct disk_state *state;
	u32 index = slot - 1;

	if (entry) {
		tell_times(entry, times->complete_ns, times);
	} else {
		/* It was in the device when the window opened. */
		times->op = BPF_CORE_READ(rq, cmd_flags);
		times->sector = BPF_CORE_READ(rq, __sector);
		times->bytes = bytes;
		times->issue_ns = window_open_ns;
		if (rq->start_time_ns > window_open_ns)
			count_loss(LOSS_UNMATCHED);
	}
	state = bpf_map_lookup_elem(&disks, &index);
	if (state && state->flushes_in_flight && times->issue_ns > state->flush_issued_ns + SAME_TIME_NS) {
		if (!state->overtaken_ns)
			state->overtaken_ns = times->complete_ns;
		__sync_fetch_and_add(&state->overtaken, 1);
	}
	send_if_slow(entry, times, error);
	if (entry && entry->flush_data) {
		struct flush_bio *sequence = flush_sequences_find(key);

		if (sequence)
			sequence->queued_ns = times->complete_ns;
	}
	/* A raw device's bio ends with the whole sequence. */
	async_request_completed(rq, times->complete_ns, error, !entry || !entry->flush_data);
	requests_remove(key);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, u32 bytes)
{
	struct wire_request_times times = {};
	struct last_complete *last;
	u32 zero = 0, slot;

	if (!window_open)
		return 0;
	times.disk = request_disk(rq);
	slot = traced_slot(times.disk);
	if (!slot)
		return 0;
	times.complete_ns = bpf_ktime_get_ns();
	if (is_flush_request(rq))
		flush_completed(rq, slot, error, &times);
	else if (bytes && bytes >= rq->__data_len)
		request_completed(rq, slot, error, bytes, &times);
	else {
		/* Part of a request; or the end of a flush sequence (0 bytes), whose waiters the
		 * flush just completed on this CPU has released. */
		if (!bytes)
			async_request_completed(rq, times.complete_ns, error, true);
		return 0;
	}
	last = bpf_map_lookup_elem(&last_completes, &zero);
	if (last) {
		last->times = times;
		last->at_ns = times.complete_ns;
		last->softirq = current_softirq();
		last->tid = (u32)bpf_get_current_pid_tgid();
	}
	return 0;
}

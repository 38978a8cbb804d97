/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests between driver and device, and flushes apart from them: who asked for each, how long
 * it waited for the flush before it, how long the device took (block/blk-flush.c). */
#include "bpf/block.bpf.h"
#include "bpf/async.bpf.h"
#include "bpf/journal.bpf.h"

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	struct task_state *state;
	struct flush_bio *entry;
	u32 opf = bio->bi_opf;

	if (!window_open)
		return 0;
	async_bio_queued(bio);
	if (!(opf & REQ_PREFLUSH) && (opf & REQ_OP_MASK) != REQ_OP_FLUSH)
		return 0;
	if (!traced_slot(BPF_CORE_READ(bio, bi_bdev, bd_dev)))
		return 0;
	entry = flush_bios_insert(address_of(bio));
	if (!entry)
		return 0;
	name_current(&entry->task);
	entry->queued_ns = bpf_ktime_get_ns();
	entry->has_data = bio->bi_iter.bi_size != 0;
	entry->journal_tid = 0;
	state = current_state();
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

static __always_inline bool is_flush_request(struct request *rq)
{
	return (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH;
}

static __always_inline void note_member(struct wire_flush *flush, struct flush_bio *bio)
{
	if (flush->known_members < WIRE_FLUSH_MEMBERS) {
		u32 index = flush->known_members & (WIRE_FLUSH_MEMBERS - 1);
		struct wire_flush_member *known = &flush->member[index];

		known->task = bio->task;
		known->queued_ns = bio->queued_ns;
		known->journal_tid = bio->journal_tid;
		known->has_data = bio->has_data;
		flush->known_members++;
	}
	if (!flush->first_queued_ns || bio->queued_ns < flush->first_queued_ns)
		flush->first_queued_ns = bio->queued_ns;
}

/* Takes one member into this CPU's flush buffer. A function of its own, not inlined, so that the
 * verifier walks through it once and not once per turn of the loop. */
__attribute__((noinline)) int add_flush_member(u64 member_address)
{
	u32 zero = 0;
	struct wire_flush *flush = bpf_map_lookup_elem(&flush_buffers, &zero);
	struct request *member = (void *)member_address;
	struct flush_bio *bio, *sequence;
	u64 bio_key;

	if (!flush)
		return 0;
	flush->members++;
	bio_key = (u64)BPF_CORE_READ(member, biotail);
	bio = flush_bios_find(bio_key);
	if (bio) {
		note_member(flush, bio);
		if (bio->has_data) {
			sequence = flush_sequences_insert(member_address);
			if (sequence) {
				*sequence = *bio;
				sequence->queued_ns = 0;
			}
		}
		flush_bios_remove(bio_key);
		return 0;
	}
	sequence = flush_sequences_find(member_address);
	if (sequence && sequence->queued_ns) {
		note_member(flush, sequence);
		flush_sequences_remove(member_address);
	}
	return 0;
}

/* The requests that a flush serves hang on the flush queue's running list; it does not change
 * until the flush ends (blk_kick_flush toggles the pending index before it issues). */
static __always_inline void read_members(struct request *rq)
{
	struct blk_flush_queue *queue = BPF_CORE_READ(rq, mq_hctx, fq);
	u32 running = BPF_CORE_READ_BITFIELD_PROBED(queue, flush_running_idx);
	u32 link = bpf_core_field_offset(struct request, queuelist);
	struct list_head *head, *at;

	if (bpf_core_field_exists(struct request___old_flush, flush.list))
		link = bpf_core_field_offset(struct request___old_flush, flush.list);
	head = (void *)queue + bpf_core_field_offset(struct blk_flush_queue, flush_queue) +
	       (running & 1) * bpf_core_type_size(struct list_head);
	at = BPF_CORE_READ(head, next);
	for (int i = 0; i < 64; ++i) {
		if (!at || at == head)
			break;
		add_flush_member((u64)at - link);
		at = BPF_CORE_READ(at, next);
	}
}

/* In some tasks' context no BPF program runs (seen on 6.18 in a guest, in softirqs upon its agent's
 * threads), and a completion there passes unseen. The flush request is used again, so it had ended. */
static __always_inline void close_unseen_flush(u64 key, struct disk_state *state, u64 now)
{
	struct wire_flush *flush = bpf_map_lookup_elem(&flushes, &key);

	if (!flush)
		return;
	__sync_fetch_and_add(&state->flushes_in_flight, -1);
	flush->overtaken = state->overtaken - flush->overtaken;
	flush->overtaken_ns = 0;
	flush->complete_ns = now;
	flush->flags |= FLUSH_END_UNSEEN;
	flush->header.size = sizeof(*flush);
	emit(flush, sizeof(*flush), LOSS_RING_OTHER);
}

static __always_inline void flush_issued(struct request *rq, u32 disk, u32 slot)
{
	u32 zero = 0, index = slot - 1;
	struct wire_flush *flush = bpf_map_lookup_elem(&flush_buffers, &zero);
	struct disk_state *state = bpf_map_lookup_elem(&disks, &index);
	u64 key = address_of(rq);

	if (!flush || !state)
		return;
	flush->issue_ns = bpf_ktime_get_ns();
	close_unseen_flush(key, state, flush->issue_ns);
	flush->header.kind = WIRE_FLUSH;
	flush->disk = disk;
	flush->queue = BPF_CORE_READ(rq, mq_hctx, queue_num);
	flush->first_queued_ns = 0;
	flush->complete_ns = 0;
	flush->members = 0;
	flush->known_members = 0;
	flush->error = 0;
	flush->flags = 0;
	flush->overtaken_ns = 0;
	name_current(&flush->issuer);
	read_members(rq);
	state->flush_issued_ns = flush->issue_ns;
	state->overtaken_ns = 0;
	__sync_fetch_and_add(&state->flushes_in_flight, 1);
	flush->overtaken = state->overtaken;
	if (bpf_map_update_elem(&flushes, &key, flush, BPF_ANY))
		count_loss(LOSS_TABLE_FULL);
}

/* It was in the device when the window opened. */
static __always_inline void cut_flush(struct wire_flush *flush, struct request *rq, u32 disk)
{
	flush->header.kind = WIRE_FLUSH;
	flush->disk = disk;
	flush->queue = BPF_CORE_READ(rq, mq_hctx, queue_num);
	flush->first_queued_ns = 0;
	flush->issue_ns = window_open_ns;
	flush->members = 0;
	flush->known_members = 0;
	flush->overtaken = 0;
	flush->flags = FLUSH_CUT_START;
	flush->overtaken_ns = 0;
	flush->issuer.tid = 0;
}

static __always_inline void flush_completed(struct request *rq, u32 slot, s32 error,
					    struct wire_request_times *times)
{
	u32 zero = 0, index = slot - 1, size;
	u64 key = address_of(rq);
	struct wire_flush *flush = bpf_map_lookup_elem(&flushes, &key);
	struct disk_state *state = bpf_map_lookup_elem(&disks, &index);

	times->op = REQ_OP_FLUSH;
	times->sector = ~0ULL;
	if (!state)
		return;
	if (flush) {
		__sync_fetch_and_add(&state->flushes_in_flight, -1);
		flush->overtaken = state->overtaken - flush->overtaken;
	} else {
		flush = bpf_map_lookup_elem(&flush_buffers, &zero);
		if (!flush)
			return;
		cut_flush(flush, rq, times->disk);
	}
	if (flush->overtaken)
		flush->overtaken_ns = state->overtaken_ns;
	flush->complete_ns = times->complete_ns;
	flush->error = error;
	times->start_ns = flush->first_queued_ns;
	times->issue_ns = flush->issue_ns;
	size = sizeof(*flush);
	flush->header.size = size;
	emit(flush, size, LOSS_RING_OTHER);
	bpf_map_delete_elem(&flushes, &key);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	struct request_entry *entry;
	u32 disk, slot;

	if (!window_open)
		return 0;
	disk = request_disk(rq);
	slot = traced_slot(disk);
	if (!slot)
		return 0;
	if (is_flush_request(rq)) {
		flush_issued(rq, disk, slot);
		return 0;
	}
	entry = requests_insert(address_of(rq));
	if (!entry)
		return 0;
	name_current(&entry->issuer);
	entry->issue_ns = bpf_ktime_get_ns();
	entry->start_ns = rq->start_time_ns; /* 0 where the queue keeps no iostats */
	entry->sector = rq->__sector;
	entry->disk = disk;
	entry->op = rq->cmd_flags;
	entry->bytes = rq->__data_len;
	entry->flush_data = config.flush_data_end_io && (u64)rq->end_io == config.flush_data_end_io;
	async_request_issued(rq, entry->issue_ns);
	return 0;
}

static __always_inline void send_if_slow(struct request_entry *entry,
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
	event.error = error;
	emit(&event, sizeof(event), LOSS_RING_OTHER);
}

static __always_inline void request_completed(struct request *rq, u32 slot, s32 error, u32 bytes,
					      struct wire_request_times *times)
{
	u64 key = address_of(rq);
	struct request_entry *entry = requests_find(key);
	struct disk_state *state;
	u32 index = slot - 1;

	if (entry) {
		times->op = entry->op;
		times->sector = entry->sector;
		times->bytes = entry->bytes;
		times->submitter = entry->issuer.tid;
		times->start_ns = entry->start_ns;
		times->issue_ns = entry->issue_ns;
	} else {
		/* It was in the device when the window opened. */
		times->op = BPF_CORE_READ(rq, cmd_flags);
		times->sector = BPF_CORE_READ(rq, __sector);
		times->bytes = bytes;
		times->issue_ns = window_open_ns;
	}
	state = bpf_map_lookup_elem(&disks, &index);
	if (state && state->flushes_in_flight && times->issue_ns > state->flush_issued_ns) {
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
	requests_remove(key);
	async_request_completed(rq, times->complete_ns);
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
	else
		/* Part of a request; or the end of a flush sequence (0 bytes), whose waiters the
		 * flush just completed on this CPU has released. */
		return 0;
	last = bpf_map_lookup_elem(&last_completes, &zero);
	if (last) {
		last->times = times;
		last->at_ns = times.complete_ns;
		last->tid = (u32)bpf_get_current_pid_tgid();
	}
	return 0;
}

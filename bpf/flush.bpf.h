/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The flush machine (block/blk-flush.c): which requests a flush serves, when it is issued and when
 * it completes. */
#ifndef STALLTRACE_FLUSH_BPF_H
#define STALLTRACE_FLUSH_BPF_H

#include "bpf/block.bpf.h"

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
__attribute__((noinline, weak)) int add_flush_member(u64 member_address)
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
		if (!bio->has_data) {
			flush->bare++;
		} else {
			sequence = flush_sequences_insert(member_address);
			if (sequence) {
				*sequence = *bio;
				sequence->queued_ns = 0;
				sequence->served_ns = flush->issue_ns;
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

/* The data of a flush sequence (PREFLUSH, DATA, POSTFLUSH) is issued when its first flush is over:
 * if that one is still on record, its end passed unseen. */
static __always_inline void close_flush_before(struct request *rq, u32 slot, u64 now)
{
	u64 flush_key = (u64)BPF_CORE_READ(rq, mq_hctx, fq, flush_rq);
	struct flush_bio *sequence = flush_sequences_find(address_of(rq));
	struct wire_flush *flush = bpf_map_lookup_elem(&flushes, &flush_key);
	struct disk_state *state;
	u32 index = slot - 1;

	if (!flush || !sequence || sequence->served_ns != flush->issue_ns)
		return;
	state = bpf_map_lookup_elem(&disks, &index);
	if (!state)
		return;
	close_unseen_flush(flush_key, state, now);
	bpf_map_delete_elem(&flushes, &flush_key);
}

/* `issue_ns`: now, or earlier for one that was in the device when the window opened. */
static __always_inline void flush_issued(struct request *rq, u32 disk, u32 slot, u64 issue_ns,
					 u32 flags)
{
	u32 zero = 0, index = slot - 1;
	struct wire_flush *flush = bpf_map_lookup_elem(&flush_buffers, &zero);
	struct disk_state *state = bpf_map_lookup_elem(&disks, &index);
	u64 key = address_of(rq);

	if (!flush || !state)
		return;
	flush->issue_ns = issue_ns;
	close_unseen_flush(key, state, flush->issue_ns);
	flush->header.kind = WIRE_FLUSH;
	flush->disk = disk;
	flush->queue = BPF_CORE_READ(rq, mq_hctx, queue_num);
	flush->first_queued_ns = 0;
	flush->complete_ns = 0;
	flush->members = 0;
	flush->known_members = 0;
	flush->bare = 0;
	flush->error = 0;
	flush->flags = flags;
	flush->overtaken_ns = 0;
	flush->issuer.tid = 0;
	if (!(flags & FLUSH_CUT_START))
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
	flush->bare = 0;
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

#endif

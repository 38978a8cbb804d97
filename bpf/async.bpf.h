/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asynchronous direct I/O: one iocb (AIO) or request (io_uring) from the call that submitted it to
 * its completion. Follows iomap (ext4, xfs, btrfs) and raw devices (block/fops.c), whose bios lead
 * back to the iocb. */
#ifndef STALLTRACE_ASYNC_BPF_H
#define STALLTRACE_ASYNC_BPF_H

#include "bpf/calls.bpf.h"
#include "bpf/interrupts.bpf.h"
#include "bpf/state.bpf.h"
#include "bpf/table.bpf.h"

DEFINE_TABLE(asyncs, struct wire_async_entry)

static __always_inline bool is_raw(u64 end_io)
{
	return end_io && (end_io == config.raw_end_io || end_io == config.raw_bios_end_io);
}

/* What a raw device's bio belongs to. One of several bios points there, an only one lies in it. */
static __always_inline struct blkdev_dio *raw_dio(struct bio *bio, u64 end_io)
{
	if (end_io == config.raw_bios_end_io)
		return BPF_CORE_READ(bio, bi_private);
	return (struct blkdev_dio *)(address_of(bio) - bpf_core_field_offset(struct blkdev_dio, bio));
}

/* NULL where the bio is none of direct I/O. */
static __always_inline struct kiocb *iocb_of_bio(struct bio *bio, u64 end_io)
{
	struct blkdev_dio *raw;
	struct iomap_dio *dio;

	if (is_raw(end_io)) {
		raw = raw_dio(bio, end_io);
		return BPF_CORE_READ(raw, iocb);
	}
	if (!config.iomap_end_io || end_io != config.iomap_end_io)
		return NULL;
	dio = BPF_CORE_READ(bio, bi_private);
	return BPF_CORE_READ(dio, iocb);
}

static __always_inline struct wire_async_entry *async_of_bio(struct bio *bio)
{
	u64 end_io = (u64)BPF_CORE_READ(bio, bi_end_io);
	struct kiocb *iocb = iocb_of_bio(bio, end_io);

	return iocb ? asyncs_find((u64)iocb) : NULL;
}

static __always_inline void begin_async(struct wire_async_entry *entry, struct task_state *state,
					struct file *file)
{
	name_current(&entry->task);
	entry->call_ns = state->call_start_ns;
	entry->begin_ns = 0;
	entry->queued_ns = 0;
	entry->issue_ns = 0;
	entry->complete_ns = 0;
	entry->ino = BPF_CORE_READ(file, f_inode, i_ino);
	entry->offset = 0;
	entry->sector = ~0ULL;
	entry->dev = state->dev;
	entry->dev_slot = state->dev_slot;
	entry->flags = 0;
	entry->bytes = 0;
}

/* A raw device, and iomap before 6.6, tell of no beginning: the first bio stands for it. */
static __always_inline struct wire_async_entry *
begin_async_at_bio(struct wire_async_entry *entry, struct bio *bio, struct kiocb *iocb)
{
	struct task_state *state;

	if (!entry) {
		state = current_state();
		if (!state || state->call != CALL_IO_SUBMIT)
			return NULL;
		/* the first iocb was not resident when the call began */
		if (!state->dev_slot)
			set_file(state, BPF_CORE_READ(iocb, ki_filp));
		if (!state->dev_slot)
			return NULL;
		entry = asyncs_insert((u64)iocb);
		if (!entry)
			return NULL;
		begin_async(entry, state, BPF_CORE_READ(iocb, ki_filp));
		entry->user_id = BPF_CORE_READ((struct aio_kiocb *)iocb, ki_res.data);
	}
	entry->begin_ns = bpf_ktime_get_ns();
	entry->offset = BPF_CORE_READ(iocb, ki_pos);
	if (bio->bi_opf & 1)
		entry->flags |= ASYNC_WRITE;
	return entry;
}

static __always_inline void async_bio_queued(struct bio *bio)
{
	u64 end_io = (u64)bio->bi_end_io;
	struct kiocb *iocb = iocb_of_bio(bio, end_io);
	struct wire_async_entry *entry;

	if (!iocb)
		return;
	entry = asyncs_find((u64)iocb);
	if ((is_raw(end_io) || !bpf_core_type_exists(btf_trace_iomap_dio_rw_begin)) &&
	    (!entry || !entry->begin_ns))
		entry = begin_async_at_bio(entry, bio, iocb);
	if (!entry)
		return;
	entry->bytes += bio->bi_iter.bi_size;
	if (entry->queued_ns)
		return;
	entry->queued_ns = bpf_ktime_get_ns();
	entry->sector = bio->bi_iter.bi_sector;
}

/* A request carries one bio, or a few that were merged. */
#define BIOS_PER_REQUEST 8

static __always_inline void async_request_issued(struct request *rq, u64 now)
{
	struct bio *bio = rq->bio;

	for (int i = 0; i < BIOS_PER_REQUEST && bio; ++i) {
		struct wire_async_entry *entry = async_of_bio(bio);

		if (entry && !entry->issue_ns)
			entry->issue_ns = now;
		bio = BPF_CORE_READ(bio, bi_next);
	}
}

static __always_inline void record_parts(struct wire_async_entry *entry, u64 done)
{
	u32 kinds = entry->flags & ASYNC_URING ? HIST_URING_TOTAL : HIST_AIO_TOTAL;

	record_hist(entry->dev_slot, kinds, done - entry->call_ns);
	if (!entry->queued_ns || !entry->issue_ns || !entry->complete_ns)
		return;
	record_hist(entry->dev_slot, kinds + 1, entry->queued_ns - entry->call_ns);
	record_hist(entry->dev_slot, kinds + 2, entry->issue_ns - entry->queued_ns);
	record_hist(entry->dev_slot, kinds + 3, entry->complete_ns - entry->issue_ns);
	record_hist(entry->dev_slot, kinds + 4, done - entry->complete_ns);
}

static __always_inline void finish_async(u64 key, struct wire_async_entry *entry, s32 result)
{
	struct wire_async event = {};
	u64 now = bpf_ktime_get_ns();

	record_parts(entry, now);
	if (now - entry->call_ns >= config.threshold_ns) {
		event.header.kind = WIRE_ASYNC;
		event.header.size = sizeof(event);
		event.task = entry->task;
		event.dev = entry->dev;
		event.flags = entry->flags;
		event.ino = entry->ino;
		event.user_id = entry->user_id;
		event.iocb = key;
		event.call_ns = entry->call_ns;
		event.begin_ns = entry->begin_ns;
		event.queued_ns = entry->queued_ns;
		event.issue_ns = entry->issue_ns;
		event.complete_ns = entry->complete_ns;
		event.done_ns = now;
		event.offset = entry->offset;
		event.sector = entry->sector;
		event.bytes = result > 0 ? (u32)result : 0;
		event.result = result;
		if (waker_context() == WAKER_TASK)
			name_current(&event.completer);
		emit(&event, sizeof(event), LOSS_RING_OTHER);
	}
	asyncs_remove(key);
}

#endif

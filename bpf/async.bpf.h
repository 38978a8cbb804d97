/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asynchronous direct I/O: one iocb (AIO) or request (io_uring) from the call that submitted it to
 * its completion. Follows iomap (ext4, xfs, btrfs), whose bios lead back to the iocb. */
#ifndef STALLTRACE_ASYNC_BPF_H
#define STALLTRACE_ASYNC_BPF_H

#include "bpf/calls.bpf.h"
#include "bpf/state.bpf.h"
#include "bpf/table.bpf.h"

DEFINE_TABLE(asyncs, struct wire_async_entry)

static __always_inline struct wire_async_entry *async_of_bio(struct bio *bio)
{
	struct iomap_dio *dio;

	if (!config.iomap_end_io || (u64)BPF_CORE_READ(bio, bi_end_io) != config.iomap_end_io)
		return NULL;
	dio = BPF_CORE_READ(bio, bi_private);
	return asyncs_find((u64)BPF_CORE_READ(dio, iocb));
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
}

/* Before 6.6 iomap tells of no beginning: the first bio stands for it. */
static __always_inline struct wire_async_entry *
begin_async_at_bio(struct wire_async_entry *entry, struct bio *bio, struct kiocb *iocb)
{
	struct task_state *state;

	if (!entry) {
		state = current_state();
		if (!state || state->call != CALL_IO_SUBMIT || !state->dev_slot)
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
	struct wire_async_entry *entry;
	struct iomap_dio *dio;
	struct kiocb *iocb;

	if (!config.iomap_end_io || (u64)bio->bi_end_io != config.iomap_end_io)
		return;
	dio = BPF_CORE_READ(bio, bi_private);
	iocb = BPF_CORE_READ(dio, iocb);
	entry = asyncs_find((u64)iocb);
	if (!bpf_core_type_exists(btf_trace_iomap_dio_rw_begin) && (!entry || !entry->begin_ns))
		entry = begin_async_at_bio(entry, bio, iocb);
	if (!entry || entry->queued_ns)
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

static __always_inline void async_request_completed(struct request *rq, u64 now)
{
	struct bio *bio = rq->bio;

	for (int i = 0; i < BIOS_PER_REQUEST && bio; ++i) {
		struct wire_async_entry *entry = async_of_bio(bio);

		if (entry)
			entry->complete_ns = now;
		bio = BPF_CORE_READ(bio, bi_next);
	}
}

#endif

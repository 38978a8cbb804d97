/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asynchronous direct I/O: one iocb (AIO) or request (io_uring) from the call that submitted it to
 * its completion. Follows iomap (ext4, xfs, btrfs), whose bios lead back to the iocb. */
#ifndef STALLTRACE_ASYNC_BPF_H
#define STALLTRACE_ASYNC_BPF_H

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

static __always_inline void async_bio_queued(struct bio *bio)
{
	struct wire_async_entry *entry;

	if (!config.iomap_end_io || (u64)bio->bi_end_io != config.iomap_end_io)
		return;
	entry = async_of_bio(bio);
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

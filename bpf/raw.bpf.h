/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The end of asynchronous direct I/O on a raw device: no tracepoint tells of it but its bios'. */
#ifndef STALLTRACE_RAW_BPF_H
#define STALLTRACE_RAW_BPF_H

#include "bpf/async.bpf.h"

/* For each of a request's bios: a global function, which the verifier reads once and not at each
 * call. */
__noinline int async_bio_completed(u64 bio_address, u64 now, s32 error, u32 ended)
{
	struct bio *bio = (struct bio *)bio_address;
	u64 end_io = (u64)BPF_CORE_READ(bio, bi_end_io);
	struct wire_async_entry *entry;
	struct blkdev_dio *raw;
	u64 iocb = (u64)iocb_of_bio(bio, end_io);

	entry = iocb ? asyncs_find(iocb) : NULL;
	if (!entry)
		return 0;
	entry->complete_ns = now;
	/* An io_uring request ends when its completion is posted, iomap says it itself. */
	if (!ended || (entry->flags & ASYNC_URING) || !is_raw(end_io))
		return 0;
	raw = raw_dio(bio, end_io);
	/* Its last bio? */
	if (end_io == config.raw_end_io || BPF_CORE_READ(raw, ref.counter) == 1)
		finish_async(iocb, entry, error ? error : (s32)entry->bytes);
	return 0;
}

static __always_inline void async_request_completed(struct request *rq, u64 now, s32 error, bool ended)
{
	struct bio *bio = rq->bio;

	for (int i = 0; i < BIOS_PER_REQUEST && bio; ++i) {
		async_bio_completed(address_of(bio), now, error, ended);
		bio = BPF_CORE_READ(bio, bi_next);
	}
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where asynchronous direct I/O begins and ends: iomap's tracepoints, from 6.6 on. */
#include "bpf/async.bpf.h"

static __always_inline u64 user_id_of(struct kiocb *iocb, u32 call)
{
	if (call == CALL_IO_SUBMIT)
		return BPF_CORE_READ((struct aio_kiocb *)iocb, ki_res.data);
	/* io_uring keeps the kiocb at the beginning of the request. */
	return BPF_CORE_READ((struct io_kiocb *)iocb, cqe.user_data);
}

/* Locks and the journal are behind it, the bios are still to come. */
SEC("tp_btf/iomap_dio_rw_begin")
int BPF_PROG(iomap_dio_rw_begin, struct kiocb *iocb, struct iov_iter *iter)
{
	struct async_entry *entry;
	struct task_state *state;

	if (!window_open || !iocb)
		return 0;
	state = current_state();
	if (!state || !state->dev_slot || !call_is_async(state->call))
		return 0;
	entry = asyncs_insert(address_of(iocb));
	if (!entry)
		return 0;
	name_current(&entry->task);
	entry->call_ns = state->call_start_ns;
	entry->begin_ns = bpf_ktime_get_ns();
	entry->queued_ns = 0;
	entry->issue_ns = 0;
	entry->complete_ns = 0;
	entry->ino = BPF_CORE_READ(iocb, ki_filp, f_inode, i_ino);
	entry->user_id = user_id_of(iocb, state->call);
	entry->offset = BPF_CORE_READ(iocb, ki_pos);
	entry->sector = ~0ULL;
	entry->dev = state->dev;
	entry->dev_slot = state->dev_slot;
	entry->flags = 0;
	if (state->call == CALL_IO_URING_ENTER)
		entry->flags |= ASYNC_URING;
	if (BPF_CORE_READ(iter, data_source))
		entry->flags |= ASYNC_WRITE;
	return 0;
}

static __always_inline void record_parts(struct async_entry *entry, u64 done)
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

SEC("tp_btf/iomap_dio_complete")
int BPF_PROG(iomap_dio_complete, struct kiocb *iocb, int error, s64 result)
{
	struct wire_async event = {};
	struct async_entry *entry;
	u64 now;

	if (!window_open || !iocb)
		return 0;
	entry = asyncs_find(address_of(iocb));
	if (!entry)
		return 0;
	now = bpf_ktime_get_ns();
	record_parts(entry, now);
	if (now - entry->call_ns >= config.threshold_ns) {
		event.header.kind = WIRE_ASYNC;
		event.header.size = sizeof(event);
		event.task = entry->task;
		event.dev = entry->dev;
		event.flags = entry->flags;
		event.ino = entry->ino;
		event.user_id = entry->user_id;
		event.iocb = address_of(iocb);
		event.call_ns = entry->call_ns;
		event.begin_ns = entry->begin_ns;
		event.queued_ns = entry->queued_ns;
		event.issue_ns = entry->issue_ns;
		event.complete_ns = entry->complete_ns;
		event.done_ns = now;
		event.offset = entry->offset;
		event.sector = entry->sector;
		event.bytes = result > 0 ? (u32)result : 0;
		event.result = error ? error : (s32)result;
		emit(&event, sizeof(event), LOSS_RING_OTHER);
	}
	asyncs_remove(address_of(iocb));
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where asynchronous direct I/O begins and ends: iomap's tracepoints, from 6.6 on; before that the
 * first bio (block.bpf.c) and the completion's function. */
#include "bpf/async.bpf.h"
#include "bpf/calls.bpf.h"

#define O_DIRECT 040000

/* A request that cannot be started without blocking goes to a worker: it is followed from here, in
 * the submitter, whoever starts it. */
static __always_inline int request_submitted(struct io_kiocb *req)
{
	struct wire_async_entry *entry;
	struct task_state *state;
	struct file *file;

	if (!window_open || !req)
		return 0;
	state = current_state();
	if (!state || state->call != CALL_IO_URING_ENTER)
		return 0;
	/* The file is looked up when the request is issued; a registered one has no number. */
	if (BPF_CORE_READ(req, flags) & 1)
		return 0;
	file = file_of_fd((u32)BPF_CORE_READ(req, cqe.fd));
	if (!state->dev_slot) {
		state->user_id = BPF_CORE_READ(req, cqe.user_data);
		set_file(state, file);
	}
	if (!state->dev_slot || !file || !(BPF_CORE_READ(file, f_flags) & O_DIRECT))
		return 0;
	entry = asyncs_insert(address_of(req));
	if (!entry)
		return 0;
	begin_async(entry, state, file);
	entry->user_id = BPF_CORE_READ(req, cqe.user_data);
	entry->flags = ASYNC_URING;
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(io_uring_submit_req, struct io_kiocb *req)
{
	return request_submitted(req);
}

/* its name before 6.3 */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(io_uring_submit_sqe, struct io_kiocb *req)
{
	return request_submitted(req);
}

/* Locks and the journal are behind it, the bios are still to come. */
SEC("tp_btf/iomap_dio_rw_begin")
int BPF_PROG(iomap_dio_rw_begin, struct kiocb *iocb, struct iov_iter *iter)
{
	struct wire_async_entry *entry;
	struct task_state *state;

	if (!window_open || !iocb)
		return 0;
	entry = asyncs_find(address_of(iocb));
	if (!entry || !(entry->flags & ASYNC_URING)) {
		state = current_state();
		if (!state || state->call != CALL_IO_SUBMIT)
			return 0;
		/* the first iocb was not resident when the call began */
		if (!state->dev_slot)
			set_file(state, BPF_CORE_READ(iocb, ki_filp));
		if (!state->dev_slot)
			return 0;
		entry = asyncs_insert(address_of(iocb));
		if (!entry)
			return 0;
		begin_async(entry, state, BPF_CORE_READ(iocb, ki_filp));
		entry->user_id = BPF_CORE_READ((struct aio_kiocb *)iocb, ki_res.data);
	}
	entry->begin_ns = bpf_ktime_get_ns();
	entry->offset = BPF_CORE_READ(iocb, ki_pos);
	if (BPF_CORE_READ(iter, data_source))
		entry->flags |= ASYNC_WRITE;
	return 0;
}

SEC("tp_btf/iomap_dio_complete")
int BPF_PROG(iomap_dio_complete, struct kiocb *iocb, int error, s64 result)
{
	struct wire_async_entry *entry;
	u64 key;

	if (!window_open || !iocb)
		return 0;
	key = address_of(iocb);
	entry = asyncs_find(key);
	/* An io_uring request ends when its completion is posted. */
	if (entry && !(entry->flags & ASYNC_URING))
		finish_async(key, entry, error ? error : (s32)result);
	return 0;
}

/* Before 6.6: every AIO read and write ends here (fs/aio.c), also one that was done at once. */
SEC("fentry/aio_complete_rw")
int BPF_PROG(aio_complete_rw, struct kiocb *iocb, long result)
{
	struct wire_async_entry *entry;
	u64 key = address_of(iocb);

	if (!window_open)
		return 0;
	entry = asyncs_find(key);
	if (entry && !(entry->flags & ASYNC_URING))
		finish_async(key, entry, (s32)result);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(io_uring_complete, void *ring, void *req)
{
	struct wire_async_entry *entry;
	u64 key = (u64)req;

	if (!window_open)
		return 0;
	entry = asyncs_find(key);
	if (!entry || !(entry->flags & ASYNC_URING))
		return 0;
	if (entry->begin_ns)
		finish_async(key, entry, 0);
	else
		asyncs_remove(key); /* not direct I/O after all */
	return 0;
}

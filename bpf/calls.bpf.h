/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A call's life in its task's state: begun, given its file, ended. */
#ifndef STALLTRACE_CALLS_BPF_H
#define STALLTRACE_CALLS_BPF_H

#include "bpf/state.bpf.h"
#include "bpf/waits.bpf.h"

#define WIRE_PATH_BYTES (WIRE_PATH_PARTS * WIRE_PATH_PART)

/* wire_call is too large for the BPF stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_call);
} call_buffers SEC(".maps") __weak;

#define S_IFMT 00170000
#define S_IFBLK 0060000

static __always_inline u32 file_device(struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	/* f_inode of an opened device node is the node's own inode, on devtmpfs. */
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		return BPF_CORE_READ(inode, i_rdev);
	return BPF_CORE_READ(inode, i_sb, s_dev);
}

static __always_inline struct file *file_of_fd(u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = task->files->fdt;
	struct file *file = NULL;
	struct file **fds;

	if (!table || fd >= table->max_fds)
		return NULL;
	fds = table->fd;
	bpf_probe_read_kernel(&file, sizeof(file), fds + fd);
	return file;
}

static __always_inline bool is_traced_file(struct file *file)
{
	return file && traced_slot(file_device(file));
}

static __always_inline void set_device(struct task_state *state, u32 dev)
{
	state->dev = dev;
	state->dev_slot = traced_slot(dev);
}

static __always_inline void set_file(struct task_state *state, struct file *file)
{
	if (!file)
		return;
	state->file = (u64)file;
	state->ino = BPF_CORE_READ(file, f_inode, i_ino);
	set_device(state, file_device(file));
}

static __always_inline void begin_call(struct task_state *state, u32 call, u32 syscall)
{
	state->call_start_ns = bpf_ktime_get_ns();
	state->call = call;
	state->syscall = syscall;
	state->call_flags = 0;
	state->file = 0;
	state->user_path = 0;
	state->user_id = 0;
	state->ino = 0;
	state->dev = 0;
	state->dev_slot = 0;
	state->sync_tid = 0;
	state->sync_inode = 0;
	state->short_waits = 0;
	state->short_blocked_ns = 0;
	state->short_runnable_ns = 0;
	state->wanted = 0;
	state->slots = 0;
	state->asleep = 0;
}

static __always_inline void read_path(struct wire_call *event, struct task_state *state)
{
	/* apart: CO-RE must not take the state for a kernel type */
	struct file *file = (void *)state->file;
	struct dentry *dentry = BPF_CORE_READ(file, f_path.dentry);

	for (int i = 0; i < WIRE_PATH_PARTS; ++i) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

		bpf_probe_read_kernel_str(event->path[i], WIRE_PATH_PART,
					  BPF_CORE_READ(dentry, d_name.name));
		if (parent == dentry)
			break;
		dentry = parent;
	}
	event->flags |= CALL_HAS_PATH;
}

static __always_inline void emit_call(struct task_state *state, u64 end_ns, s64 result)
{
	u32 zero = 0;
	struct wire_call *event = bpf_map_lookup_elem(&call_buffers, &zero);

	if (!event)
		return;
	event->header.kind = WIRE_CALL;
	event->header.size = sizeof(*event);
	event->start_ns = state->call_start_ns;
	event->end_ns = end_ns;
	event->call = state->call;
	event->syscall = state->syscall;
	event->flags = state->call_flags;
	event->dev = state->dev;
	event->ino = state->ino;
	event->result = result;
	event->user_id = state->user_id;
	event->sync_tid = state->sync_tid;
	event->short_waits = state->short_waits;
	event->short_blocked_ns = state->short_blocked_ns;
	event->short_runnable_ns = state->short_runnable_ns;
	for (int i = 0; i < WIRE_PATH_PARTS; ++i)
		event->path[i][0] = 0;
	if (state->file) {
		read_path(event, state);
	} else if (state->user_path) {
		if (bpf_probe_read_user_str(event->path, WIRE_PATH_BYTES,
					    (void *)state->user_path) > 0)
			event->flags |= CALL_USER_PATH;
	}
	emit(event, sizeof(*event), LOSS_RING_CALL);
}


static __always_inline void end_call(struct task_state *state, s64 result)
{
	u64 now = bpf_ktime_get_ns();
	u64 took = now - state->call_start_ns;
	u32 zero = 0;
	struct wire_call *event;

	close_lost_sleep(state, bpf_get_current_task_btf());
	/* A call by name whose file system was never entered concerns no traced device; sync and
	 * the like concern all. */
	if (!state->dev_slot && state->call != CALL_SYNC) {
		state->call = CALL_NONE;
		state->slots = 0;
		return;
	}
	record_hist(state->dev_slot ? state->dev_slot : 1, state->call, took);
	if (took >= config.threshold_ns || state->wanted) {
		if (took < config.threshold_ns)
			state->call_flags |= CALL_WANTED;
		send_gathered(state);
		event = bpf_map_lookup_elem(&call_buffers, &zero);
		if (event)
			name_current(&event->task);
		emit_call(state, now, result);
	}
	state->slots = 0;
	state->call = CALL_NONE;
	state->wanted = 0;
}

#endif

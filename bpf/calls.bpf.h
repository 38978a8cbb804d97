/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A call's life in its task's state: begun, given its file, ended. */
#ifndef STALLTRACE_CALLS_BPF_H
#define STALLTRACE_CALLS_BPF_H

#include "bpf/state.bpf.h"
#include "bpf/whose.bpf.h"
#include "bpf/sync.bpf.h"
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

static __always_inline struct file *file_of(struct task_struct *task, u32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **fds = BPF_CORE_READ(table, fd);
	struct file *file = NULL;

	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), fds + fd);
	return file;
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

#define SYSFS_MAGIC 0x62656572

/* Writing to a sysfs file may freeze a queue (block/blk-sysfs.c, elevator.c). */
static __always_inline bool is_sysfs(struct file *file)
{
	return file && BPF_CORE_READ(file, f_inode, i_sb, s_magic) == SYSFS_MAGIC;
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
	state->sync_start_ns = 0;
	state->syncing_dev = 0;
	state->ran_before_ns = bpf_get_current_task_btf()->se.sum_exec_runtime;
	state->short_waits = 0;
	state->short_blocked_ns = 0;
	state->short_runnable_ns = 0;
	state->wanted = 0;
	state->slots = 0;
	state->asleep = 0;
	state->idle_unsent = 0;
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

/* In a buffer of this CPU; null if there is none. */
static __always_inline struct wire_call *fill_call(struct task_state *state,
						   struct task_struct *task, u64 end_ns, s64 result)
{
	u32 zero = 0;
	struct wire_call *event = bpf_map_lookup_elem(&call_buffers, &zero);

	if (!event)
		return 0;
	event->header.kind = WIRE_CALL;
	event->header.size = sizeof(*event);
	name_task(&event->task, task);
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
	event->ran_ns = 0;
	if (!(state->call_flags & CALL_CUT_START))
		event->ran_ns = task->se.sum_exec_runtime - state->ran_before_ns + 1;
	event->short_waits = state->short_waits;
	event->short_blocked_ns = state->short_blocked_ns;
	event->short_runnable_ns = state->short_runnable_ns;
	say_whose(event, task);
	for (int i = 0; i < WIRE_PATH_PARTS; ++i)
		event->path[i][0] = 0;
	if (state->file) {
		read_path(event, state);
	} else if (state->user_path && (u32)bpf_get_current_pid_tgid() == (u32)task->pid) {
		/* An iterator would read it from its own memory. */
		if (bpf_probe_read_user_str(event->path, WIRE_PATH_BYTES,
					    (void *)state->user_path) > 0)
			event->flags |= CALL_USER_PATH;
	}
	return event;
}

static __always_inline void emit_call(struct task_state *state, struct task_struct *task, u64 end_ns,
				      s64 result)
{
	struct wire_call *event = fill_call(state, task, end_ns, result);

	if (event)
		emit(event, sizeof(*event), LOSS_RING_CALL);
}

/* Is the task still in the call that its state says? One that was adopted may have left it in the
 * moment before the hooks saw it. */
static __always_inline bool in_its_call(struct task_struct *task, struct task_state *state)
{
	struct pt_regs *regs;

	if (!state->call || !state->syscall) /* none, or a kernel worker's */
		return state->call;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	return BPF_CORE_READ(regs, orig_ax) == state->syscall;
}

#define AT_FDCWD -100

/* A slow call by name that met no hook of its file system (only ext4 has such): a relative path is
 * on its directory's, an absolute one is left to user space. Returns whether it may be ours. */
static __always_inline bool find_named_device(struct task_state *state, struct task_struct *task)
{
	struct super_block *sb;
	struct file *dir;
	char first = 0;

	if (!state->user_path ||
	    bpf_probe_read_user(&first, sizeof(first), (void *)state->user_path))
		return false;
	if (first == '/')
		return true;
	if (state->path_dir == AT_FDCWD) {
		sb = BPF_CORE_READ(task, fs, pwd.dentry, d_sb);
	} else {
		dir = file_of_fd(state->path_dir);
		sb = BPF_CORE_READ(dir, f_inode, i_sb);
	}
	set_device(state, BPF_CORE_READ(sb, s_dev));
	return state->dev_slot;
}

/* The call is over; what is recorded of the task from now on belongs to none. */
static __always_inline void forget_call(struct task_state *state)
{
	state->call = CALL_NONE;
	state->slots = 0;
	state->wanted = 0;
	state->dev = 0;
	state->ino = 0;
}

static __always_inline void end_call(struct task_state *state, s64 result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 now = bpf_ktime_get_ns();
	u64 took = now - state->call_start_ns;
	bool knob = state->call_flags & CALL_KNOB;

	close_lost_sleep(state, task);
	if (state->sync_start_ns) /* sync, syncfs */
		end_sync(state, result);
	/* A call by name whose file system was never entered concerns no traced device; sync and
	 * the like concern all. */
	if (!state->dev_slot && state->call != CALL_SYNC && !knob &&
	    ((took < config.threshold_ns && !state->wanted) || !find_named_device(state, task))) {
		forget_call(state);
		return;
	}
	if (!knob && (state->dev_slot || state->call == CALL_SYNC))
		record_hist(state->dev_slot ? state->dev_slot : 1, state->call, took);
	if (took >= config.threshold_ns || state->wanted || (knob && took >= config.request_floor_ns)) {
		if (took < config.threshold_ns)
			state->call_flags |= CALL_WANTED;
		send_gathered(state);
		emit_call(state, task, now, result);
	}
	forget_call(state);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where calls begin and end: the syscall tracepoints. */
#include "bpf/state.bpf.h"
#include "bpf/calls.bpf.h"
#include "bpf/dirtied.bpf.h"
#include "bpf/freeze.bpf.h"

#define O_CREAT 0100

/* struct iocb of the user ABI (linux/aio_abi.h) */
struct user_iocb {
	u64 data;
	u32 key, rw_flags;
	u16 opcode;
	s16 prio;
	u32 fd;
};

static __always_inline void find_target(struct task_state *state, u32 target, struct pt_regs *regs)
{
	struct user_iocb iocb = {};
	u64 pointer = 0;

	switch (target) {
	case TARGET_FD:
		set_file(state, file_of_fd((u32)regs->di));
		break;
	case TARGET_IOCBS:
		if ((long)regs->si <= 0)
			break;
		if (bpf_probe_read_user(&pointer, sizeof(pointer), (void *)regs->dx) ||
		    bpf_probe_read_user(&iocb, sizeof(iocb), (void *)pointer)) {
			count_loss(LOSS_USER_READ);
			break;
		}
		state->user_id = iocb.data;
		set_file(state, file_of_fd(iocb.fd));
		break;
	case TARGET_PATH0:
	case TARGET_OPEN:
		state->user_path = regs->di;
		state->path_dir = AT_FDCWD;
		break;
	case TARGET_PATH1:
	case TARGET_OPENAT:
		state->user_path = regs->si;
		state->path_dir = (s32)regs->di;
		break;
	default:
		break;
	}
}

static __always_inline bool wants_device_early(u32 target)
{
	return target == TARGET_FD || target == TARGET_IOCBS;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long id)
{
	struct task_state *state;
	u32 call, target, knob = 0;

	if (id < 0 || id >= WIRE_SYSCALLS)
		return 0;
	target = config.rules[id & (WIRE_SYSCALLS - 1)].target;
	if (!target || !window_open)
		return 0;
	if (target == TARGET_FREEZE) {
		begin_freeze_ioctl(regs);
		return 0;
	}
	call = config.rules[id & (WIRE_SYSCALLS - 1)].call;
	if (target == TARGET_OPEN && !(regs->si & O_CREAT))
		return 0;
	if (target == TARGET_OPENAT && !(regs->dx & O_CREAT))
		return 0;
	if (bpf_get_current_pid_tgid() >> 32 == config.own_tgid)
		return 0;
	if (target == TARGET_FD) {
		struct file *file = file_of_fd((u32)regs->di);

		if (!is_traced_file(file)) {
			if (call != CALL_WRITE || !is_sysfs(file))
				return 0;
			knob = CALL_KNOB;
		}
	}
	state = make_current_state();
	if (!state)
		return 0;
	begin_call(state, call, id);
	state->call_flags = knob;
	find_target(state, target, regs);
	/* A first iocb that could not be read leaves the device open until the file system is
	 * entered; one on another device ends the matter here. */
	if (wants_device_early(target) && state->file && !state->dev_slot && !knob)
		state->call = CALL_NONE;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	u64 id = regs->orig_ax;
	struct task_state *state;

	if (id >= WIRE_SYSCALLS || !config.rules[id & (WIRE_SYSCALLS - 1)].target || !window_open)
		return 0;
	state = current_state();
	if (!state)
		return 0;
	if (state->call)
		end_call(state, result);
	else if (state->freezing || state->thawing)
		end_freeze_ioctl(state, result);
	return 0;
}

/* A task killed in a call never returns from it. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	struct task_state *state = current_state();
	u32 pid = task->tgid;

	if (window_open && state) {
		if (state->call)
			end_call(state, -4 /* EINTR */);
		send_dirtied(state);
	}
	/* Its number may soon be another's. */
	if (config.follows && task->pid == task->tgid)
		bpf_map_delete_elem(&followed, &pid);
	return 0;
}

/* Waiting for completions on purpose is no part of the submission. Who asks for none only has
 * them posted (IORING_SETUP_DEFER_TASKRUN), and still does not want to wait. */
SEC("tp_btf/io_uring_cqring_wait")
int BPF_PROG(io_uring_cqring_wait, void *ring, int min_events)
{
	struct task_state *state;

	if (!window_open || min_events <= 0)
		return 0;
	state = current_state();
	if (state && state->call == CALL_IO_URING_ENTER)
		end_call(state, 0);
	return 0;
}

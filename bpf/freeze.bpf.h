/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* File systems that are frozen by ioctl (fsfreeze, snapshots): who did it, from when to when. */
#ifndef STALLTRACE_FREEZE_BPF_H
#define STALLTRACE_FREEZE_BPF_H

#include "bpf/calls.bpf.h"

#define FIFREEZE 0xc0045877 /* linux/fs.h: _IOWR('X', 119, int) */
#define FITHAW 0xc0045878

/* Frozen file systems by dev_t. User space reads what is left when the window closes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct wire_freeze);
} freezes SEC(".maps") __weak;

static __always_inline void begin_freeze_ioctl(struct pt_regs *regs)
{
	u32 command = (u32)regs->si;
	struct wire_freeze freeze = {};
	struct task_state *state;
	struct file *file;
	u32 dev;

	if (command != FIFREEZE && command != FITHAW)
		return;
	file = file_of_fd((u32)regs->di);
	if (!is_traced_file(file))
		return;
	state = make_current_state();
	if (!state)
		return;
	dev = file_device(file);
	if (command == FITHAW) {
		state->thawing = dev;
		return;
	}
	/* New writers wait from here on, while freeze_super (fs/super.c) syncs what there is. */
	state->freezing = dev;
	name_current(&freeze.task);
	freeze.dev = dev;
	freeze.start_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&freezes, &dev, &freeze, BPF_NOEXIST);
}

static __always_inline void end_freeze_ioctl(struct task_state *state, s64 result)
{
	u32 dev = state->freezing ? state->freezing : state->thawing;
	struct wire_freeze *freeze = bpf_map_lookup_elem(&freezes, &dev);
	bool thawed = state->thawing && !result;
	bool failed = state->freezing && result;

	state->freezing = 0;
	state->thawing = 0;
	if (!freeze || !(thawed || failed))
		return;
	/* A second freezer is refused (EBUSY) and must not take the first one's entry away. */
	if (failed && freeze->task.tid != (u32)bpf_get_current_pid_tgid())
		return;
	freeze->header.kind = WIRE_FREEZE;
	freeze->header.size = sizeof(*freeze);
	freeze->end_ns = bpf_ktime_get_ns();
	emit(freeze, sizeof(*freeze), LOSS_RING_OTHER);
	bpf_map_delete_elem(&freezes, &dev);
}

#endif

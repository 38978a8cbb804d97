/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose a call is, as containers see it: the numbers in the task's own pid namespace, its mount
 * namespace, its cgroup; and whether it is of a process that is followed. */
#ifndef STALLTRACE_WHOSE_BPF_H
#define STALLTRACE_WHOSE_BPF_H

#include "bpf/state.bpf.h"

/* Processes that are followed, by pid: user space puts the first ones in, fork adds to them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
} followed SEC(".maps") __weak;

static __always_inline bool is_followed(u32 tgid)
{
	return config.follows && bpf_map_lookup_elem(&followed, &tgid);
}

/* 0 in the initial namespace, where the number is the one that everybody knows. */
static __always_inline u32 number_inside(struct pid *pid)
{
	u32 level = BPF_CORE_READ(pid, level);
	struct upid innermost = {};

	if (!pid || !level)
		return 0;
	bpf_probe_read_kernel(&innermost.nr, sizeof(innermost.nr),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	return innermost.nr;
}

static __always_inline void say_whose(struct wire_call *call, struct task_struct *task)
{
	call->inner_tid = number_inside(BPF_CORE_READ(task, thread_pid));
	call->inner_pid = call->inner_tid ?
				  number_inside(BPF_CORE_READ(task, group_leader, thread_pid)) :
				  0;
	call->mnt_ns = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	call->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	if (is_followed(task->tgid))
		call->flags |= CALL_FOLLOWED;
}

#endif

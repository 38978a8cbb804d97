/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tasks that are ready to run and get no CPU because a cgroup of theirs has used up its CPU quota
 * (cpu.max). Before Linux 6.18 that stops a task wherever it is, also with locks and handles held. */
#ifndef STALLTRACE_QUOTA_BPF_H
#define STALLTRACE_QUOTA_BPF_H

#include "bpf/state.bpf.h"

#define QUOTA_FLOOR_NS 1000000 /* shorter waits for a CPU are not asked about */
#define QUOTA_LEVELS 4 /* of nested cgroups; a quota further up is not noticed */

/* Since 6.18 the quota stops a task on its way to user space only: not inside a call. */
static __always_inline bool quota_stops_in_kernel(void)
{
	return bpf_core_field_exists(struct task_group, cfs_bandwidth.throttled_time) &&
	       !bpf_core_field_exists(struct task_struct___deferred, throttled);
}

/* For how long the task's cgroups were stopped by now. The scheduler adds what has just ended before
 * it lets the tasks run again. */
static __always_inline u64 stopped_by_quota_ns(struct task_struct *task)
{
	struct task_group *group;
	u64 sum = 0;

	if (!quota_stops_in_kernel())
		return 0;
	group = BPF_CORE_READ(task, sched_task_group);
	for (int level = 0; level < QUOTA_LEVELS; level++) {
		if (!group)
			break;
		sum += BPF_CORE_READ(group, cfs_bandwidth.throttled_time);
		group = BPF_CORE_READ(group, parent);
	}
	return sum;
}

/* Is one of them stopped now, on the CPU whose runqueue the task is on? */
static __always_inline bool is_stopped_by_quota(struct task_struct *task)
{
	return quota_stops_in_kernel() && BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
}

#endif

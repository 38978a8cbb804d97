/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Is this CPU in an interrupt? Whoever is woken then was not woken by the current task. The
 * preempt count says so, but its address is not to be had everywhere: __preempt_count needs
 * CONFIG_KALLSYMS_ALL, and from 6.2 to 6.16 it was a member of pcpu_hot. So the entries and exits
 * are counted.
 */
#ifndef STALLTRACE_INTERRUPTS_BPF_H
#define STALLTRACE_INTERRUPTS_BPF_H

#include "bpf/state.bpf.h"

struct interrupt_depth {
	u32 soft;
	u32 hard;
	u64 softirqs; /* begun so far: the number of the one that runs */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct interrupt_depth);
} interrupt_depths SEC(".maps") __weak;

static __always_inline struct interrupt_depth *interrupt_depth(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&interrupt_depths, &zero);
}

static __always_inline void leave_interrupts(void)
{
	struct interrupt_depth *depth = interrupt_depth();

	if (depth) {
		depth->soft = 0;
		depth->hard = 0;
	}
}

/* The softirq that this CPU runs; 0: none. They do not nest. */
static __always_inline u64 current_softirq(void)
{
	struct interrupt_depth *depth = interrupt_depth();

	return depth && depth->soft ? depth->softirqs : 0;
}

static __always_inline u32 waker_context(void)
{
	struct interrupt_depth *depth = interrupt_depth();

	if (!depth)
		return WAKER_UNKNOWN;
	if (depth->hard)
		return WAKER_HARDIRQ;
	return depth->soft ? WAKER_SOFTIRQ : WAKER_TASK;
}

#endif

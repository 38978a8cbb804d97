/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "bpf/interrupts.bpf.h"

/* Kept whether the window is open or not: an interrupt may begin before it and end after. An exit
 * met first, its entry before we were attached, leaves the depth at zero. */
SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry)
{
	struct interrupt_depth *depth = interrupt_depth();

	if (depth) {
		++depth->soft;
		++depth->softirqs;
	}
	return 0;
}

#define COUNT_INTERRUPT(name, field, by)                                                           \
	SEC("tp_btf/" #name)                                                                       \
	int BPF_PROG(name)                                                                         \
	{                                                                                          \
		struct interrupt_depth *depth = interrupt_depth();                                 \
                                                                                                   \
		if (depth && (by > 0 || depth->field))                                             \
			depth->field += by;                                                        \
		return 0;                                                                          \
	}

COUNT_INTERRUPT(softirq_exit, soft, -1)
COUNT_INTERRUPT(irq_handler_entry, hard, 1)
COUNT_INTERRUPT(irq_handler_exit, hard, -1)
COUNT_INTERRUPT(hrtimer_expire_entry, hard, 1)
COUNT_INTERRUPT(hrtimer_expire_exit, hard, -1)

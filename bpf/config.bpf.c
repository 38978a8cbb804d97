/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space sets, and the licence of the whole object. */
#include "bpf/state.bpf.h"

const volatile struct wire_config config = {};
int window_open = 0;
unsigned long long window_open_ns = 0;
int some_pass_unseen = 0;

char LICENSE[] SEC("license") = "Dual BSD/GPL";

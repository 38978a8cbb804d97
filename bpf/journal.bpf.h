/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef STALLTRACE_JOURNAL_BPF_H
#define STALLTRACE_JOURNAL_BPF_H

#include "bpf/state.bpf.h"

/* The commit under way in each journal, by struct journal_s *. User space reads what is left when
 * the window closes: unfinished commits. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u64);
	__type(value, struct wire_commit);
} commits SEC(".maps") __weak;

/* jbd2 threads that were there when the window opened: tid -> struct journal_s *. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u64);
} journal_threads SEC(".maps") __weak;

#endif

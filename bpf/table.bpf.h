/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lock-free table keyed by kernel address, for things that live shortly and are many: requests
 * and iocbs. A BPF hash takes a lock per access, which has cost others 13 % of the IOPS. Here a
 * key has one bucket of 8 places; an insertion claims a free one by compare-and-exchange. A full
 * bucket is counted as lost, never overwritten.
 */
#ifndef STALLTRACE_TABLE_BPF_H
#define STALLTRACE_TABLE_BPF_H

#include "bpf/state.bpf.h"

/* A typed pointer as a number: the verifier allows no arithmetic on it otherwise. */
static __always_inline u64 address_of(const void *pointer)
{
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &pointer);
	return address;
}

static __always_inline u32 table_bucket(u64 key)
{
	return (u32)((key * 0x9e3779b97f4a7c15ULL) >> 52) & (WIRE_TABLE_BUCKETS - 1);
}

#define DEFINE_TABLE(name, entry_type)                                                             \
	struct name##_bucket {                                                                     \
		u64 key[WIRE_TABLE_PLACES];                                                             \
		entry_type entry[WIRE_TABLE_PLACES];                                                    \
	};                                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, WIRE_TABLE_BUCKETS);                                                \
		__type(key, u32);                                                                  \
		__type(value, struct name##_bucket);                                               \
	} name SEC(".maps") __weak;                                                                \
                                                                                                   \
	static __always_inline entry_type *name##_find(u64 key)                                    \
	{                                                                                          \
		u32 index = table_bucket(key);                                                     \
		struct name##_bucket *bucket = bpf_map_lookup_elem(&name, &index);                 \
                                                                                                   \
		if (!bucket)                                                                       \
			return NULL;                                                               \
		for (int i = 0; i < WIRE_TABLE_PLACES; ++i)                                             \
			if (bucket->key[i] == key)                                                 \
				return &bucket->entry[i];                                          \
		return NULL;                                                                       \
	}                                                                                          \
                                                                                                   \
	static __always_inline entry_type *name##_insert(u64 key)                                  \
	{                                                                                          \
		u32 index = table_bucket(key);                                                     \
		struct name##_bucket *bucket = bpf_map_lookup_elem(&name, &index);                 \
                                                                                                   \
		if (!bucket)                                                                       \
			return NULL;                                                               \
		for (int i = 0; i < WIRE_TABLE_PLACES; ++i)                                             \
			if (bucket->key[i] == key)                                                 \
				return &bucket->entry[i];                                          \
		for (int i = 0; i < WIRE_TABLE_PLACES; ++i)                                             \
			if (!bucket->key[i] &&                                                     \
			    __sync_val_compare_and_swap(&bucket->key[i], 0, key) == 0)             \
				return &bucket->entry[i];                                          \
		count_loss(LOSS_TABLE_FULL);                                                       \
		return NULL;                                                                       \
	}                                                                                          \
                                                                                                   \
	static __always_inline void name##_remove(u64 key)                                         \
	{                                                                                          \
		u32 index = table_bucket(key);                                                     \
		struct name##_bucket *bucket = bpf_map_lookup_elem(&name, &index);                 \
                                                                                                   \
		if (!bucket)                                                                       \
			return;                                                                    \
		for (int i = 0; i < WIRE_TABLE_PLACES; ++i)                                             \
			if (bucket->key[i] == key)                                                 \
				bucket->key[i] = 0;                                                \
	}

#endif

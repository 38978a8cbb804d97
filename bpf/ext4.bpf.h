/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef STALLTRACE_EXT4_BPF_H
#define STALLTRACE_EXT4_BPF_H

#include "bpf/state.bpf.h"

/* The transaction that must be committed before the inode is on disk: i_sync_tid, or
 * i_datasync_tid for fdatasync (fs/ext4/fsync.c). It may move while data is written out, so it is
 * read at the entry and again at each sleep. */
static __always_inline u32 ext4_wanted_transaction(u64 inode, u32 call)
{
	struct ext4_inode_info *info =
		(void *)(inode - bpf_core_field_offset(struct ext4_inode_info, vfs_inode));

	if (call == CALL_FDATASYNC)
		return BPF_CORE_READ(info, i_datasync_tid);
	return BPF_CORE_READ(info, i_sync_tid);
}

#endif

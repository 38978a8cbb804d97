/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Contended locks: which lock, which inode's, who has it. From 5.19 on. */
#include "bpf/state.bpf.h"
#include "bpf/calls.bpf.h"

#define XFS_SUPER_MAGIC 0x58465342

/* The owner word: a task pointer with flags in its low bits (kernel/locking/rwsem.c: bit 0 the
 * owner is a reader; kernel/locking/mutex.c: bits 0-2 waiters, handoff, pickup). */
static __always_inline void read_owner(struct task_state *state, u64 owner_addr)
{
	u64 word = 0;
	struct task_struct *owner;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)owner_addr);
	owner = (void *)(word & ~7ULL);
	if (!owner)
		return;
	state->lock_owner_is_reader = !(state->lock_flags & LCB_MUTEX) && (word & 1);
	state->lock_owner.tid = BPF_CORE_READ(owner, pid);
	state->lock_owner.pid = BPF_CORE_READ(owner, tgid);
	bpf_probe_read_kernel_str(state->lock_owner.comm, sizeof(state->lock_owner.comm),
				  owner->comm);
}

/* The inode whose i_rwsem this is, if it is one: its page-cache head points back to it. */
static __always_inline void find_inode(struct task_state *state, u64 rwsem)
{
	struct inode *inode = (void *)(rwsem - bpf_core_field_offset(struct inode, i_rwsem));

	if (BPF_CORE_READ(inode, i_data.host) != inode)
		return;
	state->lock_ino = BPF_CORE_READ(inode, i_ino);
	state->lock_dev = BPF_CORE_READ(inode, i_sb, s_dev);
}

/* XFS locks its metadata buffers by semaphores, which know no owner: before a kernel with
 * CONFIG_DETECT_HUNG_TASK_BLOCKER of 6.16. A buffer that is being written is locked by nobody but
 * its I/O; which that is, its place on the disk tells. */
static __always_inline void read_semaphore(struct task_state *state)
{
	struct block_device *bdev;
	struct xfs_buftarg *target;
	struct xfs_buf *buffer;

	if (bpf_core_field_exists(struct semaphore___held, last_holder))
		read_owner(state, state->lock_addr + bpf_core_field_offset(struct semaphore___held, last_holder));
	if (!bpf_core_type_exists(struct xfs_buf))
		return;
	buffer = (void *)(state->lock_addr - bpf_core_field_offset(struct xfs_buf, b_sema));
	target = BPF_CORE_READ(buffer, b_target);
	bdev = BPF_CORE_READ(target, bt_bdev);
	if (!bdev || BPF_CORE_READ(target, bt_mount) != BPF_CORE_READ(buffer, b_mount) ||
	    BPF_CORE_READ(buffer, b_mount, m_super, s_magic) != XFS_SUPER_MAGIC)
		return;
	state->lock_flags |= LCB_BUFFER;
	state->lock_dev = BPF_CORE_READ(bdev, bd_dev);
	state->lock_ino = BPF_CORE_READ(buffer, b_maps, bm_bn) + BPF_CORE_READ(bdev, bd_start_sect);
}

static __always_inline bool locks_are_rt_mutexes(void)
{
	return bpf_core_field_exists(struct rw_semaphore___rt, rwbase);
}

static __always_inline u64 rt_mutex_in_rwsem(void)
{
	return bpf_core_field_offset(struct rw_semaphore___rt, rwbase) +
	       bpf_core_field_offset(struct rwbase_rt___rt, rtmutex);
}

/* PREEMPT_RT (kernel/locking/rwbase_rt.c): a reader's wait names the rw_semaphore and then the
 * rt_mutex in it; a writer's the rt_mutex while there is another writer, then the rw_semaphore; a
 * mutex's the rt_mutex that it is. The owner is a writer, who may itself wait for readers. */
static __always_inline void read_rt_lock(struct task_state *state)
{
	u64 inner = rt_mutex_in_rwsem();
	u64 owner = bpf_core_field_offset(struct rt_mutex_base, owner);

	if (state->lock_flags & (LCB_READ | LCB_WRITE)) {
		read_owner(state, state->lock_addr + inner + owner);
		find_inode(state, state->lock_addr);
	} else {
		read_owner(state, state->lock_addr + owner);
		find_inode(state, state->lock_addr - inner);
	}
	state->lock_owner_is_reader = 0; /* the bit says that there are waiters */
}

/* May run with the lock's wait_lock held and interrupts off: no allocation, no waiting. */
SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, u32 flags)
{
	struct task_state *state;

	if (flags & LCB_SPIN) /* very frequent, and fired by our own maps: out at once */
		return 0;
	if (!window_open)
		return 0;
	/* Whatever the task does: that it sleeps for a lock is of interest beside calls, too, like an
	 * lseek's wait for the file position. */
	state = current_state();
	if (!state)
		return 0;
	if (state->lock_addr == (u64)lock) {
		/* A mutex begins again when its first waiter goes back to sleep: somebody else was
		 * quicker and has it now. */
		if ((flags & LCB_MUTEX) && !locks_are_rt_mutexes()) {
			state->lock_owner.tid = 0;
			read_owner(state, state->lock_addr + bpf_core_field_offset(struct mutex, owner));
		}
		return 0;
	}
	/* the same wait, named again by the lock's inner part */
	if (locks_are_rt_mutexes() && state->lock_addr &&
	    state->lock_addr + rt_mutex_in_rwsem() == (u64)lock)
		return 0;
	state->lock_addr = (u64)lock;
	state->lock_flags = flags;
	state->lock_ino = 0;
	state->lock_dev = 0;
	state->lock_owner.tid = 0;
	state->lock_owner_is_reader = 0;
	state->lock_sleeps = 0;
	if (flags & LCB_PERCPU)
		return 0;
	if (!(flags & (LCB_MUTEX | LCB_READ | LCB_WRITE | LCB_RT))) {
		read_semaphore(state);
	} else if (locks_are_rt_mutexes()) {
		read_rt_lock(state);
	} else if (flags & LCB_MUTEX) {
		read_owner(state, state->lock_addr + bpf_core_field_offset(struct mutex, owner));
	} else if (flags & (LCB_READ | LCB_WRITE)) {
		read_owner(state,
			   state->lock_addr + bpf_core_field_offset(struct rw_semaphore, owner));
		find_inode(state, state->lock_addr);
	}
	/* A first iocb that could not be read: the lock tells the file before the file system does. */
	if (state->call && !state->dev_slot && state->lock_ino && traced_slot(state->lock_dev)) {
		set_device(state, state->lock_dev);
		state->ino = state->lock_ino;
	}
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int result)
{
	struct task_state *state;

	if (!window_open)
		return 0;
	state = current_state();
	if (state && state->lock_addr == (u64)lock)
		state->lock_addr = 0;
	return 0;
}

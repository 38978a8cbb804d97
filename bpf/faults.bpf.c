/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tasks that block without a syscall of theirs: in page faults on mapped files, and in io_uring's
 * workers. There is no hook at the end of such work: its sleeps are recorded, user space makes
 * calls of them by their stacks. */
#include "bpf/state.bpf.h"
#include "bpf/calls.bpf.h"

static __always_inline void saw_fault(struct address_space *mapping)
{
	struct inode *host = BPF_CORE_READ(mapping, host);
	u32 dev = BPF_CORE_READ(host, i_sb, s_dev);
	struct task_state *state;

	if (!traced_slot(dev))
		return;
	state = make_current_state();
	if (!state || state->call)
		return;
	set_device(state, dev);
	state->ino = BPF_CORE_READ(host, i_ino);
}

/* mm/filemap.c filemap_fault, before it waits for anything; 6.11 and later. */
SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(mm_filemap_fault, struct address_space *mapping)
{
	if (window_open && mapping)
		saw_fault(mapping);
	return 0;
}

/* Before that: a fault that has to read adds a page, and then waits for it. */
SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(mm_filemap_add_to_page_cache, struct folio *folio)
{
	if (window_open && folio)
		saw_fault(BPF_CORE_READ(folio, mapping));
	return 0;
}

/* A worker of io_uring or a thread of the kernel's own is born; in process context, unlike its
 * first wake-up. */
SEC("tp_btf/task_newtask")
int BPF_PROG(task_newtask, struct task_struct *task)
{
	u32 parent = bpf_get_current_pid_tgid() >> 32, child = task->tgid;

	if (child != parent && is_followed(parent)) {
		u8 yes = 1;

		bpf_map_update_elem(&followed, &child, &yes, BPF_ANY);
	}
	if (!window_open || !(task->flags & (PF_IO_WORKER | PF_KTHREAD)))
		return 0;
	if (!bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		count_loss(LOSS_TASK_STORAGE);
	return 0;
}

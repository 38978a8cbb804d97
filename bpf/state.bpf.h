/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps, configuration and per-task state that all layers share. The maps are weak: every layer's
 * object has them, `bpftool gen object` keeps one. */
#ifndef STALLTRACE_STATE_BPF_H
#define STALLTRACE_STATE_BPF_H

#include "vmlinux/vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/wire.h"

#define TASK_SLOTS 4 /* waits gathered per call before they are sent early; a power of two */

#define IDLE_SLOT (TASK_SLOTS - 1) /* a task in no call gathers nothing: the slot is free then */

#define PF_IO_WORKER 0x10
#define PF_WQ_WORKER 0x20
#define PF_KTHREAD 0x200000

/* What we keep of a task, from its first call on a traced device on. */
struct task_state {
	/* the call under way */
	u64 call_start_ns;
	u64 file;     /* struct file *, 0 if the call has none */
	u64 user_path; /* user pointer to the path, for calls by name */
	s32 path_dir;  /* the file descriptor that it is relative to, or AT_FDCWD */
	u32 pad;
	u64 user_id;
	u64 ino;
	u32 call;     /* enum wire_call_kind; 0: none */
	u32 syscall;
	u32 call_flags;
	u32 dev;      /* 0: not yet known */
	u32 dev_slot; /* index + 1 of the traced device, 0: not yet known */
	u32 sync_tid;
	u64 sync_inode; /* struct inode *, while ext4 syncs it */
	u64 sync_start_ns; /* of the sync under way, 0: none */
	u64 sync_flush_ns;
	u64 sync_batch_ns;
	u64 sync_data_bytes;
	u32 sync_wanted;
	u32 sync_flags;
	u32 sync_dev;
	u32 syncing_dev; /* of sync and syncfs: the file system they are at, traced or not */
	u32 short_waits;
	u32 wanted;   /* this call made others wait: send it whatever it took */
	u64 short_blocked_ns;
	u64 short_runnable_ns;
	u64 ran_before_ns; /* se.sum_exec_runtime when the call began */

	/* the journal handle */
	u64 starting_ns;      /* ext4_journal_start*, until jbd2_handle_start */
	u64 starting_journal; /* struct journal_s * */
	u64 handle_start_ns;
	u64 handle_journal; /* struct journal_s * */
	u64 handle_ino;
	u32 handle_dev;
	u32 handle_tid;
	u32 handle_type;
	u32 handle_line;
	u64 handle_inode;   /* struct inode * that the handle is for, 0: none */
	u64 worked_inode;   /* struct inode * last noted in inode_workers, in transaction worked_tid */
	u32 worked_tid;
	u32 pad3;
	struct wire_dirtied dirtied; /* in the transaction that it joined last */

	/* the lock waited for */
	u64 lock_addr;
	u64 lock_ino;
	u32 lock_dev;
	u32 lock_flags;
	struct wire_task lock_owner;
	u32 lock_owner_is_reader;
	u32 lock_sleeps; /* for it so far */

	/* freezing a file system: its dev_t between ioctl's entry and exit */
	u32 freezing;
	u32 thawing;

	/* a kernel thread */
	u32 sends_io;    /* it sent I/O to a traced disk: whatever it sleeps for is of interest */
	u32 idle_unsent; /* slot[IDLE_SLOT] holds the last time that it had nothing to do */
	u64 idle_since;  /* a workqueue's worker without work; 0: it has some */

	/* a jbd2 thread */
	u32 journal_thread;
	struct wire_task requester;
	u64 requested_ns;
	u32 requested_outside_sync;
	u64 journal; /* struct journal_s * whose commit this thread runs just now */
	u64 data_inode;       /* struct inode * whose ordered data it writes just now */
	u64 data_inode_bytes; /* how much of that so far */

	/* asynchronous I/O being submitted */
	u64 iocb;

	u64 ran_at_out_ns; /* se.sum_exec_runtime when the sleep under way began */
	u64 delay_at_out_ns; /* sched_info.run_delay then */
	u64 stopped_at_waking_ns; /* by CPU quotas so far, when it became ready to run; see quota.bpf.h */
	u32 asleep; /* slot[slots] holds the sleep under way */
	u32 slots;  /* finished waits gathered in slot[] */
	struct wire_wait slot[TASK_SLOTS];
};

/* Set before loading (bpf/config.bpf.c). */
extern const volatile struct wire_config config;

/* The window: events are taken while it is set. */
extern int window_open;
extern unsigned long long window_open_ns; /* since when */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps") __weak;

/* dev_t of every traced disk, partition and file system -> slot number of its disk, plus one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u32);
} traced_devices SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSS_KINDS);
	__type(key, u32);
	__type(value, u64);
} losses SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HIST_KINDS); /* times the traced devices, set before loading */
	__type(key, u32);
	__type(value, struct wire_hist);
} hists SEC(".maps") __weak;

/* The request that this CPU completed last: who is woken right after was waiting for it. */
struct last_complete {
	struct wire_request_times times;
	u64 at_ns;
	u64 softirq; /* in which it was completed; 0: in none */
	u32 tid; /* of the task in whose context it was completed */
	u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct last_complete);
} last_completes SEC(".maps") __weak;

static __always_inline void count_loss(u32 kind)
{
	u64 *count = bpf_map_lookup_elem(&losses, &kind);

	if (count)
		++*count;
}

static __always_inline void emit(void *event, u32 size, u32 loss)
{
	/* The reader polls: a wake-up per event would cost the traced task more than the event. */
	if (bpf_ringbuf_output(&events, event, size, BPF_RB_NO_WAKEUP))
		count_loss(loss);
}

/* 0: not traced; else the device's slot number plus one. */
static __always_inline u32 traced_slot(u32 dev)
{
	u32 *slot = bpf_map_lookup_elem(&traced_devices, &dev);

	return slot ? *slot : 0;
}

static __always_inline struct task_state *state_of(struct task_struct *task)
{
	return bpf_task_storage_get(&tasks, task, 0, 0);
}

static __always_inline struct task_state *current_state(void)
{
	return state_of(bpf_get_current_task_btf());
}

/* Only from process context: allocating under a scheduler lock can deadlock. */
static __always_inline struct task_state *make_current_state(void)
{
	struct task_state *state = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0,
							BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!state)
		count_loss(LOSS_TASK_STORAGE);
	return state;
}

static __always_inline void name_current(struct wire_task *task)
{
	u64 ids = bpf_get_current_pid_tgid();

	task->tid = (u32)ids;
	task->pid = ids >> 32;
	bpf_get_current_comm(task->comm, sizeof(task->comm));
}

static __always_inline void name_task(struct wire_task *name, struct task_struct *task)
{
	name->tid = task->pid;
	name->pid = task->tgid;
	bpf_probe_read_kernel_str(name->comm, sizeof(name->comm), task->comm);
}

static __always_inline u32 log2_u64(u64 v)
{
	u32 r = 0;

	if (v >> 32) { v >>= 32; r += 32; }
	if (v >> 16) { v >>= 16; r += 16; }
	if (v >> 8) { v >>= 8; r += 8; }
	if (v >> 4) { v >>= 4; r += 4; }
	if (v >> 2) { v >>= 2; r += 2; }
	return r + (v >> 1 ? 1 : 0);
}

static __always_inline void record_hist(u32 dev_slot, u32 kind, u64 ns)
{
	u32 key = (dev_slot - 1) * HIST_KINDS + kind;
	struct wire_hist *hist = bpf_map_lookup_elem(&hists, &key);
	u32 index;

	if (!hist)
		return;
	if (ns < WIRE_HIST_SUB) {
		index = ns;
	} else {
		u32 e = log2_u64(ns);

		index = (e - 3) * WIRE_HIST_SUB + ((ns >> (e - 4)) & (WIRE_HIST_SUB - 1));
	}
	if (index >= WIRE_HIST_BUCKETS)
		index = WIRE_HIST_BUCKETS - 1;
	hist->bucket[index]++;
	hist->count++;
	hist->sum_ns += ns;
	if (ns > hist->max_ns)
		hist->max_ns = ns;
	if (ns >= config.threshold_ns) {
		hist->over++;
		hist->over_ns += ns;
	}
}

/* Sets the header; how much of the event there is, without the empty places of its stack. */
static __always_inline u32 wait_size(struct wire_wait *wait)
{
	u32 frames = wait->frames;
	u32 size;

	if (frames > WIRE_FRAMES)
		frames = WIRE_FRAMES;
	size = sizeof(*wait) - (WIRE_FRAMES - frames) * sizeof(u64);
	if (size > sizeof(*wait)) /* for the verifier */
		return 0;
	wait->header.kind = WIRE_WAIT;
	wait->header.size = size;
	return size;
}

static __always_inline void emit_wait(struct wire_wait *wait)
{
	u32 size = wait_size(wait);

	if (size)
		emit(wait, size, LOSS_RING_WAIT);
}

/* Sends the waits gathered so far. */
static __always_inline void send_gathered(struct task_state *state)
{
	for (u32 i = 0; i < TASK_SLOTS - 1; ++i) {
		if (i >= state->slots)
			break;
		emit_wait(&state->slot[i]);
	}
	/* A sleep under way lives behind the gathered ones; nobody sends while asleep except the
	 * closing iterator, which does not go on afterwards. */
	state->slots = 0;
}

#endif

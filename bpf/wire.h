/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The events that leave the kernel: one struct per kind, the same bytes on both sides.
 *
 * All times are nanoseconds of CLOCK_MONOTONIC (bpf_ktime_get_ns). 0 means "not seen".
 * Devices are the kernel's dev_t (major << 20 | minor): `dev` of files, journals and handles is
 * that of the mounted block device (a partition), `disk` of requests and flushes is the whole disk.
 * Events of one CPU arrive in order, events of several CPUs only nearly so: sort by time.
 */
#ifndef STALLTRACE_WIRE_H
#define STALLTRACE_WIRE_H

#ifdef __cplusplus
#include <cstdint>
namespace stalltrace::wire {
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using s32 = int32_t;
using u64 = uint64_t;
using s64 = int64_t;
#define WIRE_ASSERT static_assert
#else
#define WIRE_ASSERT _Static_assert
#endif

#define WIRE_VERSION 1

enum wire_limits {
	WIRE_COMM = 16,
	WIRE_FRAMES = 32,       /* the deepest seen had about 30 (ext4 append through mballoc) */
	WIRE_PATH_PARTS = 6,    /* file name and up to five folders above it */
	WIRE_PATH_PART = 40,
	WIRE_CGROUP_PARTS = 3,
	WIRE_DATA_PARTS = 3,
	WIRE_FLUSH_MEMBERS = 16,
	WIRE_HIST_SUB = 16,     /* buckets per power of two */
	WIRE_HIST_BUCKETS = 640,
	WIRE_DEVICES = 16,      /* devices traced at once */
	WIRE_SURVEYED = 32,     /* file systems and disks looked at when the window opens */
	WIRE_TABLE_PLACES = 8,  /* of a bucket of the lock-free tables (table.bpf.h) */
	WIRE_TABLE_BUCKETS = 4096, /* a power of two */
};

enum wire_kind {
	WIRE_CALL = 1,
	WIRE_WAIT,
	WIRE_COMMIT,
	WIRE_HANDLE,
	WIRE_FLUSH,
	WIRE_REQUEST,
	WIRE_ASYNC,
	WIRE_FREEZE,
	WIRE_THROTTLE,
	WIRE_SLICE,
	WIRE_SYNC,
	WIRE_DIRTIED,
};

/* The kinds of calls of the report. Numbers are append-only: recordings hold them. */
enum wire_call_kind {
	CALL_NONE = 0,
	CALL_IO_SUBMIT = 1,
	CALL_IO_URING_ENTER = 2,
	CALL_URING_WORKER = 3,
	CALL_URING_SQPOLL = 4,
	CALL_READ = 5,
	CALL_WRITE = 6,
	CALL_FSYNC = 7,
	CALL_FDATASYNC = 8,
	CALL_SYNC_FILE_RANGE = 9,
	CALL_SYNCFS = 10,
	CALL_SYNC = 11,
	CALL_MSYNC = 12,
	CALL_FALLOCATE = 13,
	CALL_TRUNCATE = 14,
	CALL_OPEN = 15,
	CALL_UNLINK = 16,
	CALL_RENAME = 17,
	CALL_MKDIR = 18,
	CALL_RMDIR = 19,
	CALL_LINK = 20,
	CALL_SETATTR = 21,
	CALL_XATTR = 22,
	CALL_FAULT = 23,
	CALL_KWORKER = 24,
	CALL_KINDS = 32,
};

/* Histograms kept per CPU beside those of the call kinds, from CALL_KINDS on. */
enum wire_hist_kind {
	HIST_AIO_TOTAL = CALL_KINDS,
	HIST_AIO_SUBMIT,
	HIST_AIO_QUEUE,
	HIST_AIO_DEVICE,
	HIST_AIO_COMPLETE,
	HIST_URING_TOTAL,
	HIST_URING_SUBMIT,
	HIST_URING_QUEUE,
	HIST_URING_DEVICE,
	HIST_URING_COMPLETE,
	HIST_REFUSED, /* counts bios with REQ_NOWAIT that found no request */
	HIST_KINDS = 48,
};

struct wire_header {
	u32 kind; /* enum wire_kind */
	u32 size; /* of the whole event */
};

struct wire_task {
	u32 tid;
	u32 pid; /* thread group */
	char comm[WIRE_COMM];
};

/* A block request as the waiter's waker saw it complete, or as it was on its own. */
struct wire_request_times {
	u32 disk;
	u32 op;          /* low 8 bits: 0 read, 1 write, 2 flush, 3 discard; above: REQ_* flags */
	u64 sector;      /* 512 bytes, from the start of the whole disk; ~0 for a flush */
	u32 bytes;
	u32 submitter;   /* tid that issued it to the driver (not always the one that wants it) */
	u64 start_ns;    /* request allocated (struct request.start_time_ns); 0 if not kept */
	u64 issue_ns;    /* handed to the driver */
	u64 complete_ns;
};

enum wire_wait_flags {
	WAIT_PREEMPTED = 1 << 0,    /* was runnable all the time: out..in is waiting for a CPU */
	WAIT_IN_CALL = 1 << 1,      /* inside the call that began at call_start_ns */
	WAIT_HANDLE_OPEN = 1 << 2,  /* the task held a journal handle of transaction handle_tid */
	WAIT_JOURNAL_THREAD = 1 << 3, /* the task is a jbd2 thread */
	WAIT_CUT_START = 1 << 4,    /* asleep before tracing began: out_ns is when we first saw it */
	WAIT_STILL_ASLEEP = 1 << 5, /* asleep when the window closed: in_ns is when we last saw it */
	WAIT_STARTING_HANDLE = 1 << 6, /* between ext4_journal_start* and jbd2_handle_start */
	WAIT_LOCK = 1 << 7,         /* lock_* fields hold the lock waited for (contention_begin) */
	WAIT_WAKER_REQUEST = 1 << 8, /* the waker was completing waker_request just then */
	WAIT_IOWAIT = 1 << 9,       /* task_struct.in_iowait */
	WAIT_IDLE = 1 << 10,        /* a workqueue's worker without work, until the waker gave it some */
	WAIT_QUOTA = 1 << 11,       /* ready to run, and stopped by its cgroup's CPU quota for most of it */
	WAIT_LOCK_AGAIN = 1 << 12,  /* it was woken, did not get the lock and sleeps for it again */
};

enum wire_waker_context {
	WAKER_UNKNOWN = 0,
	WAKER_TASK = 1,
	WAKER_SOFTIRQ = 2,
	WAKER_HARDIRQ = 3,
};

enum wire_lock_flags { /* include/trace/events/lock.h LCB_F_*, 5.19 and later */
	LCB_SPIN = 1,
	LCB_READ = 2,
	LCB_WRITE = 4,
	LCB_RT = 8,
	LCB_PERCPU = 16,
	LCB_MUTEX = 32,
	LCB_BUFFER = 1 << 16, /* ours: a metadata buffer's lock, lock_ino is where it is on the disk */
};

/*
 * One sleep of one task: blocked from out_ns to waking_ns, then runnable without a CPU until in_ns.
 * The same event for a call, a journal thread, a worker or a holder.
 */
struct wire_wait {
	struct wire_header header;
	struct wire_task task;
	u64 out_ns;
	u64 waking_ns;
	u64 in_ns;
	u64 call_start_ns;
	u32 flags;          /* enum wire_wait_flags */
	u32 state;          /* task state at the switch: 1 S, 2 D, ... */
	u32 dev;            /* of the file, lock or journal at hand; 0 if unknown */
	u32 journal_tid;    /* running transaction of the journal at out_ns, while starting a handle */
	u32 journal_state;  /* its t_state at out_ns (0 running, 1 locked, 2 switch, ...) */
	u32 handle_tid;     /* with WAIT_HANDLE_OPEN */
	u32 target_tid;     /* in fsync, fdatasync: the transaction the inode needs at out_ns; 0 unknown */
	u16 waker_context;  /* enum wire_waker_context */
	u16 cpu;            /* on which the task ran again at in_ns */
	struct wire_task waker;
	struct wire_task ran_before; /* what ran on the CPU until in_ns */
	u64 lock_addr;
	u32 lock_flags;     /* enum wire_lock_flags */
	u32 lock_dev;       /* the inode whose i_rwsem it is; 0: not an inode's rwsem */
	u64 lock_ino;       /* with LCB_BUFFER: the buffer's first sector, 512 bytes, of the whole disk */
	struct wire_task lock_owner; /* writer that held it at the beginning; tid 0: unknown, readers */
	u32 lock_owner_is_reader;
	u32 frames;         /* of stack[], innermost first, 0: no stack was taken */
	u64 ino;            /* inode of the call at hand, 0 if unknown */
	u32 journal_blocks; /* of the log, while starting a handle; */
	u32 journal_free;   /* ... those free at out_ns */
	struct wire_request_times waker_request;
	u64 stack[WIRE_FRAMES];
};

enum wire_call_flags {
	CALL_CUT_START = 1 << 0,   /* under way when tracing began: start_ns is when we first saw it */
	CALL_UNFINISHED = 1 << 1,  /* still under way when the window closed */
	CALL_HAS_PATH = 1 << 2,
	CALL_WANTED = 1 << 3,      /* not a stall itself: sent because it made somebody wait */
	CALL_USER_PATH = 1 << 4,   /* path is one string as the caller gave it, not parts */
	CALL_FOLLOWED = 1 << 6,    /* of a process that is followed, or of one that it made */
	CALL_KNOB = 1 << 5,        /* a write to sysfs: it may have frozen a queue. Never a stall */
};

/* A call over the threshold (or one that made others wait). */
struct wire_call {
	struct wire_header header;
	struct wire_task task;
	u64 start_ns;
	u64 end_ns;
	u32 call;            /* enum wire_call_kind */
	u32 syscall;
	u32 flags;           /* enum wire_call_flags */
	u32 dev;
	u64 ino;
	s64 result;
	u64 user_id;         /* io_submit: aio_data of the first iocb */
	u64 ran_ns;         /* se.sum_exec_runtime: on a CPU, to a tick; 0: not known */
	u32 sync_tid;        /* fsync, fdatasync: transaction wanted at sync_file_enter */
	u32 short_waits;     /* sleeps too short for a stack; their time: */
	u64 short_blocked_ns;
	u64 short_runnable_ns; /* time on the runqueue in sleeps and preemptions too short to be sent */
	u64 cgroup;         /* id in the default hierarchy: the inode number of its folder */
	u32 inner_pid;      /* in the task's own pid namespace; 0: it is in the initial one */
	u32 inner_tid;
	u32 mnt_ns;         /* the task's mount namespace: the inode number of /proc/PID/ns/mnt */
	u32 pad;
	char path[WIRE_PATH_PARTS][WIRE_PATH_PART]; /* innermost first, "" ends; "/" is the fs root */
};

enum wire_commit_flags {
	COMMIT_CUT_START = 1 << 0, /* under way when tracing began: earlier phases are 0 */
	COMMIT_UNFINISHED = 1 << 1,
	COMMIT_OUTSIDE_SYNC = 1 << 2, /* `requester` was in no sync: a handle of an old transaction */
};

/* One jbd2 commit with its phases (fs/jbd2/commit.c). Sent when it ends. */
struct wire_commit {
	struct wire_header header;
	struct wire_task thread; /* the jbd2 thread */
	u64 journal;        /* address: identity of the journal */
	u32 dev;            /* file system's device (j_fs_dev) */
	u32 journal_dev;    /* where the log is (j_dev) */
	u32 tid;
	u32 flags;          /* enum wire_commit_flags */
	u64 requested_ns;   /* the idle jbd2 thread was woken; 0: it went on from the commit before */
	struct wire_task requester; /* who woke it; tid 0: timer or unknown */
	u64 start_ns;       /* jbd2_start_commit */
	u64 locking_ns;     /* jbd2_commit_locking: new handles wait from here */
	u64 flushing_ns;    /* jbd2_commit_flushing: new handles go on from here */
	u64 logging_ns;     /* jbd2_commit_logging */
	u64 record_ns;      /* commit record with PREFLUSH queued by the thread; 0: none (nobarrier) */
	u64 stats_ns;       /* jbd2_run_stats */
	u64 end_ns;         /* jbd2_end_commit */
	u32 handle_count;
	u32 blocks;
	u32 blocks_logged;
	u32 late_handles;   /* handles that ended while the transaction was locked */
	u64 average_ns;     /* j_average_commit_time once this one is counted in: the batching sleep */
	u64 data_bytes;     /* ordered data that the thread wrote for it */
	u64 data_ino;       /* of the inode most of it was of */
	u64 data_ino_bytes; /* how much of it was */
	struct wire_task data_owner; /* whose call last had a handle of the transaction on it; tid 0: nobody's */
	u32 data_inodes;    /* how many have some */
	u32 pad;
	char data_path[WIRE_DATA_PARTS][WIRE_PATH_PART]; /* of data_ino, innermost first */
};

enum wire_handle_flags {
	HANDLE_LATE = 1 << 0,      /* ended while its transaction was locked: held the commit back */
	HANDLE_UNFINISHED = 1 << 1, /* still open when the window closed */
	HANDLE_SYNC = 1 << 2,      /* h_sync: may sleep in jbd2_journal_stop (batching) after stop_ns */
};

struct wire_handle {
	struct wire_header header;
	struct wire_task task;
	u32 dev;
	u32 tid;
	u32 type;   /* ext4 handle type: 1 inode, 2 write page, 3 map blocks, 4 dir, 5 truncate ... */
	u32 line;   /* ext4 source line that started it: depends on the kernel version */
	u64 start_ns; /* jbd2_handle_start: after all waiting */
	u64 stop_ns;  /* jbd2_handle_stats: the handle is let go very soon after */
	u64 ino;
	u32 flags;  /* enum wire_handle_flags */
	u32 call;   /* enum wire_call_kind, CALL_NONE outside calls */
};

enum wire_sync_flags {
	SYNC_COMMIT_WOKE = 1 << 0, /* the journal thread woke it as it waited: for a commit */
	SYNC_FAST_COMMIT = 1 << 1, /* a fast commit, its own or another's, did what it needed */
	SYNC_HANDLE = 1 << 2,      /* no sync of a file: an operation that is synchronous (dirsync) */
};

/* One call's sync of one file or file system, however short: ext4_sync_file, ext4_sync_fs; and the
 * calls whose handle is synchronous (h_sync). */
struct wire_sync {
	struct wire_header header;
	struct wire_task task;
	u64 start_ns;
	u64 end_ns;
	u64 flush_ns;    /* it queued a flush of its own; 0: none */
	u64 ino;         /* 0: of a file system */
	u32 dev;         /* file system's device */
	u32 call;        /* enum wire_call_kind */
	u32 flags;       /* enum wire_sync_flags */
	u32 wanted_tid;  /* the transaction it needed, as it went to sleep for it, or at its end */
	s32 result;
	u32 pad;
	u64 batch_ns;    /* slept for others to join its commit (jbd2_journal_stop) */
	u64 data_bytes;  /* that its own task wrote to the disk in it */
};

/* What one task put into one transaction: the metadata blocks that its handles were the first to
 * dirty in it, which the commit writes to the log. */
struct wire_dirtied {
	struct wire_header header;
	struct wire_task task;
	u32 dev;
	u32 tid;
	u32 blocks;
	u32 handles;
	u64 ino;         /* of the handle that dirtied the most; 0: of no inode */
	u32 most_blocks; /* ... how many that were */
	u32 pad;
	char name[WIRE_DATA_PARTS][WIRE_PATH_PART]; /* of ino, innermost first */
};

struct wire_flush_member {
	struct wire_task task; /* who queued the bio */
	u64 queued_ns;
	u32 journal_tid;       /* a commit's flush: its tid; else 0 */
	u32 has_data;          /* commit record or FUA sequence, not a bare flush */
};

/* One flush that the device executed (blk-flush's flush request). */
struct wire_flush {
	struct wire_header header;
	u32 disk;
	u32 queue;        /* hardware queue */
	u64 first_queued_ns; /* of its members; 0 unknown */
	u64 issue_ns;
	u64 complete_ns;
	u32 members;      /* how many requests shared it */
	u32 known_members; /* of member[] */
	u32 overtaken;    /* data requests of the disk issued after it that completed before it */
	s32 error;
	u32 flags;        /* enum wire_flush_flags */
	u32 bare;         /* of members: flushes without data of their own, that somebody asked for */
	u64 overtaken_ns; /* when the first of them completed; 0: none */
	struct wire_task issuer; /* who handed it to the driver: a kblockd worker, mostly */
	struct wire_flush_member member[WIRE_FLUSH_MEMBERS];
};
enum wire_flush_flags {
	FLUSH_UNFINISHED = 1 << 0,
	FLUSH_CUT_START = 1 << 1, /* in the device when the window opened: issue_ns is the kernel's
				     own time of it, or that moment */
	FLUSH_END_UNSEEN = 1 << 2, /* complete_ns is when the next one was issued */
};

/* A data request that took long, or that was still in flight when the window closed. */
struct wire_request {
	struct wire_header header;
	struct wire_request_times times;
	struct wire_task task; /* who issued it */
	u32 flags;
	s32 error;
};
enum wire_request_flags {
	REQUEST_UNFINISHED = 1 << 0,
	REQUEST_CUT_START = 1 << 1, /* as FLUSH_CUT_START */
	REQUEST_END_UNSEEN = 1 << 2, /* as FLUSH_END_UNSEEN, or when the window closed */
};

enum wire_async_flags {
	ASYNC_URING = 1 << 0,
	ASYNC_UNFINISHED = 1 << 1,
	ASYNC_WRITE = 1 << 2,
};

/* One iocb or SQE over the threshold, from its submission to its completion. */
struct wire_async {
	struct wire_header header;
	struct wire_task task; /* submitter */
	u32 dev;
	u32 flags;         /* enum wire_async_flags */
	u64 ino;
	u64 user_id;       /* aio_data or user_data */
	u64 iocb;
	u64 call_ns;       /* start of the io_submit / io_uring_enter that carried it */
	u64 begin_ns;      /* iomap_dio_rw_begin: locks and journal are behind it; a raw
			    * device's first bio */
	u64 queued_ns;     /* first bio queued to the block layer */
	u64 issue_ns;      /* first request handed to the driver; 0 if not seen */
	u64 complete_ns;   /* last request completed */
	u64 done_ns;       /* iomap_dio_complete; a raw device's last bio */
	u64 offset;
	u64 sector;        /* of the first bio */
	u32 bytes;
	s32 result;
	struct wire_task completer; /* who ended it, in its own context; tid 0: an interrupt */
};

/* A file system that somebody froze (FIFREEZE, fsfreeze), until it was thawed. */
struct wire_freeze {
	struct wire_header header;
	struct wire_task task; /* who froze it; tid 0: it was frozen when the window opened */
	u32 dev;
	u32 flags; /* enum wire_freeze_flags */
	u64 start_ns;
	u64 end_ns;
};
enum wire_freeze_flags {
	FREEZE_CUT_START = 1 << 0,
	FREEZE_UNFINISHED = 1 << 1, /* still frozen when the window closed */
};

/* A bio that a cgroup's limit held back until now (block/blk-throttle.c). Its submitter did not
 * block for that, only for the bio's completion. */
struct wire_throttle {
	struct wire_header header;
	u32 disk;
	u32 op;
	u64 sector;
	u64 released_ns;
	u32 bytes;
	u32 pad;
	char cgroup[WIRE_CGROUP_PARTS][WIRE_PATH_PART]; /* innermost first, "" ends */
};

/* What ran on a CPU for long while a task of ours waited for one. */
struct wire_slice {
	struct wire_header header;
	struct wire_task task;
	u64 start_ns;
	u64 end_ns;
	u32 cpu;
	u32 pad;
};

/* What the block layer's hooks keep of a request in flight, and async.bpf.h of an iocb: user space
 * reads what is left when the window closes. */
struct wire_request_entry {
	struct wire_task issuer;
	u64 start_ns;
	u64 issue_ns;
	u64 sector;
	u32 disk;
	u32 op;
	u32 bytes;
	u32 flush_data; /* the write between two flushes (blk-flush.c) */
	u32 flags;      /* enum wire_request_flags */
	u32 pad;
};
struct wire_async_entry {
	struct wire_task task;
	u64 call_ns;
	u64 begin_ns;
	u64 queued_ns;
	u64 issue_ns;
	u64 complete_ns;
	u64 ino;
	u64 user_id;
	u64 offset;
	u64 sector;
	u32 dev;
	u32 dev_slot;
	u32 flags;
	u32 bytes;
};

/* Log-linear histogram of nanoseconds: WIRE_HIST_SUB buckets per power of two. */
struct wire_hist {
	u64 count;
	u64 sum_ns;
	u64 max_ns;
	u64 over;      /* at or over the threshold */
	u64 over_ns;
	u32 bucket[WIRE_HIST_BUCKETS];
};

/* What to do at the entry of a syscall. */
enum wire_target {
	TARGET_NONE = 0,
	TARGET_FD,     /* the first argument is a file descriptor */
	TARGET_IOCBS,  /* io_submit: the third argument points to iocb pointers */
	TARGET_RING,   /* io_uring_enter: the file is known when a request is submitted */
	TARGET_PATH0,  /* the first argument is a path */
	TARGET_PATH1,  /* the second argument is a path (the *at forms) */
	TARGET_OPEN,   /* open(path, flags) */
	TARGET_OPENAT, /* openat(dir, path, flags) */
	TARGET_LATE,   /* the device is known once the file system is entered */
	TARGET_FREEZE, /* ioctl: FIFREEZE and FITHAW, no call of its own */
};

#define WIRE_SYSCALLS 512 /* a power of two */

struct wire_syscall_rule {
	u8 call;   /* enum wire_call_kind */
	u8 target; /* enum wire_target */
};

/* Set by user space before the programs are loaded. */
struct wire_config {
	u64 threshold_ns;
	u64 wait_floor_ns;    /* shorter sleeps get no stack */
	u64 request_floor_ns; /* data requests shorter than this are not sent */
	u64 iomap_end_io;     /* address of iomap_dio_bio_end_io, 0: unknown */
	u64 raw_end_io;       /* address of blkdev_bio_end_io_async, 0: unknown */
	u64 raw_bios_end_io;  /* address of blkdev_bio_end_io, 0: unknown */
	u64 flush_data_end_io; /* address of mq_flush_data_end_io, 0: unknown */
	u64 throttle_work;    /* address of blk_throtl_dispatch_work_fn, 0: unknown */
	u32 own_tgid;
	u32 maps;             /* a device that only maps (dm, md) is traced */
	u32 surveyed;         /* of survey_fd[] */
	u32 follows;          /* there are processes that are followed, with their children */
	u32 survey_fd[WIRE_SURVEYED]; /* our own file descriptors of disks and mount points */
	struct wire_syscall_rule rules[WIRE_SYSCALLS]; /* by number */
};

/* What was lost, per cause; an array per CPU. */
enum wire_loss {
	LOSS_RING_CALL = 0,   /* ring full, by kind of the lost event */
	LOSS_RING_WAIT,
	LOSS_RING_OTHER,
	LOSS_TASK_STORAGE,    /* no memory for a task's state */
	LOSS_TABLE_FULL,      /* no slot for a request, flush bio or iocb */
	LOSS_UNMATCHED,       /* a completion without its beginning, which was in the window */
	LOSS_USER_READ,       /* the first iocb was not resident: device learnt later */
	LOSS_STACK,           /* bpf_get_task_stack failed */
	LOSS_KINDS = 16,
};

WIRE_ASSERT(sizeof(struct wire_header) == 8, "wire_header");
WIRE_ASSERT(sizeof(struct wire_task) == 24, "wire_task");
WIRE_ASSERT(sizeof(struct wire_request_times) == 48, "wire_request_times");
WIRE_ASSERT(sizeof(struct wire_wait) == 520, "wire_wait");
WIRE_ASSERT(sizeof(struct wire_call) == 8 + 24 + 16 + 16 + 24 + 8 + 8 + 16 + 24 + 240, "wire_call");
WIRE_ASSERT(sizeof(struct wire_commit) == 8 + 24 + 24 + 8 + 24 + 56 + 16 + 40 + 24 + 120, "wire_commit");
WIRE_ASSERT(sizeof(struct wire_sync) == 8 + 24 + 32 + 24 + 16, "wire_sync");
WIRE_ASSERT(sizeof(struct wire_dirtied) == 8 + 24 + 16 + 16 + 120, "wire_dirtied");
WIRE_ASSERT(sizeof(struct wire_handle) == 8 + 24 + 16 + 24 + 8, "wire_handle");
WIRE_ASSERT(sizeof(struct wire_flush_member) == 40, "wire_flush_member");
WIRE_ASSERT(sizeof(struct wire_flush) == 8 + 8 + 24 + 24 + 32 + 16 * 40, "wire_flush");
WIRE_ASSERT(sizeof(struct wire_request) == 8 + 48 + 24 + 8, "wire_request");
WIRE_ASSERT(sizeof(struct wire_config) == 80 + 4 * WIRE_SURVEYED + 2 * WIRE_SYSCALLS, "wire_config");
WIRE_ASSERT(sizeof(struct wire_freeze) == 8 + 24 + 8 + 16, "wire_freeze");
WIRE_ASSERT(sizeof(struct wire_throttle) == 8 + 8 + 16 + 8 + 120, "wire_throttle");
WIRE_ASSERT(sizeof(struct wire_slice) == 8 + 24 + 16 + 8, "wire_slice");
WIRE_ASSERT(sizeof(struct wire_request_entry) == 24 + 24 + 16 + 8, "wire_request_entry");
WIRE_ASSERT(sizeof(struct wire_async_entry) == 24 + 72 + 16, "wire_async_entry");
WIRE_ASSERT(sizeof(struct wire_async) == 8 + 24 + 8 + 88 + 8 + 24, "wire_async");

#ifdef __cplusplus
}  // namespace stalltrace::wire
#endif
#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that our BPF programs name, and of them only the fields in use. CO-RE moves
 * every access to where the running kernel has the field, so order and size here mean nothing.
 * Names and kinds were checked against BTF of 6.1, 6.12 and 6.18; tests/kernel checks them against
 * the running kernel (vmlinux_types). Where a field is younger or older than that, it says so.
 */
#ifndef STALLTRACE_VMLINUX_H
#define STALLTRACE_VMLINUX_H

typedef unsigned char __u8;
typedef short int __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long int __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __s16 s16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;
typedef u32 dev_t;
typedef u32 tid_t;
typedef u64 sector_t;
typedef s64 loff_t;
typedef int pid_t;
typedef u32 blk_opf_t;

enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next, *prev;
};

typedef struct {
	int counter;
} atomic_t;
typedef struct {
	s64 counter;
} atomic_long_t;

struct pt_regs { /* x86-64 */
	unsigned long di, si, dx, r10, r8, r9, ax, orig_ax, ip;
};

struct qstr {
	const unsigned char *name;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct dentry {
	struct super_block *d_sb;
	struct dentry *d_parent;
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct path {
	struct dentry *dentry;
};

struct fs_struct {
	struct path pwd;
};

struct sb_writers {
	unsigned short frozen; /* int before 6.6 */
};

struct super_block {
	dev_t s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
	struct sb_writers s_writers;
	void *s_fs_info;
};

struct rw_semaphore {
	atomic_long_t count;
	atomic_long_t owner;
};

struct mutex {
	atomic_long_t owner;
};

/* PREEMPT_RT: these locks are rt_mutexes */
struct rt_mutex_base {
	struct task_struct *owner;
};

struct rwbase_rt___rt {
	atomic_t readers;
	struct rt_mutex_base rtmutex;
};

struct rw_semaphore___rt {
	struct rwbase_rt___rt rwbase;
};

struct semaphore {
	unsigned int count;
};

struct semaphore___held { /* CONFIG_DETECT_HUNG_TASK_BLOCKER, 6.16 and later */
	unsigned long last_holder;
};

struct address_space {
	struct inode *host;
};

struct folio {
	struct address_space *mapping;
};

struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	dev_t i_rdev;
	struct rw_semaphore i_rwsem;
	struct address_space i_data;
	struct hlist_head i_dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	struct address_space *f_mapping;
	unsigned int f_flags;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct sched_info {
	unsigned long long run_delay;   /* CONFIG_SCHED_INFO */
	unsigned long long last_queued; /* sched_clock(); 0: not on a runqueue */
};

struct cfs_rq {
	int throttle_count; /* CONFIG_CFS_BANDWIDTH: of it and those above it, how many are stopped */
};

struct sched_entity {
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq; /* CONFIG_FAIR_GROUP_SCHED */
};

struct cfs_bandwidth {
	u64 throttled_time; /* CONFIG_CFS_BANDWIDTH */
};

struct task_group {
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
};

struct kernfs_node {
	const char *name;
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct ns_common {
	unsigned int inum;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	pid_t pid;
	pid_t tgid;
	char comm[16];
	void *mm;
	void *journal_info;
	struct files_struct *files;
	struct sched_entity se;
	struct task_group *sched_task_group; /* CONFIG_CGROUP_SCHED */
	struct sched_info sched_info;
	struct fs_struct *fs;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct nsproxy *nsproxy;
	struct css_set *cgroups;
	void *worker_private; /* of a kthread: struct kthread */
	int exit_state;
	int on_cpu;
	unsigned int in_iowait : 1;
};

struct task_struct___deferred { /* 6.18 and later */
	bool throttled;
};

struct kthread {
	void *data;
};

struct worker { /* kernel/workqueue_internal.h */
	void *current_func;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

/* jbd2 and ext4 */

struct journal_s {
	unsigned long j_flags;
	unsigned long j_free;
	unsigned int j_total_len; /* j_maxlen before 5.11 */
	struct transaction_s *j_running_transaction;
	struct transaction_s *j_committing_transaction;
	struct block_device *j_dev;
	struct block_device *j_fs_dev;
	struct task_struct *j_task;
	u64 j_average_commit_time;
};

struct transaction_s {
	struct journal_s *t_journal;
	tid_t t_tid;
	enum {
		T_RUNNING = 0,
		T_LOCKED = 1,
		T_SWITCH = 2,
		T_FLUSH = 3,
		T_COMMIT = 4,
		T_COMMIT_DFLUSH = 5,
		T_COMMIT_JFLUSH = 6,
	} t_state;
};

struct jbd2_journal_handle {
	struct transaction_s *h_transaction;
	unsigned int h_type : 8;
	unsigned int h_line_no : 16;
};

struct transaction_run_stats_s {
	u32 rs_handle_count;
	u32 rs_blocks;
	u32 rs_blocks_logged;
};

struct ext4_sb_info {
	struct journal_s *s_journal;
};

struct ext4_inode_info {
	struct inode vfs_inode;
	tid_t i_sync_tid;
	tid_t i_datasync_tid;
};

/* block layer */

struct block_device {
	sector_t bd_start_sect;
	dev_t bd_dev;
	struct gendisk *bd_disk;
};

struct bdev_inode {
	struct block_device bdev;
	struct inode vfs_inode;
};

struct gendisk {
	int major;
	int first_minor;
	struct block_device *part0;
	struct request_queue *queue;
};

struct blk_mq_tags {
	unsigned int nr_tags;
	struct request **rqs;
};

struct blk_mq_tag_set {
	unsigned int nr_hw_queues;
	struct blk_mq_tags **tags;
};

struct request_queue {
	struct gendisk *disk; /* 5.15 has it too; rq->rq_disk went away */
	struct blk_mq_tag_set *tag_set;
};

enum mq_rq_state {
	MQ_RQ_IDLE = 0,
	MQ_RQ_IN_FLIGHT = 1,
};

struct bvec_iter {
	sector_t bi_sector;
	unsigned int bi_size;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	blk_opf_t bi_opf;
	struct bvec_iter bi_iter;
	u8 bi_status;
	void *bi_end_io;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
};

struct blk_flush_queue {
	struct request *flush_rq;
	unsigned int flush_running_idx : 1;
	struct list_head flush_queue[2];
};

struct blk_mq_hw_ctx {
	struct blk_flush_queue *fq;
	unsigned int queue_num;
};

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	blk_opf_t cmd_flags;
	unsigned int __data_len;
	sector_t __sector;
	struct bio *bio;
	struct bio *biotail;
	struct list_head queuelist; /* links a flush's members, 6.6 and later */
	u64 start_time_ns;
	u64 io_start_time_ns; /* of requests that the queue keeps statistics of */
	enum mq_rq_state state;
	void *end_io;
};

/* before 6.6 the members of a flush were linked by rq->flush.list (commit 81ada09cc25e) */
struct request___old_flush {
	struct {
		struct list_head list;
	} flush;
};

/* XFS */

struct xfs_mount {
	struct super_block *m_super;
};

struct xfs_buftarg {
	struct block_device *bt_bdev;
	struct xfs_mount *bt_mount;
};

struct xfs_buf_map {
	s64 bm_bn; /* of the device that it is on, 512 bytes */
};

struct xfs_buf {
	struct semaphore b_sema;
	struct xfs_mount *b_mount;
	struct xfs_buftarg *b_target;
	struct xfs_buf_map *b_maps;
};

/* asynchronous I/O */

struct kiocb {
	struct file *ki_filp;
	loff_t ki_pos;
};

struct io_event {
	u64 data;
};

struct aio_kiocb {
	struct kiocb rw;
	struct io_event ki_res;
};

struct io_cqe {
	u64 user_data;
	int fd; /* until the request is issued */
};

struct io_kiocb {
	u64 flags; /* 32 bits before 6.8; bit 0 is IOSQE_FIXED_FILE */
	struct io_cqe cqe;
};

struct blkdev_dio {
	struct kiocb *iocb;
	atomic_t ref;
	struct bio bio;
};

struct iomap_dio {
	struct kiocb *iocb;
};

struct iov_iter {
	unsigned long count;
	u8 data_source; /* bool: 1 is a write */
};

/* whether the kernel has the tracepoint: 6.6 and later */
typedef void (*btf_trace_iomap_dio_rw_begin)(void *, struct kiocb *, struct iov_iter *, unsigned int,
					     unsigned long);

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the block layer's hooks keep between a request's beginning and its end. */
#ifndef STALLTRACE_BLOCK_BPF_H
#define STALLTRACE_BLOCK_BPF_H

#include "bpf/state.bpf.h"
#include "bpf/table.bpf.h"

#define REQ_OP_MASK 0xff
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2
#define BLK_STS_AGAIN 12
#define REQ_PREFLUSH (1 << 18)

DEFINE_TABLE(requests, struct wire_request_entry)

/* A bio that asks for a flush, from block_bio_queue until the flush that serves it is issued. */
struct flush_bio {
	struct wire_task task;
	u64 queued_ns;
	u64 served_ns; /* of a sequence: when its first flush was issued */
	u32 journal_tid;
	u32 has_data;
};
DEFINE_TABLE(flush_bios, struct flush_bio)

/* A write that needs a flush after it, too, by request: its second flush is asked for when its
 * data is written. Requests are never freed, so this cannot fill up. */
DEFINE_TABLE(flush_sequences, struct flush_bio)

/* Flushes in the device, by flush request. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct wire_flush);
} flushes SEC(".maps") __weak;

/* Per disk, by slot number. */
struct disk_state {
	u64 flush_issued_ns;   /* the last one */
	u64 overtaken_ns; /* first completion of a request issued after it, before its own */
	u32 flushes_in_flight;
	u32 overtaken; /* completions like that, in all */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WIRE_DEVICES);
	__type(key, u32);
	__type(value, struct disk_state);
} disks SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_flush);
} flush_buffers SEC(".maps") __weak;

static __always_inline u32 request_disk(struct request *rq)
{
	struct gendisk *disk = BPF_CORE_READ(rq, q, disk);

	return disk ? (u32)(BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor)) : 0;
}

static __always_inline u32 bio_disk(struct bio *bio)
{
	struct gendisk *disk = BPF_CORE_READ(bio, bi_bdev, bd_disk);

	return disk ? (u32)(BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor)) : 0;
}

/* A device that only maps (dm, md) sends bios of its own down, which come to the same hooks. */
static __always_inline bool is_for_a_driver(struct bio *bio)
{
	return BPF_CORE_READ(bio, bi_bdev, bd_disk, queue, tag_set) != NULL;
}

static __always_inline void tell_times(struct wire_request_entry *entry, u64 complete_ns,
				       struct wire_request_times *times)
{
	times->disk = entry->disk;
	times->op = entry->op;
	times->sector = entry->sector;
	times->bytes = entry->bytes;
	times->submitter = entry->issuer.tid;
	times->start_ns = entry->start_ns;
	times->issue_ns = entry->issue_ns;
	times->complete_ns = complete_ns;
}

/* A request whose completion passed unseen (see close_unseen_flush): it ended before `now`. */
static __always_inline void send_unseen_end(struct wire_request_entry *entry, u64 now)
{
	struct wire_request event = {};

	if (now - entry->issue_ns < config.request_floor_ns)
		return;
	event.header.kind = WIRE_REQUEST;
	event.header.size = sizeof(event);
	tell_times(entry, now, &event.times);
	event.task = entry->issuer;
	event.flags = entry->flags | REQUEST_END_UNSEEN;
	emit(&event, sizeof(event), LOSS_RING_OTHER);
}

#endif

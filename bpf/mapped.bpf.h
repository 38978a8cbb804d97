/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bios of devices that only map (dm, md): they have no requests of their own, so a bio's time from
 * its submission to its end stands for one. What the disks below were doing meanwhile their own
 * requests tell; the rest is the mapped device's. */
#ifndef STALLTRACE_MAPPED_BPF_H
#define STALLTRACE_MAPPED_BPF_H

#include "bpf/block.bpf.h"
#include "bpf/waits.bpf.h"

/* Of one place where no mapped device is traced. */
DEFINE_TABLE(mapped_bios, struct wire_request_entry)

static __always_inline void mapped_bio_queued(struct bio *bio)
{
	struct wire_request_entry *entry;
	u64 key = address_of(bio);
	u32 disk;

	if (!config.maps)
		return;
	/* The linear and striped levels of md send the very bio on. It does not end at them then. */
	mapped_bios_remove(key);
	disk = bio_disk(bio);
	if (!traced_slot(disk) || is_for_a_driver(bio))
		return;
	entry = mapped_bios_insert(key);
	if (!entry)
		return;
	name_current(&entry->issuer);
	entry->start_ns = bpf_ktime_get_ns();
	entry->issue_ns = entry->start_ns;
	entry->disk = disk;
	entry->op = bio->bi_opf;
	entry->sector = bio->bi_iter.bi_sector;
	entry->bytes = bio->bi_iter.bi_size;
	if (!entry->bytes && (entry->op & REQ_PREFLUSH)) {
		entry->op = (entry->op & ~REQ_OP_MASK) | REQ_OP_FLUSH;
		entry->sector = ~0ULL;
	}
	entry->flush_data = 0;
	entry->flags = 0;
}

static __always_inline void mapped_bio_completed(struct bio *bio)
{
	struct wire_request event = {};
	struct wire_request_entry *entry;
	struct last_complete *last;
	u64 key = address_of(bio);
	u32 zero = 0;

	entry = mapped_bios_find(key);
	if (!entry)
		return;
	event.header.kind = WIRE_REQUEST;
	event.header.size = sizeof(event);
	tell_times(entry, bpf_ktime_get_ns(), &event.times);
	event.task = entry->issuer;
	mapped_bios_remove(key);
	if (event.times.complete_ns - event.times.start_ns >= config.request_floor_ns)
		emit(&event, sizeof(event), LOSS_RING_OTHER);
	/* Who is woken now waited for this, unless a disk's request has just completed here: then for
	 * that. */
	last = bpf_map_lookup_elem(&last_completes, &zero);
	if (!last)
		return;
	if (last->tid == (u32)bpf_get_current_pid_tgid() &&
	    event.times.complete_ns - last->at_ns < COMPLETION_WAKES_WITHIN_NS)
		return;
	last->times = event.times;
	last->at_ns = event.times.complete_ns;
	last->tid = (u32)bpf_get_current_pid_tgid();
}

#endif

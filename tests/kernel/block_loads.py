"""Loads of the fault rows about locks, limits, other file systems and hooks; what these rows want
to be named, and the kernel's stacks that the oracle's own rules do not know."""

import os
import random
import time
from dataclasses import replace

from aio import WRITE, Ring
from faults import aligned, share_named, tid_of
from faults import row_verdict as verdict
from lab import SECOND, monotonic_ns
# lab has put the oracle's folder on the path.
from check_calls import Tolerance
from evidence import class_of

MIB = 1024 * 1024
# What the kernel's stacks say where the oracle's own rules are silent; btrfs' log before its
# commits, since one function writes the superblocks of both.
STACKS = [
    # PREEMPT_RT: an inode's lock is an rt_mutex with a count of readers.
    ("__rwbase_read_lock", "", "lock.inode"),
    ("rwbase_write_lock", "", "lock.inode"),
    ("blk_mq_get_tag", "", "block.tag"),
    ("rq_qos_wait", "", "block.wbt"),
    ("__bio_queue_enter", "", "block.frozen"),
    ("blk_mq_freeze_queue_wait", "", "block.frozen"),
    ("xlog_grant_head_wait", "", "log.space"),
    ("xlog_wait_on_iclog", "", "log.force"),
    ("xlog_force_lsn", "", "log.force"),
    ("xlog_cil_push_now", "", "log.force"),
    ("xlog_cil_force_seq", "", "log.force"),
    ("xlog_state_get_iclog_space", "", "log.force"),
    ("xlog_cil_commit", "rwsem_down_read_slowpath", "log.force"),
    ("__flush_work xfs_log_force", "", "log.force"),
    ("xfs_buf_iowait xfs_buf_read_map", "", "block.read"),
    ("xfs_buf_iowait", "", "block.write"),
    ("xfs_buf_lock", "", "lock.other"),
    ("rwsem_down_read_slowpath xlog_cil_commit", "", "lock.other"),
    ("__flush_work destroy_inode", "", "lock.other"),
    ("wait_log_commit", "", "tree.log"),
    ("btrfs_sync_log", "", "tree.log"),
    ("btrfs_commit_transaction", "", "tree.commit"),
    ("wait_current_trans", "", "tree.commit"),
    ("__iomap_dio_rw xfs_file_write_iter", "", "block.write"),
    ("__iomap_dio_rw xfs_file_read_iter", "", "block.read"),
    ("__iomap_dio_rw aio_write", "do_get_write_access wait_transaction_locked", "block.write"),
    ("__blkdev_direct_IO_simple blkdev_write_iter", "", "block.write"),
    ("__blkdev_direct_IO_simple blkdev_read_iter", "", "block.read"),
    ("btrfs_wait_ordered_range", "", "page.writeback"),
    ("btrfs_start_ordered_extent_nowriteback", "", "page.writeback"),
]


# Many tasks on few CPUs: between a victim's clock and its call others run now and then.
CROWDED = Tolerance(noisy_share=0.05, noisy_calls=5, noise_ns=30_000_000, preempted_ns=40_000_000)


# Short calls that wake kernel workers: these run before the caller is back in user space.
SHORT_CALLS = replace(CROWDED, clock_gap=2_000_000)


def row_verdict(name, watch, victims, tolerance=CROWDED, **more):
    return verdict(name, watch, victims, rules=STACKS, tolerance=tolerance, **more)


# ---- loads

def filled(folder, name, size):
    """A file whose blocks are written and synced."""
    path = os.path.join(folder, name)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    for at in range(0, size, MIB):
        os.pwrite(file, b"\1" * min(MIB, size - at), at)
    os.fsync(file)
    os.close(file)
    # The first asynchronous direct I/O of a mount makes a workqueue, with threads: not our fault.
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    ring = Ring(file, aligned(4096))
    ring.submit(ring.prepare(WRITE, [0]))
    ring.reap()
    os.close(file)
    return path


def submitter(calls, path, operation, block, span, depth=1, pause=0.0, shift=0, number=0):
    """Direct AIO at random places of [span); only the submission is timed."""
    rng = random.Random(number)
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    ring = Ring(file, aligned(block))
    first, last = span[0] // block, span[1] // block
    while calls.going():
        places = [rng.randrange(first, last) * block + shift for _ in range(depth)]
        calls.time("io_submit", ring.submit, ring.prepare(operation, places))
        ring.reap()
        time.sleep(pause)


def extender(calls, path, block, shift=0):
    """Direct AIO behind the end of the file."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
    ring = Ring(file, aligned(block))
    at = shift
    while calls.going():
        calls.time("io_submit", ring.submit, ring.prepare(WRITE, [at]))
        ring.reap()
        at += block


def buffered_writer(calls, path, block, span, pause=0.0):
    """Buffered writes round and round [span)."""
    file = os.open(path, os.O_RDWR)
    data, at = b"b" * block, span[0]
    while calls.going():
        calls.time("write", os.pwrite, file, data, at)
        at = at + block if at + 2 * block <= span[1] else span[0]
        time.sleep(pause)


def direct(calls, path, kind, block, size, pause=0.0, flags=0, number=0):
    """Direct reads or writes, one at a time."""
    rng = random.Random(number)
    file = os.open(path, os.O_RDWR | os.O_DIRECT | flags)
    buffer = aligned(block)
    while calls.going():
        place = rng.randrange(size // block) * block
        if kind == "read":
            calls.time("read", os.preadv, file, [buffer], place)
        else:
            calls.time("write", os.pwrite, file, buffer, place)
        time.sleep(pause)


def syncer(calls, path, sync=os.fsync, block=4096, overwrite=False, pause=0.0):
    """Buffered writes, each followed by a sync."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    data, at = b"s" * block, 0
    while calls.going():
        calls.time("write", os.pwrite, file, data, at)
        calls.time(sync.__name__, sync, file)
        at += 0 if overwrite else block
        time.sleep(pause)


def wait_until(start_ns):
    time.sleep(max(0, start_ns - monotonic_ns()) / SECOND)


# ---- what rows want to be named

def texts(path):
    """All that a chain says to people, in one string."""
    return " ".join(text for cause in path for text in [cause.get("text") or "",
                                                        *(cause.get("evidence") or [])])


def all_texts(item):
    """All that is said below a part or a cause."""
    return texts([item]) + "".join(" " + all_texts(cause) for cause in item.get("causes") or [])


def in_class(*classes):
    return lambda part, path: part["class"] in classes


def root_of(part, path):
    return (path[-1] if path else part).get("root") or {}


def named_share(report, tids, of, wanted, least, what, failures):
    share, ns = share_named(report, tids, of, wanted)
    if not ns or share < least:
        failures.append(f"{what}: named in {100 * share:.1f} % of {ns / 1e9:.3f} s, wanted are "
                        f"{100 * least:g} %")
    return f"{what} {100 * share:.1f} %"


def tids_of(workers):
    return {tid_of(one) for one in workers}


def while_in(evidence, tid, name):
    """When `tid` slept in a class, by the kernel's stacks."""
    return [(one.start, one.end) for one in evidence.segments_of.get(tid, [])
            if one.state == "blocked" and class_of(one.symbols, STACKS) == name]

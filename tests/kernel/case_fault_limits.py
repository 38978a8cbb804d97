"""Fault rows of what holds tasks back on purpose: writeback throttling, cgroups; and of the CPU."""

import os
import re
import threading
import time

from block_loads import (MIB, direct, filled, named_share, root_of, row_verdict, syncer, texts,
                         tids_of, while_in)
from faults import Expect, Root, Watch, chains, tid_of
from lab import Disk, Folder, SECOND, Skip, check, monotonic_ns, seed
# lab has put the oracle's folder on the path.
from check_calls import Tolerance
from intervals import clip, measure, subtract, union


def wbt_expect(evidence, disk, workers, journal=()):
    """Who sleeps in wbt waits for the throttle; so does who waits for the journal thread then."""
    root = (Root("throttle", disk.kdev),)
    return [Expect(start, end, root, frozenset({"block.wbt"}), frozenset({tid}))
            for tid in tids_of(workers) for start, end in while_in(evidence, tid, "block.wbt")] + \
           [Expect(start, end, root, frozenset({"journal.commit"}))
            for tid in journal for start, end in while_in(evidence, tid, "block.wbt")]


class WbtLimits(threading.Thread):
    """The limits of the throttling, which the kernel moves up and down: all that were in force."""

    def __init__(self, disk):
        super().__init__(daemon=True)
        self.folder = f"/sys/kernel/debug/block/{disk.short}/rqos/wbt"
        self.seen, self.over = set(), threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            for name in ("wb_normal", "wb_background"):
                with open(f"{self.folder}/{name}") as file:
                    self.seen.add(int(file.read()))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def set_wbt(disk, latency_us):
    if not os.path.exists(f"/sys/block/{disk.short}/queue/wbt_lat_usec"):
        raise Skip("the kernel has no writeback throttling")
    with open(f"/sys/block/{disk.short}/queue/wbt_lat_usec", "w") as file:
        file.write(str(latency_us))


def wbt_named(victims, limits):
    def wanted(chain):
        said = texts(chain)
        limit = re.search(r"limit: (\d+) writes", said)
        return limit and int(limit[1]) in limits and "in flight" in said

    def named(report, _):
        failures = []
        return named_share(report, tids_of(victims),
                           lambda part, chain: part["class"] == "block.wbt" or
                           "block.wbt" in texts(chain),
                           lambda part, chain: wanted(chain), 0.97, "limit and in flight",
                           failures), failures
    return named


def bulk_writer(calls, path, size):
    """Much buffered data at once, then its sync: the writeback is throttled."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    data = b"w" * MIB
    while calls.going():
        for at in range(0, size, MIB):
            calls.time("write", os.pwrite, file, data, at)
        calls.time("fsync", os.fsync, file)


def wbt_buffered():
    """Writeback throttling holds up who syncs a lot of buffered data."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "wbt", write=f"{rng.randint(10, 25)}ms") as disk:
            set_wbt(disk, 2000)
            with Watch(folder, [disk]) as watch:
                bulk = watch.worker(bulk_writer, os.path.join(disk.mountpoint, "bulk"),
                                    rng.randint(150, 250) * MIB)
                small = watch.worker(syncer, os.path.join(disk.mountpoint, "small"), os.fsync, 4096,
                                     False, 0.1)
                watch.trace()
                with WbtLimits(disk) as limits:
                    watch.go(5)
        evidence = watch.evidence()
        row_verdict("wbt_buffered", watch, [bulk, small], evidence=evidence,
                    expect=wbt_expect(evidence, disk, [bulk, small]),
                    named=wbt_named([bulk], limits.seen))


def strider(calls, path, stride, count, pause):
    """Allocates single blocks far from each other, which cannot become one request."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    data, at = b"t" * 4096, 0
    while calls.going():
        for _ in range(count):
            calls.time("write", os.pwrite, file, data, at)
            at += stride
        time.sleep(pause)


def wbt_journal():
    """nodelalloc: the journal thread writes ordered data and is throttled."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "wbt", write=f"{rng.randint(8, 15)}ms", size="16g",
                  options="nodelalloc") as disk:
            set_wbt(disk, 2000)
            with Watch(folder, [disk]) as watch:
                load = watch.worker(strider, os.path.join(disk.mountpoint, "far"), 128 * 1024,
                                    rng.randint(120, 180), 0.05)
                small = watch.worker(syncer, os.path.join(disk.mountpoint, "small"), os.fsync, 4096,
                                     False, 0.1)
                watch.trace()
                with WbtLimits(disk) as limits:
                    watch.go(6)
        evidence = watch.evidence()
        journal = [tid for tid, (_, stacks) in evidence.stacks.items()
                   if any("kjournald2" in one for stack in stacks for one in stack)]
        check(any(while_in(evidence, tid, "block.wbt") for tid in journal),
              "the journal thread was never throttled: the injection does not work")
        row_verdict("wbt_journal", watch, [load, small], evidence=evidence,
                    expect=wbt_expect(evidence, disk, [load, small], journal),
                    named=wbt_named([small], limits.seen))


class BlkioGroup:
    """A cgroup of the blkio controller (v1) for tasks of ours."""

    def __init__(self):
        root = "/sys/fs/cgroup/blkio"
        if not os.path.exists(f"{root}/blkio.throttle.write_bps_device"):
            raise Skip("no blkio controller with throttling (cgroup v1)")
        self.name = f"kt-{os.getpid()}"
        self.path = f"{root}/{self.name}"

    def __enter__(self):
        os.mkdir(self.path)
        return self

    def limit(self, disk, what, value):
        with open(f"{self.path}/blkio.throttle.{what}_device", "w") as file:
            file.write(f"{disk.dev} {value}")

    def take(self, worker):
        with open(f"{self.path}/cgroup.procs", "w") as file:
            file.write(str(worker.pid))

    def __exit__(self, *_):
        deadline = time.monotonic() + 10
        while True:
            try:
                return os.rmdir(self.path)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


# The submitter's stack is that of any wait for its own I/O: the two names say the same of it.
THROTTLED = {name: {"block.throttle"} for name in ("block.write", "block.read", "block.flush",
                                                   "page.writeback")}


def blkio(name, what, value, load):
    with Folder() as folder:
        with BlkioGroup() as group, Disk(folder, "limited", write="1ms", read="1ms") as disk:
            path = filled(disk.mountpoint, "data", 8 * MIB)
            with Watch(folder, [disk]) as watch:
                victims = load(watch, path)
                group.limit(disk, what, value)
                for victim in victims:
                    group.take(victim)
                watch.trace()
                watch.go(5)
        tids = frozenset(tids_of(victims))
        evidence = watch.evidence()
        # While the device has nothing to do, what is asked of it is being held back; while it has,
        # it may be the other victim's.
        busy = union([(one.start, one.end) for one in evidence.trace.requests[disk.kdev]])
        whole = [(watch.began, watch.ended + SECOND)]
        throttle = Root("throttle", disk.kdev)
        device = tuple(Root(f"device.{one}", disk.kdev) for one in ("read", "write", "flush",
                                                                    "queue"))
        waits = frozenset({*THROTTLED, "block.throttle"})
        expect = [Expect(start, end, (throttle, *more), waits, tids)
                  for spans, more in ((subtract(whole, busy), ()), (busy, device))
                  for start, end in spans]

        def named(report, _):
            failures = []
            return named_share(report, tids,
                               lambda part, chain: root_of(part, chain).get("cause") == "throttle",
                               lambda part, chain: group.name in texts(chain), 0.99, "the cgroup",
                               failures), failures

        row_verdict(name, watch, victims, expect=expect, named=named, alias=THROTTLED,
                    evidence=evidence)


def blkio_limit():
    """A cgroup's bytes per second: direct I/O waits for its own request, which does not exist."""
    rng = seed()
    kind = rng.choice(("read", "write"))
    blkio("blkio_limit", f"{kind}_bps", rng.randint(200, 400) * 1024,
          lambda watch, path: [watch.worker(direct, path, kind, 65536, 8 * MIB, 0, 0, number)
                               for number in range(2)])


def blkio_limit_fsync():
    """A cgroup's writes per second: who syncs waits for its pages."""
    rng = seed()
    blkio("blkio_limit_fsync", "write_iops", rng.randint(8, 15),
          lambda watch, path: [watch.worker(syncer, path, os.fdatasync, 4096, True)])


# ---- CPU

def spinner(calls, cpu, on, off):
    """Bursts on one CPU that no ordinary task there can interrupt. It ends by itself."""
    os.sched_setaffinity(0, {cpu})
    group = "/sys/fs/cgroup/cpu/cgroup.procs"  # where real-time tasks may be (RT_GROUP_SCHED)
    if os.path.exists(group):
        with open(group, "w") as file:
            file.write(str(os.getpid()))
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    while calls.going():
        before = monotonic_ns()
        while monotonic_ns() < before + on * SECOND:
            pass
        calls.note("burst", before)
        time.sleep(off)


def pinned(calls, cpu, path, number):
    """Overwrites in memory and small direct writes, on the spinner's CPU."""
    os.sched_setaffinity(0, {cpu})
    direct(calls, path, "write", 65536, 8 * MIB, 0.0005, 0, number)


def fifo_spinner():
    """The submitter has no CPU: never called a storage stall."""
    rng = seed()
    cpu = os.cpu_count() - 1
    with Folder() as folder:
        with Disk(folder, "fast") as disk:
            path = filled(disk.mountpoint, "data", 8 * MIB)
            with Watch(folder, [disk]) as watch:
                spin = watch.worker(spinner, cpu, rng.uniform(0.08, 0.15), rng.uniform(0.12, 0.2))
                victims = [watch.worker(pinned, cpu, path, number) for number in range(2)]
                watch.trace()
                watch.go(6)

        bursts = union([(start, end) for _, start, end in spin.notes()])

        def named(report, _):
            """Within the bursts nobody else ran there."""
            failures, inside, right = [], 0, 0
            for _, part, path, _ in chains(report, tids_of(victims)):
                if part["class"] == "cpu.wait":
                    ns = measure(clip(bursts, *report.span(path[-1] if path else part)))
                    inside += ns
                    right += ns if root_of(part, path).get("tid") == tid_of(spin) else 0
            share = right / inside if inside else 0.0
            if share < 0.97:
                failures.append(f"the spinner is named in {100 * share:.1f} % of "
                                f"{inside / 1e9:.3f} s of its bursts")
            return f"the spinner {100 * share:.1f} %", failures

        # A whole burst may fall between a victim's clock and its call.
        row_verdict("fifo_spinner", watch, victims, named=named,
                    tolerance=Tolerance(noisy_share=0.1, noisy_calls=3, noise_ns=200_000_000,
                                        preempted_ns=200_000_000))


CASES = [wbt_buffered, wbt_journal, blkio_limit, blkio_limit_fsync, fifo_spinner]

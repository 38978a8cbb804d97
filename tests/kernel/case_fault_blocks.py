"""Fault rows of inode locks, frozen things and exhausted requests; CASES has all of these rows."""

import fcntl
import os
import re
import time

from aio import READ, WRITE
import case_fault_limits
import case_fault_systems
from block_loads import (MIB, all_texts, buffered_writer, direct, extender, filled, in_class,
                         named_share, root_of, row_verdict, submitter, syncer, texts, tids_of,
                         wait_until, while_in)
from faults import Expect, Limits, Root, Watch, chains, tid_of
from lab import Disk, Folder, SECOND, monotonic_ns, seed

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878


# ---- locks

def dio_readers_buffered_writer():
    """A throttled buffered writer keeps the inode's lock, AIO readers of the file wait for it."""
    rng = seed()
    mixed = rng.random() < 0.5  # readers of pages that the writer dirties wait for those as well
    with Folder() as folder:
        with Disk(folder, "slow", write=f"{rng.randint(40, 80)}ms", read="1ms") as disk:
            path = filled(disk.mountpoint, "shared", 32 * MIB)
            ino = os.stat(path).st_ino
            for name, value in (("strict_limit", "1"), ("max_bytes", str(4 * MIB))):
                with open(f"/sys/block/{disk.short}/bdi/{name}", "w") as file:
                    file.write(value)
            with Watch(folder, [disk]) as watch:
                writer = watch.worker(buffered_writer, path, MIB, (0, 16 * MIB))
                region = (0, 32 * MIB) if mixed else (16 * MIB, 32 * MIB)
                readers = [watch.worker(submitter, path, READ, 4096, region, rng.randint(1, 4),
                                        0.02, 0, number) for number in range(4)]
                watch.trace()
                watch.go(5)
        evidence = watch.evidence()
        expect = [Expect(start, end, (Root("throttle", disk.kdev),),
                         frozenset({"lock.inode", "page.dirty_throttle"}))
                  for start, end in while_in(evidence, tid_of(writer), "page.dirty_throttle")]

        def named(report, _):
            failures, tids = [], tids_of(readers)
            known = tids | {tid_of(writer)}
            said = [named_share(report, tids, in_class("lock.inode"),
                                lambda part, chain: any(cause["kind"] == "holder" and
                                                        cause.get("tid") in known
                                                        for cause in chain), 0.97,
                                "holder", failures),
                    named_share(report, tids, in_class("lock.inode"),
                                lambda part, chain: "shared" in texts(chain) and
                                str(ino) in texts(chain), 0.97, "inode and path", failures)]
            locks = [lock for lock in report.json["locks"] if lock.get("ino") == ino
                     and lock["class"] == "lock.inode"]
            modes = {lock["mode"] for lock in locks}
            if "read" not in modes:
                failures.append(f"locks[] has modes {modes} for inode {ino}")
            if not any(holder["tid"] == tid_of(writer) for lock in locks
                       for holder in lock["holders"]):
                failures.append("locks[] does not name the writer as a holder")
            return ", ".join(said), failures

        row_verdict("dio_readers_buffered_writer", watch, [writer, *readers], expect=expect,
                    named=named, evidence=evidence)


def lock_row(name, loads, prepare=None, wants=("lock.inode",), seconds=5):
    """AIO that the kernel makes wait for the inode's lock or for earlier direct I/O."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "slow", write=f"{rng.randint(25, 60)}ms") as disk:
            path = prepare(disk.mountpoint) if prepare else os.path.join(disk.mountpoint, "f")
            with Watch(folder, [disk]) as watch:
                victims = loads(watch, path, rng)
                watch.trace()
                watch.go(seconds)
        ino_text = os.path.basename(path)

        def named(report, _):
            failures, tids, said = [], tids_of(victims), []
            if "lock.inode" in wants:
                said.append(named_share(
                    report, tids, in_class("lock.inode"),
                    lambda part, chain: any(cause["kind"] == "holder" and cause.get("tid") in tids
                                            for cause in chain) and ino_text in texts(chain),
                    0.97, "holder and path", failures))
            seen = {part["class"] for _, part, _, _ in chains(report, tids)}
            failures += [f"no {one} was reported" for one in wants if one not in seen]
            return ", ".join(said) or "-", failures

        row_verdict(name, watch, victims, named=named)


def extending_aio():
    """AIO behind the end of the file waits in io_submit with the lock held; overwriters wait."""
    def loads(watch, path, rng):
        return [watch.worker(extender, path, rng.choice((4096, 65536))),
                *(watch.worker(submitter, path, WRITE, 4096, (0, 4096), 1, 0.01, 0, number)
                  for number in range(2))]

    lock_row("extending_aio", loads, lambda folder: filled(folder, "grows", 4096))


def unaligned_extending_aio():
    """Two that extend one file by unaligned pieces drain each other's direct I/O."""
    def loads(watch, path, rng):
        return [watch.worker(extender, path, 4096, 512), watch.worker(extender, path, 512)]

    lock_row("unaligned_extending_aio", loads, wants=("lock.inode", "block.drain"),
             prepare=lambda folder: filled(folder, "drained", 4096))


def unaligned_holes():
    """Unaligned AIO into holes: each zeroes a block, one at a time."""
    def prepare(folder):
        path = filled(folder, "holes", 4096)
        os.truncate(path, 0)
        os.truncate(path, 8 * MIB)
        return path

    def loads(watch, path, rng):
        return [watch.worker(submitter, path, WRITE, 512, (0, 8 * MIB), rng.randint(2, 4), 0, 512,
                             number) for number in range(3)]

    lock_row("unaligned_holes", loads, prepare)


# ---- frozen

def freezer(calls, folder, at_ns, seconds):
    """Freezes; who thaws is another process, so that the two cannot be taken for each other."""
    file = os.open(folder, os.O_RDONLY)
    wait_until(at_ns)
    before = monotonic_ns()
    fcntl.ioctl(file, FIFREEZE, 0)
    calls.note("freeze", before)
    if os.fork() == 0:
        try:
            time.sleep(seconds)
            before = monotonic_ns()
            fcntl.ioctl(file, FITHAW, 0)
            with open(calls.path + ".thaw", "w") as log:
                log.write(f"{before} {os.getpid()}\n")
        finally:
            os._exit(0)
    os.wait()


def frozen(name, before):
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "frozen", write="1ms") as disk:
            path = filled(disk.mountpoint, "data", 8 * MIB)
            other = filled(disk.mountpoint, "other", MIB)
            with Watch(folder, [disk]) as watch:
                # The tracer takes a second or two to attach.
                length = rng.uniform(1.6, 2.4) + (2.0 if before else 0)
                start = monotonic_ns() + round((2.0 if before else 4.0) * SECOND)
                ice = watch.worker(freezer, disk.mountpoint, start, length)
                victims = [*(watch.worker(submitter, path, WRITE, 4096, (0, 8 * MIB), 2, 0.02, 0,
                                          number) for number in range(2)),
                           watch.worker(buffered_writer, other, 4096, (0, MIB), 0.02),
                           watch.worker(syncer, os.path.join(disk.mountpoint, "other"),
                                        os.fdatasync, 4096, True, 0.05)]
                if before:
                    watch.release(7)
                    wait_until(start + round(0.3 * SECOND))
                    watch.trace()
                    watch.join(60)
                    watch.report()
                else:
                    watch.trace()
                    watch.release(8)
                    watch.join(60)
                    watch.report()
        (_, began, _), = ice.notes()
        with open(ice.path + ".thaw") as log:
            thawed, thawer = map(int, log.read().split())
        expect = [Expect(began, thawed + SECOND // 10, (Root("frozen", disk.kdev),),
                         frozenset({"fs.frozen"}))]

        def named(report, _):
            failures, tids = [], tids_of(victims)
            if before:
                return named_share(report, tids, in_class("fs.frozen"),
                                   lambda part, chain: "before" in texts(chain), 0.97,
                                   "'before tracing'", failures), failures
            return named_share(report, tids, in_class("fs.frozen"),
                               lambda part, chain: root_of(part, chain).get("tid") == tid_of(ice),
                               0.97, "freezer", failures), failures

        row_verdict(name, watch, victims, expect=expect, named=named,
                    limits=Limits(stalls=2, seconds=1.5), completeness=not before)


def fs_frozen_during():
    """A file system is frozen for two seconds while tracing runs."""
    frozen("fs_frozen_during", False)


def fs_frozen_before():
    """It was frozen before tracing began."""
    frozen("fs_frozen_before", True)


def knob_writer(calls, queue, turns):
    """Writes settings of the queue, each of which freezes it: (after seconds, file, value)."""
    for after, name, value in turns:
        time.sleep(after)
        with open(os.path.join(queue, name), "w") as file:
            before = monotonic_ns()
            file.write(value)
            file.flush()
            calls.note(f"{name}={value}", before)


def queue_frozen():
    """A setting of the queue is written while I/O is slow: all that is submitted waits."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "frozen", write=f"{rng.randint(400, 700)}ms") as disk:
            path = filled(disk.mountpoint, "data", 8 * MIB)
            queue = f"/sys/block/{disk.short}/queue"
            knobs = [("nr_requests", "64"), ("nr_requests", "128"), ("wbt_lat_usec", "75000"),
                     ("wbt_lat_usec", "0"), ("scheduler", "mq-deadline"), ("scheduler", "none")]
            first = rng.choice((0, 2, 4))
            turns = [(rng.uniform(1.0, 1.6), *knobs[(first + turn) % 6]) for turn in range(4)]
            with Watch(folder, [disk]) as watch:
                knob = watch.worker(knob_writer, queue, turns)
                victims = [watch.worker(direct, path, "write", 4096, 8 * MIB, 0.02 * number, 0,
                                        number) for number in range(4)]
                victims += [watch.worker(submitter, path, WRITE, 4096, (0, 8 * MIB), 1, 0.05, 0, 9)]
                watch.trace()
                watch.go(7)
        expect = [Expect(start, end + SECOND // 20, (Root("frozen", disk.kdev),),
                         frozenset({"block.frozen"})) for _, start, end in knob.notes()]
        print("knobs:", [(what, round((end - start) / 1e6)) for what, start, end in knob.notes()])

        def named(report, _):
            failures = []
            return named_share(report, tids_of(victims), in_class("block.frozen"),
                               lambda part, chain: root_of(part, chain).get("tid") == tid_of(knob),
                               0.97, "who wrote the knob", failures), failures

        row_verdict("queue_frozen", watch, victims, expect=expect, named=named)


# ---- requests, throttles

def queue_depth():
    """All requests of a shallow queue are taken."""
    rng = seed()
    depth = rng.choice((4, 8))
    scheduler = rng.choice(("none", "mq-deadline"))
    with Folder() as folder:
        with Disk(folder, "shallow", write=f"{rng.randint(50, 90)}ms") as disk:
            path = filled(disk.mountpoint, "data", 8 * MIB)
            for name, value in (("scheduler", scheduler), ("nr_requests", str(depth))):
                with open(f"/sys/block/{disk.short}/queue/{name}", "w") as file:
                    file.write(value)
            print(f"depth {depth}, scheduler {scheduler}")
            with Watch(folder, [disk]) as watch:
                victims = [watch.worker(submitter, path, WRITE, 4096, (0, 8 * MIB), 2 * depth, 0.01,
                                        0, number) for number in range(2)]
                victims += [watch.worker(syncer, os.path.join(disk.mountpoint, "synced"))]
                watch.trace()
                watch.go(5)

        evidence = watch.evidence()
        requests = evidence.trace.requests[disk.kdev]

        def wanted(report, part):
            """Depth, requests in flight and the oldest's age, against the trace of the driver."""
            said = all_texts(part)
            match = re.search(r"(\d+) requests in flight then, the oldest ([\d.]+) (us|ms|s)\b",
                              said)
            if not match or f"has {depth}" not in said:
                return False
            begin, _ = report.span(part)
            flying = [one for one in requests if one.start <= begin < one.end]
            age = max((begin - one.start for one in flying), default=0)
            told = float(match[2]) * {"us": 1e3, "ms": 1e6, "s": 1e9}[match[3]]
            return abs(int(match[1]) - depth) <= 1 and abs(told - age) < 3e6 + 0.05 * age

        def named(report, _):
            failures = []
            return named_share(report, tids_of(victims), in_class("block.tag"),
                               lambda part, chain: wanted(report, part), 0.95,
                               "depth, in flight, oldest", failures), failures

        row_verdict("queue_depth", watch, victims, named=named, evidence=evidence)


CASES = [dio_readers_buffered_writer, extending_aio, unaligned_extending_aio, unaligned_holes,
         fs_frozen_during, fs_frozen_before, queue_frozen, queue_depth, *case_fault_limits.CASES,
         *case_fault_systems.CASES]
NOT_YET = [*case_fault_systems.NOT_YET]

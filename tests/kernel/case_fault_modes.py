"""Fault rows of disks and mounts: several disks, ways to mount ext4, a hanging device, tracing that
begins in the middle."""

import time

from fault_loads import (JOURNAL_WAITS, Named, appender, attribute_worker, class_us, folder_worker,
                         overwriter, renamer, resyncer, root_is, says, submitter, sync_worker,
                         written_file)
from faults import PYTHON, Expect, Limits, Root, Watch, clip, kdev, row_verdict, tid_of
from lab import MS, SECOND, Disk, Folder, check, run, seed
from sources import dev_name


def external_journal(name, slow_journal):
    """The journal on a disk of its own; one of the two is slow."""
    rng = seed()
    delays = {"flush": f"{rng.randint(60, 150)}ms", "write": f"{rng.randint(20, 60)}ms"}
    with Folder() as folder:
        with Disk(folder, "journal", mount=False, size="64m",
                  **(delays if slow_journal else {})) as journal:
            run("mke2fs", "-q", "-b", "4096", "-O", "journal_dev", journal.device)
            with Disk(folder, "data", mkfs=("-b", "4096", "-J", f"device={journal.device}"),
                      **({} if slow_journal else delays)) as disk:
                with Watch(folder, [disk, journal]) as watch:
                    watch.follow_comm(f"jbd2/{journal.short}")
                    victims = [watch.worker(appender, f"{disk.mountpoint}/a{number}")
                               for number in range(2)]
                    path = written_file(disk.mountpoint, "w", 65536)
                    victims.append(watch.worker(overwriter, path))
                    watch.trace()
                    watch.go(7)
                slow = journal if slow_journal else disk
                other = disk if slow_journal else journal
                run("umount", disk.mountpoint)

        def named(report, evidence):
            named = Named(report, victims)
            named.share(f"the slow disk ({'journal' if slow_journal else 'data'})",
                        lambda part, path: root_is(path, part, "device.flush", "device.write",
                                                   "device.queue", "device.read"),
                        lambda part, path: kdev(path[-1]["root"]["dev"]) == slow.kdev, 0.85,
                        seconds=3)
            blamed = sum(root["us"] for stall in report.stalls for root in stall["roots"]
                         if root.get("dev") == dev_name(other.kdev))
            named.words.append(f"the fast one {blamed / 1e3:.1f} ms")
            return named.result()

        row_verdict(name, watch, victims, named=named, tolerance=PYTHON,
                    related={disk.kdev: {disk.kdev, journal.kdev},
                             journal.kdev: {disk.kdev, journal.kdev}},
                    limits=Limits(stalls=10, seconds=3))


def external_journal_slow():
    external_journal("external_journal_slow", True)


def external_data_slow():
    external_journal("external_data_slow", False)


def two_disks():
    """Two file systems, one disk slow, the other as busy: never its fault."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "slow", flush=f"{rng.randint(60, 200)}ms") as slow, \
                Disk(folder, "fast") as fast:
            with Watch(folder, [slow, fast]) as watch:
                victims = [watch.worker(appender, f"{disk.mountpoint}/a{number}")
                           for disk in (slow, fast) for number in range(2)]
                watch.trace()
                watch.go(6)

        def named(report, evidence):
            named = Named(report, victims[:2])
            named.share("the slow disk", lambda part, path: root_is(
                            path, part, "device.flush", "device.write", "device.queue"),
                        lambda part, path: kdev(path[-1]["root"]["dev"]) == slow.kdev, 0.999,
                        seconds=3)
            return named.result()

        row_verdict("two_disks", watch, victims, named=named, tolerance=PYTHON,
                    limits=Limits(stalls=10, seconds=3))


def mode(name, options="", mkfs=(), named=None):
    """One way to mount ext4 under a load of all kinds, on a disk with slow moments."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "disk", flush="15ms", write="3ms", mkfs=mkfs, options=options) as disk:
            with Watch(folder, [disk]) as watch:
                folder_ = disk.mountpoint
                path = [written_file(folder_, f"w{number}", 65536) for number in range(3)]
                victims = {"overwriter": watch.worker(submitter, path[0]),
                           "resyncer": watch.worker(resyncer, path[1], 0.01),
                           "appender": watch.worker(appender, f"{folder_}/a0", 0.01),
                           "data": watch.worker(appender, f"{folder_}/a1", 0.02, 512 * 1024),
                           "renamer": watch.worker(renamer, folder_)}
                watch.trace()
                at = rng.uniform(1, 2)
                disk.plan([(at, at + 1.5, "flush", f"{rng.randint(150, 300)}ms"),
                           (at + 2, at + 4, "write", f"{rng.randint(40, 100)}ms")])
                watch.go(7)
        row_verdict(name, watch, victims.values(), tolerance=PYTHON,
                    named=named and (lambda report, evidence: named(report, evidence, victims,
                                                                    disk)),
                    limits=Limits(stalls=5, seconds=2))


def mode_default():
    mode("mode_default", named=overwriter_waits)


def overwriter_waits(report, evidence, victims, disk):
    """A direct overwrite waits for the journal where it needs a handle, by the kernel's own events.
    (lazytime spares it the handle on 6.12; 6.18 was seen to take one for every write all the
    same.)"""
    tid = tid_of(victims["overwriter"])
    handles = sum(one.tid == tid for one in evidence.handles.get(disk.kdev, []))
    us = class_us(report, [victims["overwriter"]], *JOURNAL_WAITS)
    text = f"overwrites took {handles} handles and waited {us / 1e6:.2f} s for the journal"
    return text, [] if (us > 0.1e6) == (handles > 0) else [text]


def mode_lazytime():
    mode("mode_lazytime", "lazytime", named=overwriter_waits)


def mode_data_journal():
    mode("mode_data_journal", "data=journal")


def mode_nobarrier():
    def named(report, evidence, _victims, disk):
        flushes = sum(one.op == "flush" for one in evidence.trace.requests[disk.kdev])
        blamed = sum(root["us"] for stall in report.stalls for root in stall["roots"]
                     if root["cause"] == "device.flush")
        text = f"device.flush {blamed / 1e3:.1f} ms, {flushes} flushes"
        return text, [text] if blamed > 2000 else []
    mode("mode_nobarrier", "nobarrier", named=named)


def mode_fast_commit():
    def named(report, _evidence, victims, _disk):
        us = class_us(report, victims.values(), "journal.fastcommit", "block.flush")
        text = f"journal.fastcommit and its flush {us / 1e6:.2f} s"
        return text, [] if us > 0.2e6 else [text]
    mode("mode_fast_commit", mkfs=("-O", "fast_commit"), named=named)


def mode_dioread_nolock():
    mode("mode_dioread_nolock", "dioread_nolock")


def mode_dioread_lock():
    mode("mode_dioread_lock", "dioread_lock")


def every_call():
    """Every kind of call that can block, on a disk with slow moments."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "disk", flush="15ms", write="3ms") as disk:
            paths = [written_file(disk.mountpoint, f"w{number}", 65536) for number in range(4)]
            with Watch(folder, [disk]) as watch:
                victims = [watch.worker(folder_worker, disk.mountpoint),
                           watch.worker(attribute_worker, paths[0]),
                           watch.worker(sync_worker, paths[1]),
                           watch.worker(sync_worker, paths[2]),
                           watch.worker(resyncer, paths[3], 0.01)]
                watch.trace()
                at = rng.uniform(1, 2)
                disk.plan([(at, at + 2, "flush", f"{rng.randint(150, 300)}ms"),
                           (at + 2.5, at + 5.5, "write", f"{rng.randint(40, 100)}ms")])
                watch.go(9)

        def named(report, _evidence):
            tids = {tid_of(one) for one in victims}
            kinds = sorted({stall["kind"] for stall in report.stalls if stall["tid"] in tids})
            seen = {op.kind for one in victims for op in one.ops()
                    if op.end - op.start > 20 * MS}
            return " ".join(kinds), [f"no stall of {kind}" for kind in seen - set(kinds)]

        row_verdict("every_call", watch, victims, named=named, tolerance=PYTHON,
                    limits=Limits(stalls=30, seconds=5))


def hung():
    """A device that completes nothing: named while it still hangs."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "hung", flush="5ms") as disk:
            with Watch(folder, [disk]) as watch:
                path = written_file(disk.mountpoint, "w", 65536)
                victims = [watch.worker(appender, f"{disk.mountpoint}/a{number}", 0.05)
                           for number in range(2)] + [watch.worker(overwriter, path, 0.05)]
                tracer = watch.trace()
                at = rng.uniform(1, 2)
                disk.plan([(at, at + 1, "flush", "16s")])
                watch.release(at + 2)
                time.sleep(at + 10)
                watch.report()  # while it hangs
                watch.join(60)

        def named(report, evidence):
            named = Named(report, victims)
            since = min(one.start for one in evidence.trace.requests[disk.kdev]
                        if one.end - one.start > 5 * SECOND)
            named.share("device.hung", lambda part, path: part["class"] not in (
                            "cpu.run", "cpu.wait"),
                        lambda part, path: root_is(path, part, "device.hung"), 0.97,
                        [(since, report.end)], 10)
            age = (report.end - since) / SECOND
            named.share("its age", lambda part, path: root_is(path, part, "device.hung"),
                        lambda part, path: says(path, rf"\b{age:.1f}\d* s|\b{age - 0.05:.1f}\d* s"))
            open_ = [stall for stall in report.stalls if stall.get("unfinished")]
            if len(open_) < 2:
                named.failures.append(f"{len(open_)} stalls are called unfinished")
            return named.result()

        check(tracer.returncode == 0, "the tracer failed")
        evidence = watch.evidence()
        long = [one for one in evidence.trace.requests[disk.kdev] if one.end - one.start > SECOND]
        expect = [Expect(one.start, one.end, (Root("device.hung", disk.kdev),)) for one in long]
        row_verdict("hung", watch, victims, named=named, tolerance=PYTHON, expect=expect,
                    evidence=evidence, limits=Limits(stalls=2, seconds=10))


def begun_before():
    """Tracing begins in the middle of a stall."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "slow", flush="5ms") as disk:
            with Watch(folder, [disk]) as watch:
                path = written_file(disk.mountpoint, "w", 65536)
                victims = [watch.worker(appender, f"{disk.mountpoint}/a{number}", 0.3)
                           for number in range(3)]
                victims.append(watch.worker(overwriter, path, 0.3))
                disk.plan([(0, 1, "flush", f"{rng.uniform(5, 7):.2f}s")])
                watch.release(9)
                time.sleep(rng.uniform(1.2, 2))
                watch.trace()
                watch.join(60)
                watch.report()

        def named(report, evidence):
            named = Named(report, victims)
            cut = [stall for stall in report.stalls if stall.get("cut") == "start"]
            named.words.append(f"{len(cut)} begun before")
            if len(cut) < 3:
                named.failures.append(f"{len(cut)} stalls are marked as begun before tracing")
            long = [(one.start, one.end) for one in evidence.trace.requests[disk.kdev]
                    if one.end - one.start > SECOND]
            named.share("device.flush", lambda part, path: True,
                        lambda part, path: root_is(path, part, "device.flush"), 0.97,
                        clip(long, report.start, report.end), 3)
            return named.result()

        row_verdict("begun_before", watch, victims, named=named, tolerance=PYTHON,
                    limits=Limits(stalls=3, seconds=5))


CASES = [external_journal_slow, external_data_slow, two_disks, mode_default, mode_lazytime,
         mode_data_journal, mode_nobarrier, mode_fast_commit, mode_dioread_nolock,
         mode_dioread_lock, every_call, hung, begun_before]
NOT_YET = []

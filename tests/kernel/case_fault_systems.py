"""Fault rows of XFS, btrfs and the raw device, and of the tool without one of its hooks."""

import ctypes
import json
import os
import random
import shutil
import time

from aio import WRITE
from block_loads import (MIB, SHORT_CALLS, STACKS, direct, extender, filled, row_verdict,
                         submitter, syncer, tids_of)
from faults import Limits, Watch, chains
from lab import Disk, Failure, Folder, Skip, check, report_of, run, seed, tool
# lab has put the oracle's folder on the path.
from rows import RowJudge, failures_of, row_line, sums_of, tables


# ---- other file systems, no file system

NINETY_FIVE = Limits(right=0.95)


def delays(rng):
    return {"write": f"{rng.randint(1, 4)}ms", "flush": f"{rng.randint(30, 80)}ms"}


def fs_row(name, fs, mkfs, loads, wants, seconds=6, options="", size="1g", more=None,
           **verdict):
    rng = seed()
    with open("/proc/filesystems") as file:
        if not shutil.which(f"mkfs.{fs}") or fs not in file.read().split():
            raise Skip(f"no mkfs.{fs}, or the kernel does not know {fs}")
    with Folder() as folder:
        with Disk(folder, fs, size=size, fs=fs, mkfs=mkfs, options=options,
                  **(more or delays)(rng)) as disk:
            with Watch(folder, [disk]) as watch:
                watch.follow_comm("xfsaild", "btrfs-", "kworker", "kthreadd")
                victims = loads(watch, disk.mountpoint, rng)
                watch.trace()
                watch.go(seconds)

        def named(report, _):
            seen = {}
            for _, part, _, us in chains(report, tids_of(victims)):
                seen[part["class"]] = seen.get(part["class"], 0) + us
            failures = [f"no {one} was reported, but {sorted(seen)}" for one in wants
                        if one not in seen]
            return ", ".join(f"{one} {seen.get(one, 0) / 1e6:.2f} s" for one in wants), failures

        row_verdict(name, watch, victims, named=named, pauses=between_rounds,
                    **{"limits": NINETY_FIVE, **verdict})


def between_rounds(evidence):
    """xfsaild sleeps 10 to 50 ms between two rounds of writing back."""
    return {tid: [(one.start, one.end) for one in segments
                  if one.state == "blocked" and one.symbols[:1] == ("xfsaild",)]
            for tid, segments in evidence.segments_of.items()}


def xfs_fsync():
    """fsync of files that grow: the log is forced, which flushes."""
    fs_row("xfs_fsync", "xfs", ("-f",), lambda watch, folder, rng: [
        watch.worker(syncer, os.path.join(folder, f"f{number}")) for number in range(3)],
        ("log.force",))


def xfs_growing_aio():
    """AIO that makes a file grow, with O_SYNC or syncs of the same file beside it."""
    def loads(watch, folder, rng):
        path = filled(folder, "grows", MIB)
        return [watch.worker(extender, path, 65536),
                watch.worker(submitter, path, WRITE, 4096, (0, MIB), 4, 0.01, 0, 1),
                watch.worker(direct, path, "write", 4096, MIB, 0.02, os.O_SYNC, 2),
                watch.worker(syncer, path, os.fsync, 4096, True, 0.05)]

    fs_row("xfs_growing_aio", "xfs", ("-f",), loads, ("log.force", "block.write"))


def churn(calls, folder, number):
    """Creates files with large attributes and unlinks them, in a folder of its own: log space is
    used up, by a block and more for each."""
    rng = random.Random(number)
    home = os.path.join(folder, f"churn{number}")
    os.mkdir(home)
    turn = 0
    while calls.going():
        path = os.path.join(home, f"{turn % 400}")
        os.close(calls.time("open", os.open, path, os.O_CREAT | os.O_WRONLY, 0o644))
        calls.time("xattr", os.setxattr, path, "user.kt", b"a" * rng.randint(1000, 3000))
        if turn >= 200:
            calls.time("unlink", os.unlink, os.path.join(home, f"{(turn - 200) % 400}"))
        turn += 1


def truncater(calls, path):
    """Changes a file's size, a transaction each."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    turn = 0
    while calls.going():
        turn += 1
        calls.time("truncate", os.ftruncate, file, (turn % 8 + 1) * 65536)
        time.sleep(0.005)


SMALL_LOG = ("-f", "--unsupported", "-l", "size=6m")  # mkfs.xfs makes so small a log for tests


def slow_writes(rng):
    return {"write": f"{rng.randint(20, 50)}ms"}


def xfs_log_space():
    """The log is full of what is not yet in its place."""
    def loads(watch, folder, rng):
        data = filled(folder, "data", MIB)
        for number in range(5):
            watch.worker(churn, folder, number)
        return [*(watch.worker(truncater, os.path.join(folder, f"t{number}"))
                  for number in range(2)),
                watch.worker(direct, data, "write", 4096, MIB, 0.01)]

    fs_row("xfs_log_space", "xfs", SMALL_LOG, loads, ("log.space",), seconds=8, size="256m",
           more=slow_writes)


def xfs_names():
    """Creating and unlinking on XFS where the log has no space: waits for it, for the log's writes,
    for buffers that are being written and for the workers that clear away what was unlinked."""
    fs_row("xfs_names", "xfs", SMALL_LOG, lambda watch, folder, rng: [
        watch.worker(churn, folder, number) for number in range(4)], ("log.space",), seconds=8,
        size="256m", more=slow_writes, tolerance=SHORT_CALLS)


def btrfs_fsync():
    fs_row("btrfs_fsync", "btrfs", ("-f",), lambda watch, folder, rng: [
        watch.worker(syncer, os.path.join(folder, f"f{number}")) for number in range(3)],
        ("tree.log",))


def whole_sync(calls, folder, pause):
    file = os.open(folder, os.O_RDONLY)
    libc = ctypes.CDLL(None)
    while calls.going():
        calls.time("syncfs", libc.syncfs, file)
        time.sleep(pause)


def maker(calls, folder, number, pause):
    """Creates and unlinks files: each needs a transaction."""
    turn = 0
    while calls.going():
        path = os.path.join(folder, f"m{number}-{turn % 50}")
        os.close(calls.time("open", os.open, path, os.O_CREAT | os.O_WRONLY, 0o644))
        calls.time("unlink", os.unlink, path)
        turn += 1
        time.sleep(pause)


def btrfs_commit():
    """Transaction commits, and those who need the next transaction."""
    def loads(watch, folder, rng):
        for number in range(2):
            watch.worker(maker, folder, number, 0.005)
        return [watch.worker(whole_sync, folder, 0.1),
                watch.worker(syncer, os.path.join(folder, "f"), os.fsync, 4096, False, 0.05),
                watch.worker(truncater, os.path.join(folder, "t"))]

    fs_row("btrfs_commit", "btrfs", ("-f",), loads, ("tree.commit",))


def raw_osync():
    """O_DIRECT|O_SYNC writers of one device: write, then flush."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "raw", size="256m", mount=False, **delays(rng)) as disk:
            with Watch(folder, [disk]) as watch:
                victims = [watch.worker(direct, disk.device, "write", 4096, 64 * MIB, 0, os.O_SYNC,
                                        number) for number in range(rng.randint(2, 6))]
                watch.trace()
                watch.go(6)

        def named(report, _):
            seen = {part["class"] for _, part, _, _ in chains(report, tids_of(victims))}
            return "-", [f"no {one} was reported" for one in ("block.flush", "block.write")
                         if one not in seen]

        row_verdict("raw_osync", watch, victims, named=named, limits=NINETY_FIVE)


# ---- hooks removed

def hooks():
    done = run(tool(), "doctor", "--json", "-", ok=False)
    return [hook["name"] for hook in json.loads(done.stdout)["hooks"] if hook["ok"]]


def without_hook(rng, hook):
    """A mix of stalls without one hook: what it explained may be unexplained, nothing else."""
    with Folder() as folder:
        with Disk(folder, "slow", flush=f"{rng.randint(30, 60)}ms",
                  write=f"{rng.randint(5, 15)}ms") as disk:
            data = filled(disk.mountpoint, "data", 8 * MIB)
            grows = filled(disk.mountpoint, "grows", 4096)
            refused = run(tool(), "trace", "--dev", disk.device, "-d", "0.1s", "--quiet",
                          "--disable-hook", hook, ok=False)
            if refused.returncode == 3:
                lines = refused.stderr.strip().splitlines()
                check(len(lines) == 1 and hook in lines[0], f"refused with {refused.stderr!r}")
                print(f"row: without_hook {hook} | refused: {lines[0]}")
                return
            with Watch(folder, [disk]) as watch:
                victims = [watch.worker(syncer, os.path.join(disk.mountpoint, f"f{number}"))
                           for number in range(2)]
                victims += [watch.worker(extender, grows, 4096, 512),
                            watch.worker(extender, grows, 65536),
                            watch.worker(submitter, data, WRITE, 4096, (0, 8 * MIB), 2, 0.01, 0, 1),
                            watch.worker(maker, disk.mountpoint, 7, 0.005)]
                watch.trace("--disable-hook", hook)
                watch.go(3)
        report = report_of(folder)
        judge = RowJudge(report, watch.evidence(), tids_of(victims), rules=STACKS,
                         truth={disk.kdev: disk.truth()})
        score = judge.judge()
        print("\n".join(tables(score)))
        print(row_line(f"without_hook {hook}", score, "-"), flush=True)
        # Losses are expected, and unexplained time is what a missing hook shall make.
        failures = sums_of(report)[:3] + failures_of(
            score, Limits(right=0, unexplained=2, unknown=0.02, stalls=0))
        check(not failures, "; ".join(failures))


def hooks_removed():
    """Some hooks by seed; all of them where KT_ALL_HOOKS is set."""
    rng = seed()
    names = hooks()
    if not os.environ.get("KT_ALL_HOOKS"):
        names = rng.sample(names, 6)
    bad = []
    for hook in names:
        try:
            without_hook(rng, hook)
        except Failure as failure:  # every hook is told of before the row fails
            print(f"without {hook}: {failure}")
            bad.append(hook)
    check(not bad, f"without {', '.join(bad)} something else is blamed")


CASES = [xfs_fsync, xfs_growing_aio, xfs_log_space, xfs_names, btrfs_fsync, btrfs_commit, raw_osync,
         hooks_removed]
NOT_YET = []

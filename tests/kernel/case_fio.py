"""Job files as people write them: the real fio and our engines run each on one emulated disk, in
pairs, and the ratios of their figures are compared."""

import errno
import glob
import itertools
import json
import math
import os
import random
import shutil
import statistics
import time

from lab import HERE, SECOND, Disk, Failure, Folder, check, run, tool

JOBS = {os.path.basename(path)[:-4]: path
        for path in sorted(glob.glob(os.path.join(HERE, "jobs", "*.fio")))}
# scripts/test has time for these; scripts/soak runs all.
QUICK = ("mixed-oltp", "append-log", "key-value-store", "batch-load")
# How far the mean of the pairs' ratios may be from 1.
TOLERANCE = 0.05
# Single runs differ by more: 14 of fio's own of chunk-server ranged from 0.79 to 1.04 of their
# median, as its four threads share commits or take turns. So pairs are run until the mean is known.
LEAST_PAIRS, MOST_PAIRS = 3, 12
SCHEDULES = itertools.count(7)
# Student's t for 95 %, by the number of pairs.
T_95 = dict(zip(range(3, 13), (4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20)))


def vary_times(disk):
    """The disk's times change every 5 ms. With constant times all requests go in rounds, a flush
    lets a whole number of them pass, and 50 us between a completion and the next submission decide
    over one round more: mixed-oltp read 24 % more in the same number of flushes, with the same
    times in the disk's log. Each run has others: the programs do not begin at the same place of a
    schedule, and a load of 0.3 s (fill) was 6 % slower by one of them in every pair."""
    luck = random.Random(next(SCHEDULES))
    now = (time.monotonic_ns() - disk.created_ns) / SECOND
    with open(disk.schedule, "w") as file:
        for step in range(2400):
            begin = now + step * 0.005
            for op, least, most in (("read", 1500, 4500), ("write", 1500, 4500),
                                    ("flush", 4000, 12000)):
                file.write(f"{begin:.3f}s {begin + 0.005:.3f}s {op} {luck.randint(least, most)}us\n")
    run(tool(), "disk", "reload", disk.name)


def touch_all(disk):
    """Blocks that were never written have no memory behind them yet: fill wrote 470 blocks of 256k
    a second where the disk was new, and 1160 where it was not, by both programs."""
    path = os.path.join(disk.mountpoint, "all")
    block = os.urandom(1 << 20)
    with open(path, "wb", buffering=0) as file:
        while True:
            try:
                if file.write(block) < len(block):
                    break
            except OSError as error:
                check(error.errno == errno.ENOSPC, f"{path}: {error}")
                break
    os.unlink(path)
    os.sync()


def by_fio(folder, disk, path):
    out = folder.file("fio.json")
    work = os.path.join(disk.mountpoint, "work")
    os.mkdir(work)
    # Jobs as threads, as ours are: processes begin some ms apart, and whether the four writers of
    # synchronous-journal begin together alone decides whether they share each commit (fio with
    # threads 145 to 150 writes a second, ours 135 to 152) or take turns (fio's processes 90).
    threaded = folder.file("job.fio")
    with open(path) as source, open(threaded, "w") as target:
        target.write("[global]\nthread\n" + source.read())
    vary_times(disk)
    try:
        run("fio", "--output-format=json", f"--output={out}", threaded, cwd=work, timeout=120)
    finally:
        shutil.rmtree(work)
    with open(out) as file:
        return json.load(file)


def by_us(folder, disk, path):
    out = folder.file("ours.json")
    vary_times(disk)
    run(tool(), "run", "job", path, "--dir", disk.mountpoint, "--no-trace", "--quiet",
        "--fio-json", out, timeout=120)
    left = [name for name in os.listdir(disk.mountpoint) if name != "lost+found"]
    check(not left, f"{path}: files are left: {left}")
    with open(out) as file:
        return json.load(file)


def figures(report):
    """Rates by section and direction; of several threads that are not one group, the sum."""
    result = {}
    for job in report["jobs"]:
        check(job["error"] == 0, f"{job['jobname']} met error {job['error']}")
        for direction in ("read", "write"):
            side = job[direction]
            if side["total_ios"]:
                key = f"{job['jobname']} {direction}"
                ios, iops, mean = result.get(key, (0, 0, 0))
                result[key] = (ios + side["total_ios"], iops + side["iops"],
                               mean + side["lat_ns"]["mean"] * side["total_ios"])
        if job["sync"]["total_ios"]:
            key = f"{job['jobname']} sync"
            ios, iops, mean = result.get(key, (0, 0, 0))
            syncs = job["sync"]["total_ios"]
            result[key] = (ios + syncs, iops, mean + job["sync"]["lat_ns"]["mean"] * syncs)
    return {key: {"ios": ios, "iops": iops, "lat": mean / ios}
            for key, (ios, iops, mean) in result.items()}


def ratio_of(fio, ours):
    """The geometric mean of the pairs' ratios, and the half width of its 95 % interval; both are
    of logarithms, which for a few percent are the same as ratios."""
    logs = [math.log(mine / theirs) for theirs, mine in zip(fio, ours)]
    return statistics.mean(logs), T_95[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))


def compared(fio, ours, last):
    """{what: (verdict, text)}; a verdict is True, False, or None: more pairs are needed."""
    result = {}
    for key in sorted(set().union(*fio, *ours)):
        in_all = [all(key in one for one in runs) for runs in (fio, ours)]
        if not all(in_all):
            result[key] = False, f"is not in every run of {'ours' if in_all[0] else 'fio'}"
            continue
        # Syncs have no rate of their own in fio's report; their number follows from the writes'.
        what = "ios" if key.endswith(" sync") else "iops"
        theirs = [one[key][what] for one in fio]
        mine = [one[key][what] for one in ours]
        mean, half = ratio_of(theirs, mine)
        # Counts of a few have whole steps.
        limit = TOLERANCE + (3 if what == "ios" else 1.5) / statistics.median(theirs)
        good = True if abs(mean) + half <= limit else False if abs(mean) - half > limit else None
        if good is None and last:
            good = abs(mean) <= limit
        times = " ".join(f"{statistics.median(one[key]['lat'] for one in runs) / 1e3:.0f}"
                         for runs in (fio, ours))
        result[key] = good, (
            f"{what} fio {statistics.median(theirs):.1f} ({min(theirs):.1f} to {max(theirs):.1f}) "
            f"ours {statistics.median(mine):.1f} ({min(mine):.1f} to {max(mine):.1f}), "
            f"{len(fio)} pairs, ratio {math.exp(mean):.3f} +- {half:.3f}, allowed {limit:.3f}; "
            f"lat us {times}")
    return result


def compare(names):
    faults = []
    with Folder() as folder:
        for name in names:
            fio, ours = [], []
            with Disk(folder, name, size="1g", read="3ms", write="3ms", flush="8ms") as disk:
                touch_all(disk)
                while True:
                    # Each program first in half of the pairs.
                    pair = [(by_fio, fio), (by_us, ours)]
                    for program, results in pair if len(fio) % 2 == 0 else reversed(pair):
                        results.append(figures(program(folder, disk, JOBS[name])))
                    if len(fio) < LEAST_PAIRS:
                        continue
                    verdicts = compared(fio, ours, len(fio) == MOST_PAIRS)
                    if None not in [good for good, _ in verdicts.values()]:
                        break
            for key, (good, text) in verdicts.items():
                print(f"  {name:19} {key:18} {text}{'' if good else '  <- differs'}", flush=True)
                if not good:
                    faults.append(f"{name}: {key} {text}")
    if faults:
        raise Failure(f"{len(faults)} figures differ from fio's: {'; '.join(faults[:4])}")


def fio_jobs_quick():
    """A few of them, in scripts/test."""
    check(len(JOBS) >= 20, f"only {len(JOBS)} job files")
    compare(QUICK)


def fio_jobs_all():
    """All of them; minutes."""
    names = os.environ.get("KT_JOBS")
    compare(names.split(",") if names else JOBS)


CASES = [fio_jobs_quick, fio_jobs_all]

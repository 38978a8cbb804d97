"""Job files as people write them: the real fio and our engines run each on one emulated disk, in
turn, and the medians of their figures are compared."""

import glob
import json
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
# Beyond what fio's own runs differ by.
TOLERANCE = 0.05


def vary_times(disk):
    """The disk's times change every 10 ms, in the same way for every run. With constant times all
    requests go in rounds, a flush lets a whole number of them pass, and 50 us between a completion
    and the next submission decide over one round more: mixed-oltp read 24 % more in the same
    number of flushes, with the same times in the disk's log."""
    luck = random.Random(7)
    now = (time.monotonic_ns() - disk.created_ns) / SECOND
    with open(disk.schedule, "w") as file:
        for step in range(1200):
            begin = now + step * 0.01
            for op, least, most in (("read", 1500, 4500), ("write", 1500, 4500),
                                    ("flush", 4000, 12000)):
                file.write(f"{begin:.3f}s {begin + 0.01:.3f}s {op} {luck.randint(least, most)}us\n")
    run(tool(), "disk", "reload", disk.name)


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


def differences(name, fio, ours):
    """Texts of what differs by more than the tolerance and fio's own spread."""
    faults = []
    for key in sorted(set().union(*fio, *ours)):
        in_all = [all(key in one for one in runs) for runs in (fio, ours)]
        if not all(in_all):
            faults.append(f"{name}: {key} is not in every run of {'ours' if in_all[0] else 'fio'}")
            continue
        # Syncs have no rate of their own in fio's report; their number follows from the writes'.
        what = "ios" if key.endswith(" sync") else "iops"
        theirs = [one[key][what] for one in fio]
        mine = [one[key][what] for one in ours]
        middle, our_middle = statistics.median(theirs), statistics.median(mine)
        # Counts of a few have whole steps.
        margin = 3 if what == "ios" else 1.5
        limit = TOLERANCE * middle + max(theirs) - min(theirs) + margin
        good = abs(our_middle - middle) <= limit
        times = " ".join(f"{statistics.median(one[key]['lat'] for one in runs) / 1e3:.0f}"
                         for runs in (fio, ours))
        print(f"  {name:19} {key:18} {what:4} fio {middle:.1f} ({min(theirs):.1f} to "
              f"{max(theirs):.1f}) ours {our_middle:.1f} ({min(mine):.1f} to {max(mine):.1f}), "
              f"ratio {our_middle / middle:.3f}; lat us {times}"
              f"{'' if good else '  <- differs'}", flush=True)
        if not good:
            faults.append(f"{name}: {key} {what} is {our_middle:.1f}, fio's {middle:.1f}, allowed "
                          f"{limit:.1f}")
    return faults


def compare(names, rounds):
    faults = []
    with Folder() as folder:
        for name in names:
            results = {by_fio: [], by_us: []}
            with Disk(folder, name, size="1g", read="3ms", write="3ms", flush="8ms") as disk:
                for number in range(rounds):
                    for program in (by_fio, by_us) if number % 2 == 0 else (by_us, by_fio):
                        results[program].append(figures(program(folder, disk, JOBS[name])))
            faults += differences(name, results[by_fio], results[by_us])
    if faults:
        raise Failure(f"{len(faults)} figures differ from fio's: {'; '.join(faults[:4])}")


def fio_jobs_quick():
    """A few of them, in scripts/test."""
    check(len(JOBS) >= 20, f"only {len(JOBS)} job files")
    compare(QUICK, 2)


def fio_jobs_all():
    """All of them; minutes."""
    names = os.environ.get("KT_JOBS")
    compare(names.split(",") if names else JOBS, 3)


CASES = [fio_jobs_quick, fio_jobs_all]

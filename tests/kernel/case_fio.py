"""Job files as people write them: the real fio and our engines run each on one emulated disk, in
turn, and their figures are compared."""

import glob
import json
import os
import shutil

from lab import HERE, Disk, Failure, Folder, check, run, tool

JOBS = {os.path.basename(path)[:-4]: path
        for path in sorted(glob.glob(os.path.join(HERE, "jobs", "*.fio")))}
# scripts/test has time for these; scripts/soak runs all.
QUICK = ("mixed-oltp", "append-log", "hypervisor-image", "batch-load")
# Two programs cannot agree better than one with itself: beyond what fio's own runs differ by.
TOLERANCE = 0.15


def by_fio(folder, disk, path):
    out = folder.file("fio.json")
    work = os.path.join(disk.mountpoint, "work")
    os.mkdir(work)
    try:
        run("fio", "--output-format=json", f"--output={out}", path, cwd=work, timeout=120)
    finally:
        shutil.rmtree(work)
    with open(out) as file:
        return json.load(file)


def by_us(folder, disk, path):
    out = folder.file("ours.json")
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
    """Texts of what lies further from both of fio's runs than the tolerance."""
    faults = []
    for key in sorted(set(fio[0]) | set(ours)):
        if key not in ours or key not in fio[0]:
            faults.append(f"{name}: {key} is only in {'ours' if key in ours else 'fio'}")
            continue
        # Syncs have no rate of their own in fio's report; their number follows from the writes'.
        what = "ios" if key.endswith(" sync") else "iops"
        theirs = [one[key][what] for one in fio if key in one]
        spread = max(theirs) - min(theirs)
        low = min(theirs) * (1 - TOLERANCE) - spread
        high = max(theirs) * (1 + TOLERANCE) + spread
        # Counts of a few have whole steps.
        margin = 3 if what == "ios" else 1.5
        good = low - margin <= ours[key][what] <= high + margin
        rates = ", ".join(f"{value:.1f}" for value in theirs)
        times = ", ".join(f"{one[key]['lat'] / 1e3:.0f}" for one in fio if key in one)
        print(f"  {name:20} {key:22} {what:4} fio {rates} ours {ours[key][what]:.1f}; lat us fio "
              f"{times} ours {ours[key]['lat'] / 1e3:.0f}{'' if good else '  <- differs'}",
              flush=True)
        if not good:
            faults.append(f"{name}: {key} {what} is {ours[key][what]:.1f}, fio's {theirs}")
    return faults


def compare(names):
    faults = []
    with Folder() as folder:
        for name in names:
            with Disk(folder, name, size="1g", read="1ms", write="1ms", flush="4ms") as disk:
                fio = [figures(by_fio(folder, disk, JOBS[name]))]
                ours = figures(by_us(folder, disk, JOBS[name]))
                fio.append(figures(by_fio(folder, disk, JOBS[name])))
            again = differences(name, fio, ours)
            faults += again
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

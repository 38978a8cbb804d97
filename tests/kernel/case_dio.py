"""`run dio-matrix` against the real fio, strace and the disk's own log."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time

from case_knobs import options_of
from lab import Disk, Folder, Skip, check, run, tool, wait_until
from sources import read_ops


def matrix(folder, *words, timeout=120):
    path = folder.file("matrix.json")
    done = run(tool(), "run", "dio-matrix", *words, "--json", path, timeout=timeout)
    with open(path) as file:
        return json.load(file)["workload"], done.stdout


def cell_of(workload, target, test, bs=4096, threads=None):
    found = [cell for cell in workload["cells"]
             if (cell["target"], cell["test"], cell["bs"]) == (target, test, bs) and
             threads in (None, cell["threads"])]
    check(len(found) == 1, f"{len(found)} cells of {target}, {test}, {bs}")
    return found[0]


def fio_rates(path, test, bs, threads, seconds, size):
    """(read, write) MB/s of the same cell."""
    common = ["--ioengine=psync", "--direct=1", "--thread", f"--numjobs={threads}", f"--bs={bs}",
              f"--size={size}", "--time_based", f"--runtime={seconds}", f"--filename={path}",
              "--group_reporting"]
    modes = ["randread", "randwrite"] if test == "mixed" else [test]
    if test in ("read", "write"):
        # Each thread in a region of its own, as ours are.
        common[5] = f"--size={size // threads}"
        common.append(f"--offset_increment={size // threads}")
    jobs = [word for mode in modes
            for word in [f"--name={mode}", f"--rw={mode}", *common]]
    out = run("fio", "--output-format=json", *jobs, timeout=60).stdout
    rates = [0.0, 0.0]
    for job in json.loads(out[out.index("{"):])["jobs"]:
        rates[0] += job["read"]["bw_bytes"] / 1e6
        rates[1] += job["write"]["bw_bytes"] / 1e6
    return rates


def is_device(path):
    return os.path.exists(path) and stat.S_ISBLK(os.stat(path).st_mode)


def compare(folder, targets, cells, seconds, pairs, tolerance=0.1):
    """`targets`: name -> path; `cells`: (test, bs, threads). Returns what differs by more."""
    words = [word for name, path in targets.items() for word in ("--target", f"{name}={path}")]
    wrong = []
    for test, bs, threads in cells:
        ours, theirs = {name: [] for name in targets}, {name: [] for name in targets}
        for _ in range(pairs):
            workload, _ = matrix(folder, *words, "--destroy-data", "--no-trace", "--tests", test,
                                 "--bs", str(bs), "--threads", str(threads), "--seconds",
                                 f"{seconds}s", "--size", "64m")
            for name, path in targets.items():
                cell = cell_of(workload, name, test, bs)
                ours[name].append((cell.get("read_mb_per_s", 0), cell.get("write_mb_per_s", 0)))
                file = path
                if not is_device(path):
                    # Beside the matrix's own, written through beforehand, as that is.
                    file = f"{path}.fio"
                    if not os.path.exists(file):
                        run("dd", "if=/dev/urandom", f"of={file}", "bs=1M", "count=64",
                            "conv=fsync")
                theirs[name].append(fio_rates(file, test, bs, threads, seconds, 64 << 20))
        for name in targets:
            for side, what in enumerate(("read", "write")):
                # Each at its best: neighbours on the machine only slow down.
                mine = max(rate[side] for rate in ours[name])
                fios = max(rate[side] for rate in theirs[name])
                if fios == 0 and mine == 0:
                    continue
                ratio = mine / fios if fios else float("inf")
                print(f"  {name:5} {test:9} {bs:7} x {threads:2} {what:5} ours {mine:8.2f} fio "
                      f"{fios:8.2f} ratio {ratio:.3f}", flush=True)
                if abs(ratio - 1) > tolerance:
                    wrong.append((name, test, bs, threads, what, ratio))
    return wrong


def none_differ(wrong):
    check(not wrong, f"off by more than 10 %: {wrong}")


def dio_fio():
    """Raw and ext4 columns agree with fio's for the same cells."""
    with Folder() as folder, Disk(folder, "raw", read="4ms", write="4ms", mount=False) as raw, \
            Disk(folder, "ext4", read="4ms", write="4ms") as ext4:
        none_differ(compare(folder, {"raw": raw.device, "ext4": f"{ext4.mountpoint}/matrix"},
                            [("randread", 4096, 4), ("mixed", 65536, 1)], 1, 2))


def delay_for(bs, threads):
    """In ms: at most 2000 requests and 400 MB/s of each kind, or the CPUs decide, not the disk (the
    disk's own server, two programs of 64 threads and the neighbours share two of them)."""
    return max(4, threads / 2, threads * bs / 400e3)


def dio_fio_full():
    """All of them: scripts/soak has the time."""
    wrong = []
    with Folder() as folder, Disk(folder, "raw", mount=False) as raw, \
            Disk(folder, "ext4") as ext4:
        for bs in (4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20):
            for threads in (1, 4, 32):
                delay = delay_for(bs, threads)
                for disk in (raw, ext4):
                    disk.plan([(0, 3600, op, f"{delay:.3f}ms") for op in ("read", "write")])
                # A cell ends when its last requests do: they must be few among all.
                seconds = 1 if delay < 20 else 3
                cells = [(test, bs, threads)
                         for test in ("read", "randread", "write", "randwrite", "mixed")]
                wrong += compare(folder, {"raw": raw.device, "ext4": f"{ext4.mountpoint}/matrix"},
                                 cells, seconds, 3)
    none_differ(wrong)


def starvation(folder, disk, writers):
    """The matrix's one cell under strace, which times each read from outside."""
    path, ops, trace = (folder.file(f"{name}-{writers}") for name in ("json", "ops", "strace"))
    run("strace", "-f", "--seccomp-bpf", "-qq", "-T", "-e", "trace=pread64", "-e", "signal=none",
        "-o", trace, tool(), "run", "dio-matrix", "--target", f"ext4={disk.mountpoint}/file",
        "--writers", writers, "--tests", "randread,randwrite,mixed", "--bs", "64k", "--threads",
        "4", "--seconds", "1500ms", "--size", "16m", "--json", path, "--ops-log", ops,
        "--ops-log-floor", "0", timeout=90)
    with open(path) as file:
        workload = json.load(file)["workload"]
    cell = cell_of(workload, "ext4", "mixed", 65536)
    print(json.dumps(cell))
    reads = [op for op in read_ops(ops) if op.kind == "read"]
    tids = {op.tid for op in reads}
    times = []
    with open(trace) as file:
        for line in file:
            found = re.match(r"(\d+) .*pread64.*= 65536 <([0-9.]+)>", line)
            if found and int(found[1]) in tids:
                times.append(float(found[2]))
    return cell, reads, times


def union(spans):
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def dio_starved():
    """Direct readers beside writers that extend the file (the inode's lock starves them) and
    buffered ones (whose pages they have to write out first)."""
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    results = {}
    with Folder() as folder:
        with Disk(folder, "slow", read="1ms", write="4ms", size="1g") as disk:
            for writers in ("extending", "buffered"):
                results[writers] = starvation(folder, disk, writers)
        truth = disk.truth()
    for writers, (cell, reads, times) in results.items():
        readers, wall = cell["readers"], 4 * 1.5
        mine, theirs = sum(op.end - op.start for op in reads) / 1e9, sum(times)
        print(f"{writers}: {len(reads)} reads of {mine:.3f} s, strace {len(times)} of {theirs:.3f} s")
        check(abs(len(times) - len(reads)) <= 4, f"{len(reads)} reads, strace saw {len(times)}")
        check(abs(theirs - mine) < 0.1 * mine, f"{mine} s in reads, strace {theirs} s")
        explained = 1 - readers["short"]
        check(abs(explained - theirs / wall) < 0.12,
              f"explained {explained:.3f} of the readers' time, strace {theirs / wall:.3f} in reads")
        if writers == "buffered":
            check(any(one["who"] == "writers" for one in readers["holders"]), f"{readers}")
            continue
        # The disk serves a read in 1 ms. What it took beyond that, something kept it from the disk:
        # the lock, says the tool. And the disk was writing then, says its own log.
        kept = (theirs - 0.0012 * len(times)) / wall
        start, end = min(op.start for op in reads), max(op.end for op in reads)
        writing = union([(max(one.start, start), min(one.end, end)) for one in truth
                         if one.op == "write" and one.end > start and one.start < end])
        print(f"  lock {readers['lock.inode']:.3f}; kept from the disk {kept:.3f} by strace; the "
              f"disk wrote {writing / (end - start):.3f} of the time")
        check(readers["lock.inode"] > 0.4, f"the lock does not starve them: {readers}")
        check(abs(readers["lock.inode"] - kept) < 0.12, f"lock {readers}, by strace {kept}")
        check(writing / (end - start) > 0.7 * readers["lock.inode"], "the disk did not write then")
        check(cell["fairness"] < 0.8, f"fairness {cell['fairness']}")
        holder = readers["holders"][0]
        check(holder["who"] == "writers" and holder["share"] > 0.8, f"{holder}")
        check(holder["doing"] == "write, block.write", f"the holder: {holder}")


def dio_remounted():
    """Both ways to mount: no effect today, said with its interval, and put back."""
    with Folder() as folder, Disk(folder, "ext4", read="4ms", write="4ms", size="512m") as disk:
        before = options_of(disk)
        workload, text = matrix(folder, "--target", f"ext4={disk.mountpoint}/file", "--remount",
                                "dioread_nolock,dioread_lock", "--tests", "mixed", "--bs",
                                "64k", "--threads", "4", "--seconds", "500ms", "--loops", "3",
                                "--size", "32m")
        print(text)
        check(options_of(disk) == before, f"options: {options_of(disk)}, before {before}")
        check(os.listdir(disk.mountpoint) == ["lost+found"], os.listdir(disk.mountpoint))
        names = {target["name"] for target in workload["targets"]}
        check(names == {"ext4:dioread_nolock", "ext4:dioread_lock"}, names)
        check(len(workload["cells"]) == 2 and len(workload["verdicts"]) == 2, workload["verdicts"])
        for verdict in workload["verdicts"]:
            low, high = verdict["ci95"]
            check(low <= verdict["effect"] <= high, f"{verdict}")
            # On this kernel there is none to find.
            check(verdict["text"].startswith(("no effect", "unclear")), f"{verdict}")
            check(0.7 < verdict["effect"] < 1.4, f"{verdict}")
        head = next(line for line in text.splitlines() if "BlkSz" in line and "dioread_lock" in line)
        check(head.split()[:2] == ["BlkSz", "Trd"], head)


def dio_interrupted():
    """Ctrl-C prints what is there and leaves nothing; neither does kill -9."""
    with Folder() as folder, Disk(folder, "ext4", size="512m") as disk:
        before = options_of(disk)
        for stop in (signal.SIGINT, signal.SIGKILL):
            path = folder.file("stopped.json")
            process = subprocess.Popen(
                [tool(), "run", "dio-matrix", "--target", f"ext4={disk.mountpoint}/file",
                 "--remount", "dioread_lock,dioread_nolock", "--seconds", "300ms", "--size", "32m",
                 "--threads", "1", "--json", path], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            wait_until(lambda: options_of(disk) != before, 30, "nothing was mounted anew")
            time.sleep(1)
            process.send_signal(stop)
            out, err = process.communicate(timeout=30)
            wait_until(lambda: os.listdir(disk.mountpoint) == ["lost+found"], 20,
                       lambda: f"left behind: {os.listdir(disk.mountpoint)}")
            if stop == signal.SIGINT:
                check(process.returncode == 0, f"exit {process.returncode}: {err}")
                with open(path) as file:
                    workload = json.load(file)["workload"]
                check(0 < workload["cells_done"] < workload["cells_planned"], "cells done")
                check("interrupted" in out and "BlkSz" in out, out)
            else:
                run(tool(), "run", "dio-matrix", "--target", f"ext4={disk.mountpoint}/file",
                    "--tests", "read", "--bs", "4k", "--threads", "1", "--seconds", "100ms",
                    "--size", "8m", "--quiet")
            check(options_of(disk) == before, f"options: {options_of(disk)}, before {before}")


CASES = [dio_fio, dio_fio_full, dio_starved, dio_remounted, dio_interrupted]

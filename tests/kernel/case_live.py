"""Stalls told while tracing goes on, and the flight recorder."""

import json
import os
import re
import signal
import subprocess
import threading
import time

from case_trace import writer
from lab import (MS, SECOND, Disk, Folder, Recording, check, finish, monotonic_ns, report_of,
                 seed, tool, wait_attached, wait_until)
from sources import read_ops

UNITS = {"s": SECOND, "ms": MS, "us": 1000, "min": 60 * SECOND}
# "fsync  python3[4242]  /mnt/w0 (ino 12, loop3)   1.42 s at 4.941 s"
HEADER = re.compile(r"^(\w+)  \S+\[(\d+)\]  .*  ([\d.]+) (s|ms|us|min) at ")


class Told:
    """What a program prints, line by line, with the time at which each line came."""

    def __init__(self, stream):
        self.lines = []
        self.reader = threading.Thread(target=self.read, args=(stream,))
        self.reader.start()

    def read(self, stream):
        for line in stream:
            self.lines.append((monotonic_ns(), line.rstrip("\n")))

    def stalls(self):
        """(came at, kind, tid, ns, lasts, root) of each block printed so far."""
        blocks = []
        for came, line in list(self.lines):
            head = HEADER.match(line)
            if head:
                ns = float(head.group(3)) * UNITS[head.group(4)]
                blocks.append([came, head.group(1), int(head.group(2)), ns, False, ""])
            elif blocks and "still blocked" in line:
                blocks[-1][4] = True
            elif blocks and line.startswith("root cause: "):
                blocks[-1][5] = line[len("root cause: "):]
        return blocks


def slow_flush(disk, seconds):
    """A window with one slow flush, from now on: the truth log tells when it really was."""
    disk.plan([(0, seconds / 2, "flush", f"{int(seconds * 1000)}ms")])


def long_flushes(disk, least):
    return [one for one in disk.truth() if one.op == "flush" and one.end - one.start > least]


def live():
    """A stall is told with its cause while it lasts, and again when it has ended."""
    rng = seed()
    seconds = rng.uniform(2.5, 4)
    with Folder() as folder:
        with Disk(folder, "slow", flush="10ms", write="1ms") as disk:
            with Recording(folder, [disk]) as recording:
                tracer = recording.spawn(tool(), "trace", "--dev", disk.device, "--threshold",
                                         "100ms", follow=False)
                wait_attached(tracer)
                told = Told(tracer.stdout)
                load = recording.spawn(*writer(folder, disk, "--threads", "2", "--loops", "40",
                                               "--pause", "0.05"))
                time.sleep(rng.uniform(0.5, 1.5))
                slow_flush(disk, seconds)
                finish(load, 60)
                time.sleep(1.5)
                ended_ns = monotonic_ns()
                while_traced = [one for one in told.stalls() if one[0] < ended_ns]
                tracer.send_signal(signal.SIGINT)
                tracer.wait(30)
                told.reader.join()
        check_told(while_traced, long_flushes(disk, SECOND), read_ops(folder.file("ops.csv")),
                   disk.short)


def check_told(blocks, flushes, ops, device):
    """The flush by the disk's own log, the calls by their own clock."""
    check(flushes, "no flush was slow: the schedule had no effect")
    slow = [op for op in ops if op.kind in ("fsync", "write") and op.end - op.start > SECOND]
    check(slow, "no call was slow by its own clock")
    during = [one for one in blocks if one[4] and any(flush.start < one[0] < flush.end
                                                     for flush in flushes)]
    print(f"{len(slow)} slow calls, {len(blocks)} told, {len(during)} of them during the flush")
    check(during, "no stall was told while the flush lasted")
    for came, kind, tid, ns, _, root in during:
        op = next((op for op in slow if op.tid == tid and op.start <= came <= op.end), None)
        check(op is not None, f"{kind} of {tid} is told, but was not under way")
        check(abs((came - op.start) - ns) < 0.6 * SECOND,
              f"{kind} of {tid} is told to have lasted {ns / 1e9:.2f} s after "
              f"{(came - op.start) / 1e9:.2f} s")
    for came, kind, tid, ns, lasts, root in blocks:
        if ns > 0.9 * SECOND:
            check(root.startswith(f"device.flush {device}"), f"{kind} of {tid}: root {root!r}")
    # Like ones are told together, the longest for all.
    for op in slow:
        after = [one for one in blocks if not one[4] and 0 < one[0] - op.end < 2 * SECOND]
        check(after, f"{op.kind} of {op.tid} ended and nothing was told in two seconds")
    longest = max(slow, key=lambda op: op.end - op.start)
    check(any(not one[4] and abs(one[3] - (longest.end - longest.start)) < 30 * MS
              for one in blocks),
          f"the longest call took {(longest.end - longest.start) / 1e9:.3f} s by its own clock, "
          f"told are {[round(one[3] / 1e9, 3) for one in blocks]}")


def memory_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def flight():
    """The flight recorder: two slow flushes among many quick calls, a report around each."""
    rng = seed()
    keep_s, run_s = 5, int(os.environ.get("KT_SECONDS", "30"))
    with Folder() as folder:
        with Disk(folder, "slow", flush="200us") as disk:
            with Recording(folder, [disk]) as recording:
                recorder = recording.spawn(
                    tool(), "trace", "--dev", disk.device, "--flight", f"{keep_s}s", "--stop-on",
                    "fsync > 500ms", "--stop-on", "fdatasync > 500ms", "--keep", "2", "--quiet",
                    "--json", folder.file("r.json"), follow=False)
                wait_attached(recorder)
                load = subprocess.Popen(
                    ["fio", "--name=a", f"--directory={disk.mountpoint}", "--rw=randwrite",
                     "--bs=4k", "--size=16m", "--ioengine=psync", "--fdatasync=16",
                     "--numjobs=2", "--time_based", f"--runtime={run_s}", "--output-format=json",
                     f"--output={folder.file('fio.json')}"])
                try:
                    used = watch_flight(rng, disk, recorder, run_s, folder)
                finally:
                    load.wait(120)
                finish(recorder, 30)
        flushes = long_flushes(disk, 500 * MS)
        check(len(flushes) >= 2, f"{len(flushes)} flushes were slow by the disk's log")
        with open(folder.file("fio.json")) as file:
            calls = sum(job["write"]["total_ios"] for job in json.load(file)["jobs"])
        print(f"{calls / run_s:.0f} writes a second, memory {min(used)} to {max(used)} KiB")
        # Once the ring is full it stays; a report takes its own for a moment, and gives it back.
        full, late = used[2 * keep_s], sorted(used[-5:])[2]
        check(late - full < 12 * 1024, f"its memory grew: {used} KiB")
        check(max(used) < 96 * 1024, f"it takes much memory: {used} KiB")
        for number, flush in enumerate(flushes[:2], 1):
            check_flight(report_of(folder, f"r-{number}.json"), flush, disk, keep_s)


def watch_flight(rng, disk, recorder, run_s, folder):
    """Injects the two faults; the recorder's memory at each second."""
    used, planned, begin = [], 0, time.monotonic()
    at = [run_s * rng.uniform(0.35, 0.45), run_s * rng.uniform(0.7, 0.75)]
    while time.monotonic() - begin < run_s and recorder.poll() is None:
        if planned < 2 and time.monotonic() - begin > at[planned]:
            slow_flush(disk, rng.uniform(0.7, 1.2))
            planned += 1
        try:
            used.append(memory_kib(recorder.pid))
        except (OSError, StopIteration):
            break
        time.sleep(1)
    check(planned == 2, "the recorder ended before the second fault")
    wait_until(lambda: os.path.exists(folder.file("r-2.json")), 20, "no second report")
    return used


def check_flight(report, flush, disk, keep_s):
    lasts = (report.end - report.start) / SECOND
    check(keep_s * 0.9 < lasts < keep_s * 1.5 or report.start < flush.start < report.end,
          f"the report is of {lasts:.2f} s")
    check(report.start < flush.start and flush.end < report.end,
          "the flush is not inside of the report")
    check(not any(report.json["loss"].values()), f"it lost something: {report.json['loss']}")
    hit = [stall for stall in report.stalls if stall["duration_us"] * 1000 > 500 * MS]
    check(hit, "the report has no stall over the limit")
    for stall in hit:
        share = sum(root["us"] for root in stall["roots"] if root["cause"] == "device.flush")
        check(share > 0.9 * stall["duration_us"], f"roots: {stall['roots']}")
    # Counts of its window alone: flushes by the disk's log.
    inside = sum(1 for one in disk.truth() if one.op == "flush"
                 and report.start <= one.end <= report.end)
    told = sum(one["count"] for one in report.json["flushes"])
    print(f"{lasts:.2f} s, {len(report.stalls)} stalls, {told} flushes, {inside} by the disk's log")
    check(abs(told - inside) <= max(2, inside // 200), f"{told} flushes, {inside} by the disk's log")


CASES = [live, flight]

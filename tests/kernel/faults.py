"""What the fault rows share: victims with clocks of their own, the trace of what they and known
actors did, and the verdict on one row.

A row looks like this:

    def some_fault():
        rng = seed()
        with Folder() as folder:
            with Disk(folder, "slow", flush="20ms") as disk:
                with Watch(folder, [disk]) as watch:
                    victim = watch.worker(function, disk.mountpoint)  # function(calls, *arguments)
                    watch.trace()                                     # `stalltrace trace` attaches
                    disk.plan([...])                                  # the fault, from now on
                    watch.go(10)                                      # until calls.going() ends
            row_verdict("some_fault", watch, [victim], named=...)     # when the disk is gone
"""

import mmap
import os
import signal
import sys
import time
import traceback

from lab import (MS, SECOND, Failure, Recording, check, finish, interrupt, monotonic_ns, report_of,
                 tool, wait_attached)
# lab has put the oracle's folder on the path.
from check_calls import Tolerance
from evidence import Evidence
from intervals import clip, intersect, measure, subtract, union
from rows import (Expect, Limits, Root, RowJudge, chains, check_completeness, failures_of, row_line,
                  share_named, sums_of, tables)
from sources import kdev, read_ops, read_trace
from threads import Threads

__all__ = ["PYTHON", "Expect", "Limits", "Root", "Watch", "aligned", "chains", "clip", "during",
           "intersect", "kdev", "measure", "row_verdict", "share_named", "subtract",
           "tid_of", "union"]

# An interpreter stands between the victim's clock and its call, and may lose its CPU there.
PYTHON = Tolerance(ns=1 * MS, noisy_share=0.02, clock_gap=2 * MS, preempted_ns=100 * MS,
                   noise_ns=20 * MS)

# In a guest of scripts/vm, whose CPUs are emulated (KT_EMULATED).
EMULATED = Tolerance(ns=5 * MS, noisy_share=0.1, clock_gap=10 * MS, preempted_ns=500 * MS,
                     noise_ns=100 * MS)

LOG_FLOOR = 1 * MS
SETTLE = 0.3  # between the fault's plan and the first call


class Calls:
    """A victim's own clock: every call it makes, timed by CLOCK_MONOTONIC."""

    def __init__(self, path):
        self.path = path
        self.rows = []
        self.until = 0
        self.spans = []  # what else the worker wants to tell: (what, start_ns, end_ns)

    def going(self):
        return monotonic_ns() < self.until

    def time(self, kind, function, *arguments):
        start, result = monotonic_ns(), -1
        try:
            returned = function(*arguments)
            result = 0
            return returned
        finally:
            end = monotonic_ns()
            if end - start >= LOG_FLOOR:
                self.rows.append((kind, start, end, result))

    def note(self, what, start, end=None):
        self.spans.append((what, start, end or monotonic_ns()))

    def write(self, tid):
        with open(self.path, "w") as file:
            file.write("id,kind,tid,start_ns,end_ns,result,reap_from_ns\n")
            for number, (kind, start, end, result) in enumerate(self.rows):
                file.write(f"{number},{kind},{tid},{start},{end},{result},{end}\n")
        with open(self.path + ".notes", "w") as file:
            for what, start, end in self.spans:
                file.write(f"{start} {end} {what}\n")


class Worker:
    """One task of ours (a process with one thread): a victim, or who does the harm."""

    def __init__(self, path, function, arguments, until_pipe):
        self.path = path
        self.pid = os.fork()
        if self.pid == 0:
            self.child(function, arguments, until_pipe)

    def child(self, function, arguments, until_pipe):
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            calls = Calls(self.path)
            gate, other_end = until_pipe
            os.close(other_end)
            word = os.read(gate, 32)
            if word:
                calls.until = int(word)
                function(calls, *arguments)
            calls.write(os.getpid())
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)

    def ops(self):
        return read_ops(self.path)

    def notes(self):
        """[(what, start, end)] that the worker wrote down."""
        with open(self.path + ".notes") as file:
            return [(line.split(None, 2)[2].strip(), *map(int, line.split()[:2])) for line in file]


class Watch(Recording):
    """The recorder with stacks and handles around workers, and the tracer under test."""

    def __init__(self, folder, disks, name="w", kib_per_cpu=96 * 1024):
        self.folder, self.disks = folder, list(disks)
        super().__init__(folder, disks, name=name, kib_per_cpu=kib_per_cpu, stacks=True)
        self.workers, self.gates, self.tracers = [], [], []
        self.began = self.ended = 0

    def worker(self, function, *arguments, follow=True):
        """A process that calls `function(calls, *arguments)` once go() is said."""
        gate = os.pipe()
        worker = Worker(self.folder.file(f"ops-{len(self.workers)}.csv"), function, arguments, gate)
        os.close(gate[0])
        self.workers.append(worker)
        self.gates.append((gate[1], worker))
        if follow:
            self.recorder.follow(worker.pid)
        return worker

    def follow_comm(self, *starts):
        """Follows kernel threads by the beginning of their names: known actors of the row."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as file:
                    comm = file.read().strip()
            except OSError:
                continue
            if comm.startswith(starts):
                self.recorder.follow_task(int(pid))

    def trace(self, *words, report="report.json", devices=None, wait=True):
        """`stalltrace trace` on the disks; returns once its window is open."""
        selected = [word for disk in (devices or self.disks) for word in ("--dev", disk.device)]
        tracer = self.spawn(tool(), "trace", *selected, "--quiet", "--json",
                            self.folder.file(report), *words, follow=False)
        if wait:
            wait_attached(tracer)
        self.tracers.append(tracer)
        return tracer

    def release(self, seconds, workers=None):
        """Opens the gates: calls.going() ends `seconds` from now."""
        self.began = self.began or monotonic_ns()
        until = monotonic_ns() + round(seconds * SECOND)
        for gate, worker in list(self.gates):
            if workers is None or worker in workers:
                os.write(gate, str(until).encode())
                os.close(gate)
                self.gates.remove((gate, worker))

    def join(self, timeout):
        """Waits for the released workers; their failures are the row's."""
        deadline = time.monotonic() + timeout
        waiting = {gate_worker for _, gate_worker in self.gates}
        for worker in [one for one in self.workers if one not in waiting and one.pid]:
            while True:
                pid, status = os.waitpid(worker.pid, os.WNOHANG)
                if pid:
                    break
                check(time.monotonic() < deadline, f"worker {worker.pid} does not end")
                time.sleep(0.02)
            worker.pid, worker.tid = 0, worker.pid
            check(status == 0, f"worker {worker.tid} failed: status {status}")

    def report(self):
        """Ends the tracers' windows."""
        self.ended = monotonic_ns()
        for tracer in self.tracers:
            if tracer.poll() is None:
                interrupt(tracer, 60)
            else:
                finish(tracer, 5)

    def go(self, seconds, slack=60):
        """The whole window: workers run, end, and then the tracers report."""
        self.release(seconds)
        self.join(seconds + slack)
        self.report()

    def __exit__(self, *exception):
        for gate, _ in self.gates:
            os.close(gate)  # who was never released ends at once
        for worker in self.workers:
            if worker.pid:
                try:
                    os.kill(worker.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                os.waitpid(worker.pid, 0)
        super().__exit__(*exception)

    def evidence(self):
        trace = read_trace(self.path)
        with open(self.path, errors="replace") as lines, \
                open(self.path + ".stacks", errors="replace") as stacks:
            return Evidence(trace, lines, stacks)


def tid_of(worker):
    """Its process id, also after it ended."""
    return worker.pid or worker.tid


def during(windows, began, roots, **more):
    """Expects of faults given as (from, to) seconds after `began`."""
    return [Expect(began + round(start * SECOND), began + round(end * SECOND), tuple(roots), **more)
            for start, end in windows]


def aligned(size, byte=b"x"):
    """A buffer for direct I/O."""
    buffer = mmap.mmap(-1, size)
    buffer.write(byte * size)
    return buffer


def row_verdict(name, watch, victims, *, report="report.json", expect=(), rules=(), named=None,
                related=None, journals=None, alias=None, pauses=None, limits=None,
                completeness=True,
                evidence=None, report_value=None, tolerance=None):
    """Prints the row's line and raises Failure where it does not hold. `named(report, evidence)`
    returns (text, failures) about what this row wants to be named; `related` is kdev -> kdevs,
    `journals` kdev of a stall -> kdev of its file system, where that is mapped onto the disk;
    `pauses(evidence)` is tid -> when that thread slept on purpose.
    """
    limits = limits or Limits()
    if os.environ.get("KT_EMULATED"):
        tolerance = EMULATED
    value = report_value or report_of(watch.folder, report)
    evidence = evidence or watch.evidence()
    failures = []
    check(not evidence.trace.lost, f"the recorder lost {evidence.trace.lost} events")
    tids = {tid_of(victim) for victim in victims}
    truth = {disk.kdev: disk.truth() for disk in watch.disks}
    judge = RowJudge(value, evidence, tids, expect, rules, related, truth, alias,
                     pauses(evidence) if pauses else None, journals)
    score = judge.judge()
    failures += failures_of(score, limits)
    failures += sums_of(value)[:5]
    # Parts beyond what one call can keep are told as unexplained, and score so.
    allowed = {"folded_parts"}
    if "-rt-" in os.uname().release:
        # PREEMPT_RT skips a probe now and then, and with it a beginning; the report says so.
        allowed |= {"missed_probes", "unmatched"}
    lost = {key: count for key, count in value.json["loss"].items()
            if count and key not in allowed}
    if lost:
        failures.append(f"the report lost {lost}")
    if completeness:
        ops = [op for victim in victims for op in victim.ops()]
        calls = check_completeness(value, ops, Threads(evidence.trace), tolerance)
        print(f"calls: {calls.expected} blocked by their own clock, {calls.reported} reported, "
              f"{calls.matched} joined, {len(calls.noisy)} near misses")
        failures += calls.failures[:8]
    text = "-"
    if named:
        text, unnamed = named(value, evidence)
        failures += unnamed
    print("\n".join(tables(score)))
    for one in failures:
        print(f"  FAULT {one}")
    print(row_line(name, score, text), flush=True)
    if failures:
        raise Failure(f"row {name}: " + "; ".join(failures[:4]))
    return score

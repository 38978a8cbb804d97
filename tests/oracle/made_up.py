"""Made-up truth with a report that is right in everything, for the judge's own tests."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import judge  # noqa: E402
from sources import Commit, Op, Report, Request, Trace, Truth, kdev  # noqa: E402

MS = 1_000_000
SECOND = 1000 * MS
START = 1000 * SECOND  # of the window
DISK, OTHER = kdev("7:3"), kdev("7:4")
FLUSH_US = 1_500_000.0


def flush_root(us, cause="device.flush", dev="7:3", sure="measured", **more):
    return {"cause": cause, "dev": dev, "us": us, "sure": sure, **more}


def flush_part(start_us, us, root=None):
    """A part that waited for a commit, that waited for a flush."""
    root = root or flush_root(us)
    flush = {"kind": "flush", "dev": "7:3", "start_us": start_us, "us": us, "sure": "measured",
             "root": root}
    commit = {"kind": "commit", "id": "12", "start_us": start_us, "us": us, "sure": "measured",
              "causes": [flush]}
    return {"class": "journal.commit", "start_us": start_us, "us": us, "causes": [commit]}


def self_part(start_us, us, tid):
    return {"class": "cpu.run", "start_us": start_us, "us": us,
            "root": {"cause": "self", "tid": tid, "us": us, "sure": "measured"}}


def stall_of(number, tid, start_us):
    """1.5 s of flush and 100 us of the call's own."""
    return {"id": number, "kind": "fdatasync", "pid": 10, "tid": tid, "comm": "load", "dev": "7:3",
            "start_us": start_us, "duration_us": FLUSH_US + 100,
            "parts": [flush_part(start_us, FLUSH_US), self_part(start_us + FLUSH_US, 100.0, tid)],
            "roots": [flush_root(FLUSH_US),
                      {"cause": "self", "tid": tid, "us": 100.0, "sure": "measured"}]}


def report_json():
    stalls = [stall_of(1, 11, 1_000_000.0), stall_of(2, 12, 4_000_000.0),
              stall_of(3, 11, 7_000_000.0)]
    total = sum(stall["duration_us"] for stall in stalls)
    return {
        "schema": "stalltrace/1",
        "window": {"start_unix_ns": 0, "start_monotonic_ns": START, "duration_s": 10.0,
                   "threshold_us": 10000},
        "stalls": stalls,
        "async": [{"kind": "aio", "dev": "7:3", "slow": [
            {"comm": "load", "tid": 11, "user_id": 77, "start_us": 4_200_000.0,
             "duration_us": 1_300_000.0, "submit_us": 10.0, "queue_us": 90.0,
             "device_us": 1_299_800.0, "complete_us": 100.0, "roots": []}]}],
        "waits": [{"class": "journal.commit", "us": 3 * FLUSH_US, "share": 3 * FLUSH_US / total},
                  {"class": "cpu.run", "us": 300.0, "share": 300.0 / total}],
        "roots": [{"cause": "device.flush", "dev": "7:3", "us": 3 * FLUSH_US,
                   "share": 3 * FLUSH_US / total},
                  {"cause": "self", "us": 300.0, "share": 300.0 / total}],
        "commits": [{"dev": "7:3", "count": 3, "proc_count": 3}],
        "flushes": [{"dev": "7:3", "count": 3, "diskstats_count": 3,
                     "device_us": {"count": 3, "mean": FLUSH_US, "max": FLUSH_US}}],
        "loss": {"events": 0, "stalls": 0, "unmatched": 0},
    }


def flush_times():
    return [(START + when * SECOND, START + when * SECOND + 1500 * MS) for when in (1, 4, 7)]


def perfect():
    """Inputs whose report is right in everything."""
    times = flush_times()
    trace = Trace(start=START - SECOND, end=START + 11 * SECOND)
    trace.requests[DISK] = [Request("flush", a - 50_000, b + 50_000, 0, 0) for a, b in times]
    trace.commits[DISK] = [Commit(n, a - MS, b + MS) for n, (a, b) in enumerate(times)]
    # The threads sleep but for the calls' last 100 us and the time between calls.
    for tid, calls in ((11, (1, 7)), (12, (4,))):
        for when in calls:
            start = START + when * SECOND
            trace.switches.append((start, tid, "D", 0))
            trace.wakings.append((start + 1500 * MS - 3000, tid))
            trace.switches.append((start + 1500 * MS, 0, "R", tid))
    trace.switches.sort()
    ops = [Op(number, "fdatasync", tid, START + when * SECOND - 2000,
              START + when * SECOND + 1500 * MS + 102_000)
           for number, (tid, when) in enumerate(((11, 1), (12, 4), (11, 7)))]
    ops.append(Op(77, "aio", 11, START + 4200 * MS, START + 5510 * MS, 65536, START + 5490 * MS))
    return judge.Inputs(report=Report(report_json()), disk=DISK,
                        truth=[Truth("flush", a, b) for a, b in times], trace=trace, ops=ops)


def run(inputs, checks=judge.CHECKS, **limits):
    return judge.judge(inputs, checks, judge.Limits(**limits))


class Case(unittest.TestCase):
    def assert_fails(self, verdict, check, text):
        self.assertFalse(verdict.ok, verdict.text())
        lines = [line for line in verdict.failures if line.startswith(check + ":")]
        self.assertTrue(any(text in line for line in lines), "\n".join(verdict.failures))

    def assert_ok(self, verdict):
        self.assertTrue(verdict.ok, verdict.text())

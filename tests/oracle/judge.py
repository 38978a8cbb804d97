#!/usr/bin/env python3
"""The independent judge of a stalltrace report.

It shares no code with the tool. From the emulated disk's truth log, a trace of the block layer
taken by recorder.py and the workload's own op log it computes what the device was doing at each
instant, and from that what the root of each stalled call has to be. Exit status: 0 all checks
passed, 1 some failed, 2 bad input.

  judge.py --report R.json --truth T.csv --block B.txt --ops O.csv --disk 7:3
"""

import argparse
import json
import os
import sys
from dataclasses import dataclass, field

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import attribution  # noqa: E402
import check_calls  # noqa: E402
import check_report  # noqa: E402
from intervals import clip, measure, union  # noqa: E402
from device import Device, flushes_disagree, settle_unfinished  # noqa: E402
from sources import (Trace, dev_name, kdev, read_ops, read_report, read_trace,  # noqa: E402
                     read_truth)
from threads import Threads  # noqa: E402

CHECKS = ("sources", "completeness", "async", "sums", "attribution", "flushes", "counts", "loss")
SLOW_FOR_NO_DELAY = 2_000_000  # a request of a disk without delays takes this long by bad luck only
SHOWN = 12  # failures of one check


@dataclass
class Limits:
    right: float = 0.95
    wrong: float = 0.02
    unexplained: float = 0.02
    cpu_claims: float = 0.10
    stalls: int = 0  # at least this many stalls must have been scored
    quiet: bool = False  # no root may be a device at all


@dataclass
class Inputs:
    report: object
    disk: int | None = None
    truth: list = field(default_factory=list)
    trace: Trace | None = None
    ops: list | None = None
    growth: dict | None = None
    innocent: list = field(default_factory=list)  # kdevs of disks that must never be blamed


class Verdict:
    def __init__(self):
        self.rows = []  # (check, ok, summary)
        self.failures = []
        self.tables = []

    def add(self, check, failures, summary):
        self.rows.append((check, not failures, summary))
        shown = [f"{check}: {text}" for text in failures[:SHOWN]]
        if len(failures) > SHOWN:
            shown.append(f"{check}: and {len(failures) - SHOWN} more")
        self.failures += shown

    @property
    def ok(self):
        return not self.failures

    def text(self):
        lines = [f"{'ok  ' if ok else 'FAIL'}  {check:<13} {summary}"
                 for check, ok, summary in self.rows]
        return "\n".join(lines + self.tables + self.failures)


def devices_of(inputs):
    """kdev -> Device: by the trace where there is one, else by the truth log."""
    trace = inputs.trace
    devices = {dev: Device(requests) for dev, requests in (trace.requests if trace else {}).items()}
    if inputs.disk is not None and inputs.disk not in devices:
        devices[inputs.disk] = Device([] if trace else inputs.truth)
    return devices


def judge_sources(inputs, verdict):
    """The judge's own inputs have to agree before anything is said of the report."""
    failures = []
    trace = inputs.trace
    if trace and trace.lost:
        failures.append(f"the recorder lost {trace.lost} events: record again, with more buffer")
    if trace and inputs.disk is not None:
        executed = trace.requests.get(inputs.disk, [])
        failures += [f"the server's flush at {one.start} ns is not in the trace"
                     for one in flushes_disagree(inputs.truth, executed)]
    if trace and (trace.start > inputs.report.start or trace.end < inputs.report.end):
        failures.append("the trace does not cover the report's window")
    flushes = sum(one.op == "flush" for one in inputs.truth)
    verdict.add("sources", failures,
                f"{len(inputs.truth)} requests and {flushes} flushes in the truth log, "
                f"{sum(map(len, trace.requests.values())) if trace else 0} requests traced, "
                f"{trace.unseen if trace else 0} without their completion")


def judge_calls(inputs, verdict, threads, checks, tolerance):
    if inputs.ops is None:
        return
    check = check_calls.CallCheck(inputs.report, inputs.ops, threads, tolerance)
    if "completeness" in checks:
        result = check.check()
        verdict.add("completeness", result.failures,
                    f"{result.expected} calls blocked, {result.reported} reported, "
                    f"{result.matched} joined, {result.other_kinds} of kinds not logged, "
                    f"{len(result.noisy)} near misses")
    if "async" in checks:
        result = check.check_async()
        verdict.add("async", result.failures,
                    f"{result.expected} slow requests, {result.reported} reported, "
                    f"{result.matched} joined")


def matrix_table(name, score):
    lines = [f"{name}: expected -> given, ms"]
    for (expected, given), ns in sorted(score.matrix.items(), key=lambda item: -item[1]):
        lines.append(f"  {expected:<14} -> {given:<22} {ns / 1e6:>12.3f}  "
                     f"{100 * score.share(ns):6.2f} %")
    for ns, stall, what in sorted(score.worst, reverse=True, key=lambda one: one[0])[:5]:
        lines.append(f"  wrong for {ns / 1e6:.3f} ms: stall {stall}, {what}")
    return lines


def judge_attribution(inputs, verdict, threads, limits):
    judge = attribution.Judge(inputs.report, devices_of(inputs), threads, inputs.disk)
    scores = judge.score()
    for dev, score in sorted(scores.items()):
        failures = []
        if dev not in inputs.innocent:
            for name, limit in (("wrong", limits.wrong), ("unexplained", limits.unexplained),
                                ("by_cpu_claim", limits.cpu_claims)):
                if score.share(getattr(score, name)) >= limit and getattr(score, name):
                    failures.append(f"{100 * score.share(getattr(score, name)):.2f} % {name}, "
                                    f"allowed is under {100 * limit:g} %")
            if score.total and score.share(score.right) < limits.right:
                failures.append(f"{100 * score.share(score.right):.2f} % right, wanted are "
                                f"{100 * limits.right:g} %")
        for other, ns in score.innocent.items():
            failures.append(f"{dev_name(other)} is blamed for {ns / 1e6:.3f} ms of stalls on "
                            f"{dev_name(dev)}")
        verdict.add("attribution", failures,
                    f"{dev_name(dev)}: {score.total / 1e9:.3f} s stalled, "
                    f"{100 * score.share(score.right):.2f} % right, "
                    f"{100 * score.share(score.wrong):.2f} % wrong, "
                    f"{100 * score.share(score.unexplained):.2f} % unexplained, "
                    f"{100 * score.share(score.guessed):.2f} % wrong guesses")
        verdict.tables += matrix_table(dev_name(dev), score)
    failures = []
    scored = len(inputs.report.stalls)
    if scored < limits.stalls:
        failures.append(f"{scored} stalls reported, at least {limits.stalls} were provoked")
    if judge.not_scored > 0.02 * sum(s["duration_us"] for s in inputs.report.stalls) * 1e3:
        failures.append(f"{judge.not_scored / 1e6:.3f} ms of stalls name a device that the judge "
                        "has no trace of")
    if limits.quiet:
        failures += quiet_failures(inputs, threads)
    verdict.add("attribution", failures, f"{scored} stalls")


def quiet_failures(inputs, threads):
    """Nothing was slow, so no stall may be blamed on a device: unless the driver, or a thread that
    sends requests to it, had no CPU, so that the device did take that long by the trace."""
    failures = []
    requests = inputs.trace.requests.get(inputs.disk, []) if inputs.trace else []
    slow = union([(r.start, r.end) for r in requests if r.end - r.start > SLOW_FOR_NO_DELAY])
    for stall in inputs.report.stalls:
        span = inputs.report.span(stall, "duration_us")
        excused = measure(union(clip(slow, *span), threads.others_runnable(stall["tid"], *span)))
        for root in stall.get("roots", []):
            blamed = root["us"] * 1e3 - excused
            if root["cause"].startswith("device.") and blamed > attribution.EDGE:
                failures.append(f"stall {stall['id']} ({stall['kind']} of {stall.get('comm')}): "
                                f"{root['cause']} {root.get('dev')} for {root['us'] / 1e3:.3f} ms "
                                "on a disk without any delay")
    return failures


def judge(inputs, checks=CHECKS, limits=None, tolerance=None):
    limits = limits or Limits()
    verdict = Verdict()
    threads = Threads(inputs.trace or Trace())
    requests = []
    if inputs.trace:
        for dev, traced in inputs.trace.requests.items():
            inputs.trace.requests[dev] = settle_unfinished(
                traced, inputs.truth if dev == inputs.disk else [])
        requests = inputs.trace.requests.get(inputs.disk, [])
    if "sources" in checks:
        judge_sources(inputs, verdict)
    judge_calls(inputs, verdict, threads, checks, tolerance)
    if "sums" in checks:
        verdict.add("sums", check_report.check_sums(inputs.report),
                    f"{len(inputs.report.stalls)} stalls")
    if "attribution" in checks:
        judge_attribution(inputs, verdict, threads, limits)
    if "flushes" in checks and inputs.disk is not None:
        failures, facts = check_report.check_flushes(inputs.report, inputs.disk, inputs.truth,
                                                     requests)
        verdict.add("flushes", failures, ", ".join(f"{v} {k}" if isinstance(v, int) else f"{k} {v}"
                                                   for k, v in facts.items()))
    if "counts" in checks and inputs.disk is not None:
        failures = check_report.check_counts(inputs.report, inputs.disk, inputs.trace,
                                             inputs.growth)
        verdict.add("counts", failures, f"commits and flushes of {dev_name(inputs.disk)}")
    if "loss" in checks:
        verdict.add("loss", check_report.check_loss(inputs.report), "")
    return verdict


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", required=True, help="the tool's JSON")
    parser.add_argument("--truth", help="the emulated disk's log")
    parser.add_argument("--block", action="append", help="trace of recorder.py (repeatable)")
    parser.add_argument("--ops", help="the workload's op log")
    parser.add_argument("--disk", help="MAJOR:MINOR of the emulated disk")
    parser.add_argument("--innocent", action="append", default=[],
                        help="MAJOR:MINOR of a disk that must not be blamed")
    parser.add_argument("--growth", help='JSON {"commits": n, "flushes": n} counted outside')
    parser.add_argument("--checks", default=",".join(CHECKS))
    parser.add_argument("--min-right", type=float, default=Limits.right)
    parser.add_argument("--max-wrong", type=float, default=Limits.wrong)
    parser.add_argument("--max-unexplained", type=float, default=Limits.unexplained)
    parser.add_argument("--min-stalls", type=int, default=0)
    parser.add_argument("--quiet", action="store_true",
                        help="the disk has no delay: no device may be blamed")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    checks = options.checks.split(",")
    if unknown := set(checks) - set(CHECKS):
        print(f"judge.py: no such check: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    try:
        inputs = Inputs(report=read_report(options.report),
                        disk=kdev(options.disk) if options.disk else None,
                        truth=read_truth(options.truth) if options.truth else [],
                        trace=read_trace(*options.block) if options.block else None,
                        ops=read_ops(options.ops) if options.ops else None,
                        growth=json.loads(options.growth) if options.growth else None,
                        innocent=[kdev(dev) for dev in options.innocent])
    except (OSError, ValueError, KeyError) as error:
        print(f"judge.py: {error}", file=sys.stderr)
        return 2
    verdict = judge(inputs, checks,
                    Limits(right=options.min_right, wrong=options.max_wrong,
                           unexplained=options.max_unexplained, stalls=options.min_stalls,
                           quiet=options.quiet))
    print(verdict.text())
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main())

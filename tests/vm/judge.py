"""Judges scripts/vm's smoke test: was the slow flush that the disk's own log tells of (an outside
source) named as the root of the calls that it held up? Usage: judge.py FOLDER
"""

import csv
import json
import os
import sys

SLOW_NS = 1_400_000_000  # each fault of the schedule takes 1.5 s
RIGHT_SHARE = 0.9
HELD_UP_SHARE = 0.8


def overlap(one, other):
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def read_flushes(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [(int(row["start_ns"]), int(row["end_ns"])) for row in csv.DictReader(file)
                if row["op"] == "flush"]


def judge(folder):
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    start = report["window"]["start_monotonic_ns"]
    flushes = read_flushes(os.path.join(folder, "truth.csv"))
    end = start + report["window"]["duration_s"] * 1e9
    slow = [flush for flush in flushes
            if flush[1] - flush[0] >= SLOW_NS and start <= flush[0] and flush[1] <= end]
    failures = []
    if not slow:
        failures.append(f"the disk's log has no flush of 1.5 s while tracing, of {len(flushes)}")
    for flush in slow:
        held_up = wanted = named = 0
        for stall in report["stalls"]:
            begin = start + stall["start_us"] * 1000
            shared = overlap(flush, (begin, begin + stall["duration_us"] * 1000))
            if shared < HELD_UP_SHARE * (flush[1] - flush[0]):
                continue
            held_up += 1
            wanted += shared
            roots = sum(root["us"] for root in stall["roots"] if root["cause"] == "device.flush")
            named += min(shared, roots * 1000)
            total = sum(root["us"] for root in stall["roots"])
            if abs(total - stall["duration_us"]) > 1:
                failures.append(f"stall {stall['id']}: roots add up to {total} us, "
                                f"not {stall['duration_us']}")
        if not held_up:
            failures.append("no reported stall spans the slow flush")
        elif named < RIGHT_SHARE * wanted:
            failures.append(f"device.flush is named for {named / wanted:.1%} of what the slow "
                            "flush held up")
        print(f"{report['host']['kernel']}: {held_up} calls held up by a flush of "
              f"{(flush[1] - flush[0]) / 1e9:.2f} s, {wanted / 1e9:.2f} s in all, "
              f"{named / max(1, wanted):.1%} named device.flush")
    # PREEMPT_RT skips a probe now and then; the report says so.
    allowed = {"missed_probes"} if "-rt-" in report["host"]["kernel"] else set()
    lost = {kind: count for kind, count in report["loss"].items()
            if count and kind not in allowed}
    if lost:
        failures.append(f"lost: {lost}")
    for failure in failures:
        print("FAULT", failure)
    return not failures


if __name__ == "__main__":
    sys.exit(0 if judge(sys.argv[1]) else 1)

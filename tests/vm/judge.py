"""Judges scripts/vm's smoke test by outside sources: was the slow flush that the disk's own log
tells of named as the root of the calls that it held up, and does the report's `batching` count the
commits that /proc/fs/jbd2 counts, the syncs that the load logged and the flushes that the disk
logged? Usage: judge.py FOLDER
"""

import csv
import json
import os
import sys

SLOW_NS = 1_400_000_000  # each fault of the schedule takes 1.5 s
RIGHT_SHARE = 0.9
HELD_UP_SHARE = 0.8
EDGE_NS = 5_000_000  # what is this close to the window's edges may count or not
UPTIME_NS = 10_000_000  # /proc/uptime has hundredths


def overlap(one, other):
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def read_rows(path, wanted):
    """[(start, end)] of the log's lines that are `wanted`."""
    with open(path, newline="", encoding="utf-8") as file:
        return [(int(row["start_ns"]), int(row["end_ns"])) for row in csv.DictReader(file)
                if wanted(row)]


def read_commits(path):
    """[(ns, the kernel's count of commits then)]"""
    with open(path, encoding="utf-8") as file:
        return [(round(float(when) * 1e9), int(count)) for when, count in map(str.split, file)]


class Judge:
    def __init__(self, folder):
        self.folder = folder
        with open(self.file("report.json"), encoding="utf-8") as file:
            self.report = json.load(file)
        window = self.report["window"]
        self.start = window["start_monotonic_ns"]
        self.end = self.start + round(window["duration_s"] * 1e9)
        self.kernel = self.report["host"]["kernel"]
        self.flushes = read_rows(self.file("truth.csv"), lambda row: row["op"] == "flush")
        self.failures = []

    def file(self, name):
        return os.path.join(self.folder, name)

    def check_slow_flushes(self):
        slow = [flush for flush in self.flushes if flush[1] - flush[0] >= SLOW_NS
                and self.start <= flush[0] and flush[1] <= self.end]
        if not slow:
            self.failures.append("the disk's log has no flush of 1.5 s while tracing, of "
                                 f"{len(self.flushes)}")
        for flush in slow:
            self.check_slow_flush(flush)

    def check_slow_flush(self, flush):
        held_up = wanted = named = 0
        for stall in self.report["stalls"]:
            begin = self.start + stall["start_us"] * 1000
            shared = overlap(flush, (begin, begin + stall["duration_us"] * 1000))
            if shared < HELD_UP_SHARE * (flush[1] - flush[0]):
                continue
            held_up += 1
            wanted += shared
            roots = sum(root["us"] for root in stall["roots"] if root["cause"] == "device.flush")
            named += min(shared, roots * 1000)
            total = sum(root["us"] for root in stall["roots"])
            if abs(total - stall["duration_us"]) > 1:
                self.failures.append(f"stall {stall['id']}: roots add up to {total} us, "
                                     f"not {stall['duration_us']}")
        if not held_up:
            self.failures.append("no reported stall spans the slow flush")
        elif named < RIGHT_SHARE * wanted:
            self.failures.append(f"device.flush is named for {named / wanted:.1%} of what the slow "
                                 "flush held up")
        print(f"{self.kernel}: {held_up} calls held up by a flush of "
              f"{(flush[1] - flush[0]) / 1e9:.2f} s, {wanted / 1e9:.2f} s in all, "
              f"{named / max(1, wanted):.1%} named device.flush")

    def check_loss(self):
        loss = dict(self.report["loss"])
        # PREEMPT_RT skips a probe now and then, and with it the beginning of something; the report
        # says so.
        if "-rt-" in self.kernel and loss["unmatched"] <= loss["missed_probes"]:
            loss["unmatched"] = loss["missed_probes"] = 0
        lost = {kind: count for kind, count in loss.items() if count}
        if lost:
            self.failures.append(f"lost: {lost}")

    # ---- batching

    def commits_outside(self):
        """Least and most commits that the kernel counted in the window."""
        samples = read_commits(self.file("commits"))

        def around(when):
            before = [count for at, count in samples if at + UPTIME_NS <= when]
            after = [count for at, count in samples if at >= when]
            return (before[-1] if before else None), (after[0] if after else None)

        (before_start, after_start), (before_end, after_end) = around(self.start), around(self.end)
        if None in (before_start, after_start, before_end, after_end):
            return None
        return before_end - after_start, after_end - before_start

    def inside(self, rows):
        """Least and most of the rows that end in the window."""
        return tuple(sum(self.start + edge <= end <= self.end - edge for _, end in rows)
                     for edge in (EDGE_NS, -EDGE_NS))

    def check_batching(self):
        entries = self.report.get("batching")
        if not entries or len(entries) != 1:
            self.failures.append(f"the report has {len(entries or [])} batching entries, not one")
            return
        entry = entries[0]
        syncs = read_rows(self.file("ops.csv"), lambda row: row["kind"] == "fdatasync")
        # PREEMPT_RT: each probe that was skipped may be one that counts.
        missed = self.report["loss"].get("missed_probes", 0)
        told = []
        for what, count, bounds in (
                ("commits", entry["commits"] + entry["timer_commits"], self.commits_outside()),
                ("syncs", sum(entry["syncs"].values()), self.inside(syncs)),
                ("flushes", sum(entry["flushes"].values()), self.inside(self.flushes))):
            if bounds is None:
                self.failures.append(f"{what}: nobody counted them outside around the window")
                continue
            least, most = bounds
            told.append(f"{count} {what} ({least} to {most} outside)")
            if not least - missed <= count <= most:
                self.failures.append(f"{what}: {count} in batching, {least} to {most} outside")
            if most == 0:
                self.failures.append(f"there were no {what} outside: the load does nothing")
        requests = entry["commits"] + entry["syncs"]["flush_only"]
        shared = entry.get("syncs_per_commit", 0)
        if abs(shared * requests - sum(entry["syncs"].values())) > 0.01 * requests:
            self.failures.append(f"{shared} syncs per commit times {requests} requests is not "
                                 f"{sum(entry['syncs'].values())} syncs")
        print(f"{self.kernel}: batching: {', '.join(told)}")

    def judge(self):
        self.check_slow_flushes()
        self.check_loss()
        self.check_batching()
        for failure in self.failures:
            print("FAULT", failure)
        return not self.failures


if __name__ == "__main__":
    sys.exit(0 if Judge(sys.argv[1]).judge() else 1)

"""Tracepoints of the kernel, recorded by ftrace in an instance of its own: what syncs, commits and
flushes there were, as the kernel itself tells it."""

import bisect
import os
import re

from lab import check

TRACING = "/sys/kernel/tracing"
SYNC_ENTER, SYNC_EXIT = "ext4/ext4_sync_file_enter", "ext4/ext4_sync_file_exit"
COMMIT_START, COMMIT_END = "jbd2/jbd2_start_commit", "jbd2/jbd2_end_commit"
BIO_QUEUE = "block/block_bio_queue"
ISSUE, COMPLETE = "block/block_rq_issue", "block/block_rq_complete"
SYNC_FS = "ext4/ext4_sync_fs"
ALL = (SYNC_ENTER, SYNC_EXIT, SYNC_FS, COMMIT_START, COMMIT_END, BIO_QUEUE, ISSUE, COMPLETE)
LINE = re.compile(r"-(\d+)\s+\[\d+\] \S+\s+(\d+)\.(\d+): (\w+): (?:dev )?(\d+),(\d+) (.*)")


WAKING = "sched/sched_waking"
LOSSES = ("overrun", "commit overrun", "dropped events")
WAKING_LINE = re.compile(r" (\d+)\.(\d+): sched_waking: comm=(\S+) ")


class KernelEvents:
    """`woken`: the name of a thread whose wake-ups are recorded, too."""

    def __init__(self, *events, woken=None):
        self.path = f"{TRACING}/instances/kt-{os.getpid()}"
        self.events = events + ((WAKING,) if woken else ())
        self.woken = woken
        self.read = None
        self.wakings = []  # ns of CLOCK_MONOTONIC, once rows() has read the trace

    def put(self, name, value):
        with open(f"{self.path}/{name}", "w") as file:
            file.write(value)

    def __enter__(self):
        os.mkdir(self.path)
        self.put("trace_clock", "mono")
        self.put("buffer_size_kb", "16384")
        if self.woken:
            self.put(f"events/{WAKING}/filter", f'comm == "{self.woken}"')
        for event in self.events:
            self.put(f"events/{event}/enable", "1")
        return self

    def only(self, disk):
        """From here on: what others do on other file systems would crowd ours out."""
        for event in self.events:
            if event != WAKING:
                self.put(f"events/{event}/filter", f"dev == {disk.kdev}")

    def lines(self):
        """Of the whole trace, none of it lost."""
        for cpu in os.listdir(f"{self.path}/per_cpu"):
            with open(f"{self.path}/per_cpu/{cpu}/stats") as file:
                for key, value in re.findall(r"([a-z ]+): (\d+)\n", file.read()):
                    check(key not in LOSSES or int(value) == 0,
                          f"ftrace lost events of {cpu}: {key} {value}")
        with open(f"{self.path}/trace") as file:
            yield from file

    def rows(self, event, dev):
        """(ns of CLOCK_MONOTONIC, tid, what follows the device), on the device MAJOR:MINOR.
        What is read once is kept: nothing is added to it."""
        if self.read is None:
            self.read = {}
            for line in self.lines():
                woken = self.woken and WAKING_LINE.search(line)
                if woken:
                    self.wakings.append(int(woken[1]) * 10**9 + int(woken[2]) * 1000)
                match = LINE.search(line)
                if not match:
                    continue
                tid, seconds, us, name, major, minor, rest = match.groups()
                at = int(seconds) * 10**9 + int(us) * 1000
                rows = self.read.setdefault((name, f"{major}:{minor}"), [])
                rows.append((at, int(tid), rest.strip()))
        return self.read.get((event.split("/")[1], dev), [])

    def times(self, event, dev):
        return [at for at, _, _ in self.rows(event, dev)]

    def __exit__(self, *_):
        for event in self.events:
            self.put(f"events/{event}/enable", "0")
        os.rmdir(self.path)


def near(what, ours, outside, share=0.02):
    print(f"  {what}: {ours:.4g}, from outside {outside:.4g}")
    check(abs(ours - outside) <= share * outside, f"{what} is {ours}, from outside {outside}")


def spans(begins, ends):
    """[(begin, end, tid)] of what a task does one at a time, by its end."""
    open_at, found = {}, []
    for at, kind, tid in sorted([(at, 0, tid) for at, tid, _ in begins] +
                                [(at, 1, tid) for at, tid, _ in ends]):
        if kind == 0:
            open_at[tid] = at
        elif tid in open_at:
            found.append((open_at.pop(tid), at, tid))
    return found


def from_request(commits, wakings):
    """The commits from when their thread was woken for them, if it slept: the first time since the
    commit before."""
    before, whole = 0, []
    for begin, end, tid in commits:
        first = bisect.bisect_right(wakings, before)
        asked = wakings[first] if first < len(wakings) else begin
        whole.append((min(asked, begin), end, tid))
        before = end
    return whole


class Seen:
    """Syncs, commits and flushes of a disk that ended in a window [start, end] of nanoseconds."""

    def __init__(self, kernel, dev, start, end):
        def ended(all_spans):
            return [(a, b, tid) for a, b, tid in all_spans if start <= b <= end]

        def flush(rows):
            return [(at, 0, rest) for at, _, rest in rows if rest.startswith("FF ")]

        every = spans(kernel.rows(SYNC_ENTER, dev), kernel.rows(SYNC_EXIT, dev))
        self.syncs = ended(every)
        # Anybody's sync(2) on this machine goes to every file system: where it waits counts.
        self.whole_syncs = sum(1 for at, _, rest in kernel.rows(SYNC_FS, dev)
                               if start <= at <= end and rest == "wait 1")
        commits = spans(kernel.rows(COMMIT_START, dev), kernel.rows(COMMIT_END, dev))
        self.commits = ended(from_request(commits, kernel.wakings))
        # One at a time on a disk with one queue, whoever's interrupt tells of its end.
        self.flushes = ended(spans(flush(kernel.rows(ISSUE, dev)),
                                   flush(kernel.rows(COMPLETE, dev))))
        by_tid = {}
        for sync in self.syncs:
            by_tid.setdefault(sync[2], []).append(sync)
        asked = {}
        for at, tid, rest in kernel.rows(BIO_QUEUE, dev):
            if not rest.startswith("F"):
                continue
            mine = by_tid.get(tid, [])
            i = bisect.bisect_right([begin for begin, _, _ in mine], at) - 1
            if i >= 0 and at <= mine[i][1]:
                asked[mine[i]] = at
        self.asked_for_a_flush = asked
        # If a commit ended before it asked, it may have waited for that one, and is the commit's.
        commit_ends = sorted(end for _, end, _ in self.commits)
        self.flush_only = [sync for sync, at in asked.items()
                           if bisect.bisect_left(commit_ends, sync[0]) ==
                           bisect.bisect_right(commit_ends, at)]
        # Otherwise a commit was nobody's: no sync was in flight as it ended, or those that were had
        # gone on to a flush of their own before.
        self.wanted_commits = [
            commit for commit in self.commits
            if any(sync[0] <= commit[1] <= sync[1] and asked.get(sync, commit[1]) >= commit[1]
                   for sync in every)]

"""Readers of what the judge is given: the truth log, the trace, the op log and the report."""

import csv
import json
import re
from dataclasses import dataclass, field

NS_PER_US = 1000


def kdev(text):
    """"7:3" or "7,3" -> (7 << 20) | 3, as the kernel keeps it."""
    major, minor = re.split("[:,]", text)
    return int(major) << 20 | int(minor)


def dev_name(dev):
    return f"{dev >> 20}:{dev & 0xfffff}"


@dataclass
class Truth:
    """One request as the emulated disk's server saw it."""

    op: str
    start: int
    end: int
    offset: int = 0
    bytes: int = 0


def read_truth(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    truth = []
    for number, row in enumerate(rows):
        try:
            truth.append(Truth(row["op"], int(row["start_ns"]), int(row["end_ns"]),
                               int(row["offset"]), int(row["bytes"])))
        except (TypeError, ValueError):
            if number != len(rows) - 1:  # only a last line may be torn
                raise ValueError(f"{path}: line {number + 2} is not a truth line: {row}") from None
    return truth


@dataclass
class Op:
    """One call or request by the workload's own clock."""

    id: int
    kind: str
    tid: int
    start: int
    end: int
    result: int = 0
    reap_from: int = 0


def read_ops(path):
    with open(path, newline="") as file:
        return [Op(int(row["id"]), row["kind"], int(row["tid"]), int(row["start_ns"]),
                   int(row["end_ns"]), int(row["result"] or 0), int(row["reap_from_ns"] or 0))
                for row in csv.DictReader(file)]


@dataclass
class Request:
    """One request of the device's driver, issue to completion."""

    op: str  # read, write, flush, discard
    start: int
    end: int
    sector: int
    sectors: int
    finished: bool = True  # else `end` is only the latest that it can be


@dataclass
class Commit:
    tid: int
    start: int = 0
    end: int = 0


@dataclass
class Trace:
    """What the recorder of our own saw."""

    start: int = 0
    end: int = 0
    lost: int = 0
    requests: dict = field(default_factory=dict)  # kdev -> [Request]
    commits: dict = field(default_factory=dict)  # kdev -> [Commit]
    unmatched: int = 0  # completions without an issue
    unseen: int = 0  # requests whose completion was not traced
    switches: list = field(default_factory=list)  # (ns, prev_pid, prev_state, next_pid)
    wakings: list = field(default_factory=list)  # (ns, pid)
    calls: list = field(default_factory=list)  # (syscall, tid, start, end, result)


LINE = re.compile(r"^\s*(.*)-(\d+)\s+\[\d+\]\s+\S+\s+(\d+)\.(\d{6}): (\w+): (.*)$")
RQ_ISSUE = re.compile(r"^(\d+,\d+) (\w+) \d+ \(.*?\) (\d+) \+ (\d+)")
RQ_COMPLETE = re.compile(r"^(\d+,\d+) (\w+) \(.*?\) (\d+) \+ (\d+)")
SWITCH = re.compile(r"prev_pid=(\d+) .*?prev_state=(\S+) ==> .*next_pid=(\d+)")
WAKING = re.compile(r"pid=(\d+) prio=")
COMMIT = re.compile(r"^dev (\d+,\d+) transaction (\d+)")
ENTER = re.compile(r"^NR (\d+) ")
EXIT = re.compile(r"^NR (\d+) = (-?\d+)")


def op_of(rwbs):
    """A leading F is a write's PREFLUSH; the flush request itself is "FF"."""
    for letter, op in (("D", "discard"), ("R", "read"), ("W", "write")):
        if letter in rwbs:
            return op
    return "flush"


class TraceReader:
    """Turns lines of the trace into requests, commits and calls, in order of time."""

    def __init__(self):
        self.trace = Trace()
        self.open_requests = {}
        self.open_commits = {}
        self.open_calls = {}

    def read(self, lines):
        events = []
        for line in lines:
            if line.startswith("#"):
                self.header(line)
                continue
            match = LINE.match(line)
            if match:
                when = int(match[3]) * 10**9 + int(match[4]) * NS_PER_US
                events.append((when, len(events), match[5], int(match[2]), match[6]))
        events.sort()
        if events:
            self.trace.start = self.trace.start or events[0][0]
            self.trace.end = self.trace.end or events[-1][0]
        handlers = {"block_rq_issue": self.issue, "block_rq_complete": self.complete,
                    "block_rq_requeue": self.requeue, "jbd2_start_commit": self.commit_start, "jbd2_end_commit": self.commit_end,
                    "sched_switch": self.switch, "sched_waking": self.waking,
                    "sys_enter": self.enter, "sys_exit": self.leave}
        for when, _, name, pid, rest in events:
            handler = handlers.get(name)
            if handler:
                handler(when, pid, rest)
        self.finish()
        return self.trace

    def header(self, line):
        for key, value in re.findall(r"(\w+)=(\d+)", line):
            if key == "lost":
                self.trace.lost += int(value)
            elif key == "start_ns":
                self.trace.start = int(value)
            elif key == "end_ns":
                self.trace.end = int(value)

    @staticmethod
    def key(dev, op, sector):
        # A flush is issued with sector 0 and completes with sector -1.
        return dev, op if op == "flush" else sector

    def issue(self, when, _, rest):
        match = RQ_ISSUE.match(rest)
        dev, op, sector, sectors = kdev(match[1]), op_of(match[2]), int(match[3]), int(match[4])
        request = Request(op, when, 0, sector, sectors)
        self.trace.requests.setdefault(dev, []).append(request)
        waiting = self.open_requests.setdefault(self.key(dev, op, sector), [])
        if op == "flush" and waiting:
            # A queue has one flush in flight: the completion of the one before was not traced.
            self.unseen_end(waiting.pop(), when)
        waiting.append(request)

    def unseen_end(self, request, latest):
        request.end, request.finished = latest, False
        self.trace.unseen += 1

    def requeue(self, _when, _, rest):
        match = RQ_COMPLETE.match(rest)
        dev = kdev(match[1])
        waiting = self.open_requests.get(self.key(dev, op_of(match[2]), int(match[3])))
        if waiting:  # the driver gave it back; another issue follows
            self.trace.requests[dev].remove(waiting.pop())

    def complete(self, when, _, rest):
        match = RQ_COMPLETE.match(rest)
        dev, op, sector, sectors = kdev(match[1]), op_of(match[2]), int(match[3]), int(match[4])
        if sectors == 0 and op != "flush":
            return  # the end of a flush sequence, not a request of the driver
        waiting = self.open_requests.get(self.key(dev, op, sector))
        if waiting:
            waiting.pop(0).end = when
            return
        # in flight when the recorder began
        self.trace.unmatched += 1
        request = Request(op, self.trace.start, when, sector, sectors)
        self.trace.requests.setdefault(dev, []).insert(0, request)

    def commit_start(self, when, _, rest):
        match = COMMIT.match(rest)
        self.open_commits[kdev(match[1]), int(match[2])] = when

    def commit_end(self, when, _, rest):
        match = COMMIT.match(rest)
        key = kdev(match[1]), int(match[2])
        commit = Commit(key[1], self.open_commits.pop(key, self.trace.start), when)
        self.trace.commits.setdefault(key[0], []).append(commit)

    def switch(self, when, _, rest):
        match = SWITCH.search(rest)
        self.trace.switches.append((when, int(match[1]), match[2], int(match[3])))

    def waking(self, when, _, rest):
        self.trace.wakings.append((when, int(WAKING.search(rest)[1])))

    def enter(self, when, pid, rest):
        self.open_calls[pid] = (int(ENTER.match(rest)[1]), when)

    def leave(self, when, pid, rest):
        match = EXIT.match(rest)
        number, start = self.open_calls.pop(pid, (None, 0))
        if match and number == int(match[1]):
            self.trace.calls.append((number, pid, start, when, int(match[2])))

    def finish(self):
        for waiting in self.open_requests.values():
            for request in waiting:
                self.unseen_end(request, self.trace.end)


def read_trace(*paths):
    def lines():
        for path in paths:
            with open(path, errors="replace") as file:
                yield from file

    return TraceReader().read(lines())


class Report:
    """The report JSON with absolute times."""

    def __init__(self, value):
        self.json = value
        window = value["window"]
        self.start = int(window["start_monotonic_ns"])
        self.end = self.start + round(float(window["duration_s"]) * 1e9)
        self.threshold = round(float(window["threshold_us"]) * NS_PER_US)
        self.stalls = value.get("stalls", [])

    def at(self, us):
        return self.start + round(us * NS_PER_US)

    def span(self, item, length="us"):
        """[start, end) of a stall, part or cause in CLOCK_MONOTONIC nanoseconds."""
        start = self.at(item["start_us"])
        return start, start + round(item[length] * NS_PER_US)


def read_report(path):
    with open(path) as file:
        value = json.load(file)
    if value.get("schema") != "stalltrace/1":
        raise ValueError(f"{path}: schema is {value.get('schema')!r}, not 'stalltrace/1'")
    return Report(value)

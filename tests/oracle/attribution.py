"""Scores the roots of a report against what the device and the threads were doing."""

from dataclasses import dataclass, field

from intervals import clip, dilate, intersect, measure, subtract, union
from sources import NS_PER_US, kdev

EDGE = 2_000_000  # a boundary between two states is known this well
STALL_EDGE_SHARE = 0.01  # of a stall's time may be wrong without being called so

DEVICE_CAUSES = ("device.flush", "device.write", "device.read", "device.queue")


@dataclass
class Leaf:
    """A stretch of a stall for which the report names one root."""

    start: int
    end: int
    cause: str
    dev: int | None
    tid: int  # task.cpu: who ran
    sure: str
    waiter: int = 0  # task.runnable: who waited for a CPU; the root names what ran there
    run: tuple = ()  # summed up of short turns ("turns"): where in this stretch they were is not told


@dataclass
class Score:
    total: int = 0
    right: int = 0
    wrong: int = 0
    guessed: int = 0  # not right, but said to be a guess
    unexplained: int = 0
    by_cpu_claim: int = 0  # right only because the named task was awake during a flush
    matrix: dict = field(default_factory=dict)  # (expected, given) -> ns
    worst: list = field(default_factory=list)  # (wrong ns, stall id, what)
    innocent: dict = field(default_factory=dict)  # kdev of another disk -> ns it was blamed

    def share(self, ns):
        return ns / self.total if self.total else 0.0

    def add(self, other):
        for name in ("total", "right", "wrong", "guessed", "unexplained", "by_cpu_claim"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.matrix, other.matrix), (self.innocent, other.innocent)):
            for key, ns in theirs.items():
                mine[key] = mine.get(key, 0) + ns
        self.worst += other.worst


def root_of(item):
    root = item.get("root")
    if root:
        return root
    # A leaf that is a flush says by itself what it is.
    if item.get("kind") == "flush" and item.get("dev"):
        return {"cause": "device.flush", "dev": item["dev"], "sure": item.get("sure", "measured")}
    return None


def runs_of(report, causes):
    """For each cause the stretch of neighbours that were summed up with it; () for the others."""
    runs = []
    for at, cause in enumerate(causes):
        if not cause.get("turns"):
            runs.append(())
        elif at and runs[-1]:
            runs.append(runs[-1])
        else:
            last = cause
            for other in causes[at:]:
                if not other.get("turns"):
                    break
                last = other
            runs.append((report.span(cause)[0], report.span(last)[1]))
    return runs


def true_span(leaf, true_at):
    """What of the leaf is true, `true_at` being all the times near it at which its root is. Of one
    that was summed up, as much as its stretch has room for."""
    if not leaf.run:
        return clip(true_at, leaf.start, leaf.end)
    room = measure(clip(true_at, *leaf.run))
    return [(leaf.start, min(leaf.end, leaf.start + room))] if room else []


def leaves_of(report, stall):
    """The stall's leaves with their roots; None where the report names roots per stall only."""
    leaves = []

    def walk(item, run=()):
        if item.get("causes"):
            return all(walk(cause, found) for cause, found in
                       zip(item["causes"], runs_of(report, item["causes"])))
        root = root_of(item)
        if root is None:
            return False
        start, end = report.span(item)
        dev = kdev(root["dev"]) if root.get("dev") else None
        leaves.append(Leaf(start, end, root["cause"], dev, root.get("tid", 0),
                           root.get("sure", "measured"), item.get("tid", 0), run))
        return True

    return leaves if all(walk(part) for part in stall.get("parts", [])) and leaves else None


class Judge:
    def __init__(self, report, devices, threads, disk=None):
        self.report = report
        self.devices = devices  # kdev -> Device
        self.threads = threads
        self.disk = disk  # kdev of stalls that name no device
        self.not_scored = 0  # time of stalls on devices the judge knows nothing about
        self.unfollowed = 0  # time of stalls of kernel workers, which the recorder does not follow

    def right_time(self, leaf, stall_dev, tid, start, end):
        """Time in [start, end) at which the leaf's root is true, and how much of that is only
        because a task was awake while the device was busy."""
        device = self.devices[stall_dev].within(start, end)
        blocked = self.threads.blocked(tid, start, end)
        idle = intersect(device["idle"], blocked)
        runnable = self.threads.runnable(tid, start, end)
        running = self.threads.running(tid, start, end)
        if leaf.cause in DEVICE_CAUSES:
            if leaf.dev != stall_dev:
                return [], []
            return intersect(device[leaf.cause], blocked), []
        if leaf.cause == "self":
            own = union(running, [] if self.threads.known(tid) else device["idle"])
            return own, []
        if leaf.cause in ("task.runnable", "task.cpu"):
            holder = leaf.tid if leaf.cause == "task.cpu" else leaf.waiter
            other = []
            if holder and holder != tid:
                other = self.threads.runnable(holder, start, end)
                if leaf.cause == "task.cpu":
                    other = union(other, self.threads.running(holder, start, end))
            own = union(runnable, running if leaf.cause == "task.cpu" else [])
            claim = subtract(intersect(other, blocked), device["idle"])
            return union(own, other, idle), claim
        if leaf.cause.startswith("device."):
            return [], []
        return idle, []

    def expected_labels(self, stall_dev, tid, start, end):
        """What this judge says of [start, end), for the confusion matrix."""
        device = self.devices[stall_dev].within(start, end)
        blocked = self.threads.blocked(tid, start, end)
        rest = blocked
        labels = [("awake", subtract([(start, end)], blocked))]
        for name in ("device.flush", "device.write", "device.read"):
            labels.append((name, intersect(rest, device[name])))
            rest = subtract(rest, device[name])
        labels.append(("none", rest))
        return labels

    def score_leaf(self, score, stall, leaf, stall_dev):
        length = leaf.end - leaf.start
        score.total += length
        if length == 0:
            return 0
        tid = stall["tid"]
        given = leaf.cause if leaf.dev in (None, stall_dev) else leaf.cause + "@other"
        for label, pairs in self.expected_labels(stall_dev, tid, leaf.start, leaf.end):
            if pairs:
                key = (label, given)
                score.matrix[key] = score.matrix.get(key, 0) + measure(pairs)
        if leaf.cause == "unexplained":
            score.unexplained += length
            return 0
        if leaf.dev not in (None, stall_dev):
            score.innocent[leaf.dev] = score.innocent.get(leaf.dev, 0) + length
        start, end = leaf.run or (leaf.start, leaf.end)
        true_at, claimed = self.right_time(leaf, stall_dev, tid, start - EDGE, end + EDGE)
        right = true_span(leaf, dilate(true_at, EDGE))
        score.right += measure(right)
        score.by_cpu_claim += measure(clip(claimed, leaf.start, leaf.end))
        wrong = length - measure(right)
        if leaf.sure == "guess":
            score.guessed += wrong
            return 0
        score.wrong += wrong
        return wrong

    def score_totals(self, score, stall, stall_dev):
        """A stall whose report has no leaves with roots: compares times per root only."""
        start, end = self.report.span(stall, "duration_us")
        tid = stall["tid"]
        wrong = 0
        for root in stall.get("roots", []):
            ns = round(root["us"] * NS_PER_US)
            dev = kdev(root["dev"]) if root.get("dev") else None
            leaf = Leaf(start, end, root["cause"], dev, root.get("tid", 0),
                        root.get("sure", "measured"))
            score.total += ns
            given = leaf.cause if dev in (None, stall_dev) else leaf.cause + "@other"
            score.matrix["?", given] = score.matrix.get(("?", given), 0) + ns
            if leaf.cause == "unexplained":
                score.unexplained += ns
                continue
            if dev not in (None, stall_dev):
                score.innocent[dev] = score.innocent.get(dev, 0) + ns
            true_at, _ = self.right_time(leaf, stall_dev, tid, start, end)
            right = min(ns, measure(clip(dilate(true_at, EDGE), start, end)))
            score.right += right
            if leaf.sure == "guess":
                score.guessed += ns - right
            else:
                score.wrong += ns - right
                wrong += ns - right
        return wrong

    def dev_of(self, stall):
        return kdev(stall["dev"]) if stall.get("dev") else self.disk

    def score_stall(self, stall):
        score = Score()
        stall_dev = self.dev_of(stall)
        if stall_dev not in self.devices:
            return None
        leaves = leaves_of(self.report, stall)
        if leaves is None:
            wrong = self.score_totals(score, stall, stall_dev)
        else:
            wrong = sum(self.score_leaf(score, stall, leaf, stall_dev) for leaf in leaves)
        allowed = STALL_EDGE_SHARE * score.total
        if 0 < wrong <= allowed and not score.innocent:
            score.wrong -= wrong
            score.right += wrong
        elif wrong:
            start, _ = self.report.span(stall, "duration_us")
            score.worst.append((wrong, stall.get("id"), f"{stall.get('kind')} tid {tid_name(stall)}"
                                f" at {(start - self.report.start) / 1e9:.3f} s"))
        return score

    def score(self):
        """kdev -> Score, over the stalls on devices the judge knows."""
        scores = {}
        for stall in self.report.stalls:
            # Completion work runs in whichever worker there is, and those are not followed from
            # their beginning: this judge cannot say whether one slept. (rows.py can, by stacks.)
            if stall["kind"] == "kworker":
                self.unfollowed += round(stall["duration_us"] * NS_PER_US)
                continue
            one = self.score_stall(stall)
            if one is None:
                self.not_scored += round(stall["duration_us"] * NS_PER_US)
            else:
                scores.setdefault(self.dev_of(stall), Score()).add(one)
        return scores


def tid_name(stall):
    return f"{stall['tid']} ({stall.get('comm', '?')})"

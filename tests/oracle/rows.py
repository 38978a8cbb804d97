"""Judges one fault row: each instant of the victims' stalls, its class and its root.

What is true comes from the evidence (states, stacks, handles), from the devices' requests, and from
what the injector of the fault knows (`Expect`), which counts before the rest.
"""

from dataclasses import dataclass, field

import check_calls
import check_report
from attribution import DEVICE_CAUSES, leaves_of, tid_name, true_span
from device import Device, settle_unfinished
from evidence import class_of
from intervals import clip, dilate, intersect, measure, subtract, union
from sources import dev_name, kdev

# The tool and the trace stamp one switch of a task at different places of the same tracepoint, and
# sleeps of under 20 us are merged into what surrounds them.
CLASS_EDGE = 300_000
# A request's issue and completion reach the driver, the waiter and the waiter's CPU one after the
# other, on a machine with two CPUs that also serve the device.
ROOT_EDGE = 2_000_000
AWAKE = 5_000_000  # who is awake this long is what others wait for, whatever a device does meanwhile
SHOWN = 8


@dataclass(frozen=True)
class Root:
    """A root that is true; None: any. `tid` is the task named or, for task.runnable, its waiter."""

    cause: str
    dev: int | None = None
    tid: int | None = None

    def matches(self, leaf):
        return (self.cause == leaf.cause and self.dev in (None, leaf.dev)
                and (self.tid is None or self.tid in (leaf.tid, leaf.waiter)))


@dataclass
class Expect:
    """What the injector knows: of victims that wait in [start, end) only these roots are true."""

    start: int
    end: int
    roots: tuple
    classes: frozenset | None = None  # only while the victim waits like this
    tids: frozenset | None = None


@dataclass
class Limits:
    right: float = 0.97
    wrong: float = 0.01
    unexplained: float = 0.01
    unknown: float = 0.01  # time of which the judge itself knows no class
    stalls: int = 1
    seconds: float = 0.0  # stalled, in all


@dataclass
class RowScore:
    stalls: int = 0
    total: int = 0
    right: int = 0
    wrong: int = 0
    guessed: int = 0
    unexplained: int = 0
    unknown: int = 0
    class_matrix: dict = field(default_factory=dict)
    root_matrix: dict = field(default_factory=dict)
    worst: list = field(default_factory=list)

    def share(self, ns):
        return ns / self.total if self.total else 0.0


class RowJudge:
    """`related` says for a stall's device which devices it may truly have waited for."""

    def __init__(self, report, evidence, victims, expect=(), rules=(), related=None, truth=None,
                 class_alias=None, pauses=None, journals=None):
        self.report = report
        self.evidence = evidence
        self.victims = set(victims)
        self.expect = list(expect)
        self.rules = list(rules)
        self.related = related or {}
        self.journals = journals or {}  # a stall's device -> its file system's, if that is another
        self.pauses = pauses or {}  # tid -> when it slept on purpose, for its own timer
        self.alias = class_alias or {}  # class by the evidence -> classes that say the same here
        self.devices = {dev: Device(settle_unfinished(requests, (truth or {}).get(dev, [])))
                        for dev, requests in evidence.trace.requests.items()}
        self.score = RowScore()
        self.awake_of, self.nobody_sleeps = {}, {}

    # ---- truth

    def true_classes(self, stall, start, end):
        """class -> time in [start, end) when it is true; None: the judge does not know."""
        tid, dev = stall["tid"], self.journal_of(stall)
        found = {}
        locked = union(self.evidence.locked(dev))

        def add(name, pairs):
            found.setdefault(name, []).extend(pairs)

        seen = []
        for one in self.evidence.segments(tid, start, end):
            span = [(one.start, one.end)]
            seen += span
            if one.state == "running":
                add("cpu.run", span)
            elif one.state == "runnable":
                add("cpu.wait", span)
            else:
                name = class_of(one.symbols, self.rules)
                if name == "journal.locked" and self.evidence.transactions.get(dev):
                    # The same function waits for a transaction that is full but not yet locked.
                    add("journal.locked", intersect(span, dilate(locked, CLASS_EDGE)))
                    add("journal.credits", subtract(span, locked))
                    continue
                if name == "block.write" and stall["kind"] == "read":
                    name = "block.read"
                add(name, span)
                for other in self.alias.get(name, ()):
                    add(other, span)
        add(None, subtract([(start, end)], union(seen)))
        return {name: union(pairs) for name, pairs in found.items()}

    def blocked(self, tid, start, end):
        return union([(one.start, one.end) for one in self.evidence.segments(tid, start, end)
                      if one.state == "blocked"])

    def in_state(self, tid, states, start, end):
        return union([(one.start, one.end) for one in self.evidence.segments(tid, start, end)
                      if one.state in states])

    def known(self, tid):
        return tid in self.evidence.segments_of

    def by_default(self, leaf, stall, start, end):
        """Time in [start, end) when the leaf's root is true by the devices and the scheduler."""
        tid = stall["tid"]
        blocked = self.blocked(tid, start, end)
        if leaf.cause in DEVICE_CAUSES:
            if leaf.dev not in self.devices_of(stall):
                return []
            device = self.devices.get(leaf.dev)
            return intersect(device.within(start, end)[leaf.cause], blocked) if device else []
        if leaf.cause == "knob":
            busy = union(*(subtract([(start, end)], self.devices[dev].within(start, end)["idle"])
                           for dev in self.devices_of(stall) if dev in self.devices))
            return subtract(intersect(union(self.pauses.get(leaf.tid, [])), blocked), busy)
        if leaf.cause == "self":
            return self.in_state(tid, ("running",), start, end)
        if leaf.cause in ("task.runnable", "task.cpu"):
            running = leaf.cause == "task.cpu"
            states = ("running", "runnable") if running else ("runnable",)
            true = self.in_state(tid, states, start, end)
            holder = leaf.tid if running else leaf.waiter
            if holder and holder != tid and self.known(holder):
                return union(true, self.in_state(holder, states, start, end))
            # Nobody's request is with a device and the victim sleeps: somebody has yet to run.
            busy = union(*(subtract([(start, end)], self.devices[dev].within(start, end)["idle"])
                           for dev in self.devices_of(stall) if dev in self.devices))
            return union(true, subtract(blocked, busy))
        return []

    def awake(self, tid):
        """Long times in which `tid` had a CPU or wanted one."""
        if tid not in self.awake_of:
            up = union([(one.start, one.end) for one in self.evidence.segments_of.get(tid, [])
                        if one.state != "blocked"])
            self.awake_of[tid] = [pair for pair in up if pair[1] - pair[0] >= AWAKE]
        return self.awake_of[tid]

    def not_a_device(self, dev, classes):
        """Time in which a wait for the journal of `dev` is for tasks that are awake: its thread, or
        all whose handles hold the commit back."""
        if dev not in self.nobody_sleeps:
            late = self.evidence.late_handles(dev)
            asleep = union(*(subtract([(start, end)], self.awake(handle.tid))
                             for start, end, handle in late))
            held = subtract(union([(start, end) for start, end, _ in late]), asleep)
            thread = self.evidence.journal_threads.get(dev)
            self.nobody_sleeps[dev] = held, self.awake(thread) if thread else []
        held, thread = self.nobody_sleeps[dev]
        commit = classes.get("journal.commit", [])
        return union(intersect(union(commit, classes.get("journal.locked", [])), held),
                     intersect(commit, thread))

    def dev_of(self, stall):
        return kdev(stall["dev"]) if stall.get("dev") else None

    def journal_of(self, stall):
        dev = self.dev_of(stall)
        return self.journals.get(dev, dev)

    def devices_of(self, stall):
        dev = self.dev_of(stall)
        return self.related.get(dev, {dev})

    def true_roots(self, leaf, stall, classes):
        """Time around the leaf at which its root is true."""
        start, end = leaf.run or (leaf.start, leaf.end)
        start, end = start - ROOT_EDGE, end + ROOT_EDGE
        rest, true = [(start, end)], []
        blocked = self.blocked(stall["tid"], start, end)
        for expect in self.expect:
            if expect.tids is not None and stall["tid"] not in expect.tids:
                continue
            here = intersect(clip(rest, expect.start, expect.end), blocked)
            if expect.classes is not None:
                here = intersect(here, union(*(classes.get(name, [])
                                               for name in expect.classes)))
            if any(root.matches(leaf) for root in expect.roots):
                true += here
            rest = subtract(rest, here)
        by_default = self.by_default(leaf, stall, start, end)
        if leaf.cause in DEVICE_CAUSES:
            by_default = subtract(by_default, self.not_a_device(self.journal_of(stall), classes))
        return union(true, intersect(by_default, rest))

    # ---- score

    def score_stall(self, stall):
        score, report = self.score, self.report
        start, end = report.span(stall, "duration_us")
        score.stalls += 1
        score.total += end - start
        around = self.true_classes(stall, start - ROOT_EDGE, end + ROOT_EDGE)
        class_right, unexplained = [], []
        for part in stall["parts"]:
            span = report.span(part)
            if part["class"] == "other":
                unexplained.append(span)
            true = dilate(around.get(part["class"], []), CLASS_EDGE)
            class_right += clip(true, *span)
            self.count(score.class_matrix, around, part["class"], span)
        unknown = clip(around.get(None, []), start, end)
        leaves = leaves_of(report, stall)
        if leaves is None:
            score.worst.append((end - start, f"stall {stall.get('id')}: leaves without roots"))
            score.wrong += end - start
            return
        root_right, guessed = [], []
        for leaf in leaves:
            span = leaf.start, leaf.end
            if leaf.cause == "unexplained":
                unexplained.append(span)
            if leaf.sure == "guess":
                guessed.append(span)
            true = true_span(leaf, dilate(self.true_roots(leaf, stall, around), ROOT_EDGE))
            root_right += true
            self.count_root(leaf, stall, measure(true))
        unexplained = union(unexplained)
        right = subtract(intersect(union(class_right), union(root_right)), unexplained)
        rest = subtract(subtract([(start, end)], union(right)), unexplained)
        guesses = intersect(rest, union(guessed))
        wrong = subtract(subtract(rest, guesses), unknown)
        score.right += measure(right)
        score.unexplained += measure(unexplained)
        score.guessed += measure(guesses)
        score.unknown += measure(intersect(rest, unknown))
        score.wrong += measure(wrong)
        if measure(wrong) > ROOT_EDGE or measure(unexplained) > ROOT_EDGE:
            bad_class = measure(subtract(wrong, union(class_right)))
            score.worst.append((measure(wrong) + measure(unexplained),
                                f"stall {stall.get('id')} {stall['kind']} tid {tid_name(stall)} at "
                                f"{(start - report.start) / 1e9:.3f} s of "
                                f"{(end - start) / 1e6:.1f} ms: wrong {measure(wrong) / 1e6:.1f} "
                                f"ms (class {bad_class / 1e6:.1f}), unexplained "
                                f"{measure(unexplained) / 1e6:.1f} ms, judge blind "
                                f"{measure(intersect(rest, unknown)) / 1e6:.1f} ms"))

    @staticmethod
    def count(matrix, true, given, span):
        for name, pairs in true.items():
            ns = measure(clip(pairs, *span))
            if ns:
                key = name or "?", given
                matrix[key] = matrix.get(key, 0) + ns

    def count_root(self, leaf, stall, right):
        name = leaf.cause + (f" {dev_name(leaf.dev)}" if leaf.dev else "")
        known = self.score.root_matrix.setdefault(name, [0, 0])
        known[0] += right
        known[1] += leaf.end - leaf.start

    def judge(self):
        for stall in self.report.stalls:
            if stall["tid"] in self.victims:
                self.score_stall(stall)
        return self.score


def check_completeness(report, ops, threads, tolerance=None):
    return check_calls.CallCheck(report, ops, threads, tolerance).check()


def failures_of(score, limits):
    failures = []
    if score.stalls < limits.stalls:
        failures.append(f"{score.stalls} stalls of the victims, at least {limits.stalls} were "
                        "provoked")
    if score.total < limits.seconds * 1e9:
        failures.append(f"{score.total / 1e9:.3f} s stalled, at least {limits.seconds:g} s were "
                        "provoked")
    if score.total and score.share(score.right) < limits.right:
        failures.append(f"{100 * score.share(score.right):.2f} % right, wanted are "
                        f"{100 * limits.right:g} %")
    for name in ("wrong", "unexplained", "unknown"):
        share = score.share(getattr(score, name))
        if share >= getattr(limits, name):
            failures.append(f"{100 * share:.2f} % {name}, allowed is under "
                            f"{100 * getattr(limits, name):g} %")
    return failures


def tables(score):
    lines = ["classes, ms: by the kernel's stacks -> reported"]
    for (true, given), ns in sorted(score.class_matrix.items(), key=lambda item: -item[1]):
        if ns > 1e6:
            lines.append(f"  {true:<20} -> {given:<20} {ns / 1e6:>12.3f}")
    lines.append("roots, ms: true of reported")
    for name, (right, total) in sorted(score.root_matrix.items(), key=lambda item: -item[1][1]):
        lines.append(f"  {name:<24} {right / 1e6:>12.3f} of {total / 1e6:>12.3f}")
    for _, text in sorted(score.worst, reverse=True)[:SHOWN]:
        lines.append(f"  {text}")
    return lines


def row_line(name, score, named):
    return (f"row: {name} | stalls {score.stalls} | stalled {score.total / 1e9:.3f} s | right "
            f"{100 * score.share(score.right):.2f} % | wrong "
            f"{100 * score.share(score.wrong):.2f} % | unexplained "
            f"{100 * score.share(score.unexplained):.2f} % | named {named}")


# ---- chains, for what a row wants to be named

def chains(report, victims=None):
    """(stall, part, [cause, ...], us) down to each leaf."""
    def walk(stall, part, item, path):
        below = item.get("causes") or []
        if not below:
            yield stall, part, path, item["us"]
        for cause in below:
            yield from walk(stall, part, cause, path + [cause])

    for stall in report.stalls:
        if victims is None or stall["tid"] in victims:
            for part in stall.get("parts", []):
                yield from walk(stall, part, part, [])


def share_named(report, victims, of, wanted, when=None):
    """(share, ns): how much of the chain time that `of(part, path)` picks satisfies `wanted`; with
    `when` only the time within these pairs counts."""
    total = named = 0
    when = union(when) if when is not None else None
    for _, part, path, _ in chains(report, victims):
        if of(part, path):
            start, end = report.span(path[-1] if path else part)
            ns = end - start if when is None else measure(clip(when, start, end))
            total += ns
            named += ns if wanted(part, path) else 0
    return (named / total if total else 0.0), total


def sums_of(report):
    return check_report.check_sums(report)

"""Every call that the workload saw blocked is in the report, and no other."""

from dataclasses import dataclass, field

from sources import NS_PER_US

CALL_KINDS = {"io_submit": {"io_submit"}, "io_uring_enter": {"io_uring_enter"},
              "write": {"write"}, "read": {"read"}, "fsync": {"fsync"},
              "fdatasync": {"fdatasync"}, "probe_submit": {"io_submit", "io_uring_enter"}}
CALL_KINDS.update({kind: {kind} for kind in (
    "sync", "syncfs", "sync_file_range", "msync", "fallocate", "truncate", "open", "unlink",
    "rename", "mkdir", "rmdir", "link", "setattr", "xattr", "fault")})
ASYNC_KINDS = {"aio": {"aio"}, "uring": {"uring"}, "probe_request": {"aio", "uring"}}
# A workload reads its clock before and after the call; between the two it can lose its CPU.
CLOCK_GAP = 100 * NS_PER_US


@dataclass
class Tolerance:
    share: float = 0.01
    ns: int = 200_000
    over: float = 1.02  # of the threshold: must be reported
    under: float = 0.98  # of the threshold: must not be reported
    # On a shared machine an interrupt, or the hypervisor, may come between the workload's clock and
    # its call: the call is shorter than the clock says. So many times, by so much, it may be.
    noisy_share: float = 0.015
    noisy_calls: int = 2
    # A task may lose its CPU between reading its clock and the call, for some slices of others or
    # while the whole guest stands still.
    noise_ns: int = 5_000_000
    preempted_ns: int = 15_000_000
    clock_gap: int = CLOCK_GAP

    def of(self, duration):
        return max(self.share * duration, self.ns)


@dataclass
class Calls:
    """Result: what was compared, and one line for each failure."""

    expected: int = 0
    reported: int = 0
    matched: int = 0
    failures: list = field(default_factory=list)
    noisy: list = field(default_factory=list)  # failures that may be the machine's noise
    other_kinds: int = 0  # reported for threads of the workload, of kinds that it does not log


def ms(ns):
    return f"{ns / 1e6:.3f} ms"


class CallCheck:
    def __init__(self, report, ops, threads, tolerance=None):
        self.report = report
        self.threads = threads
        self.tolerance = tolerance or Tolerance()
        self.calls = [op for op in ops if op.kind in CALL_KINDS]
        self.requests = [op for op in ops if op.kind in ASYNC_KINDS]

    def at(self, ns):
        return f"{(ns - self.report.start) / 1e9:.4f} s"

    def name(self, op):
        return (f"{op.kind} id {op.id} of tid {op.tid} at {self.at(op.start)}, "
                f"{ms(op.end - op.start)}")

    def preempted_at_edges(self, op):
        """Time that the workload's thread, already or still outside the call, had no CPU."""
        gap = self.tolerance.clock_gap
        near = self.threads.runnable(op.tid, op.start - gap, op.end + gap)
        return sum(end - start for start, end in near
                   if start <= op.start + gap or end >= op.end - gap)

    def best_stall(self, op, stalls):
        best, most = None, 0
        for stall in stalls.get(op.tid, []):
            start, end = self.report.span(stall, "duration_us")
            overlap = min(end, op.end) - max(start, op.start)
            if overlap > most:
                best, most = stall, overlap
        return best

    def check(self):
        result = Calls()
        by_tid, tids = {}, {op.tid for op in self.calls}
        kinds = set().union(*(CALL_KINDS[op.kind] for op in self.calls)) if self.calls else set()
        for stall in self.report.stalls:
            by_tid.setdefault(stall["tid"], []).append(stall)
        matched = set()
        for op in self.calls:
            self.check_op(op, by_tid, matched, result)
        for tid in tids:
            for stall in by_tid.get(tid, []):
                result.reported += 1
                if stall["kind"] not in kinds:
                    result.other_kinds += 1
                elif id(stall) not in matched:
                    start, _ = self.report.span(stall, "duration_us")
                    result.failures.append(
                        f"the workload knows no such call: {stall['kind']} of tid {tid} at "
                        f"{self.at(start)}, {ms(stall['duration_us'] * NS_PER_US)}")
        if len(result.noisy) > max(self.tolerance.noisy_calls,
                                   self.tolerance.noisy_share * result.expected):
            result.failures += result.noisy
        return result

    def check_op(self, op, by_tid, matched, result):
        start, end = max(op.start, self.report.start), min(op.end, self.report.end)
        cut = (start, end) != (op.start, op.end)
        seen = end - start
        if seen <= 0:
            return
        slack = self.preempted_at_edges(op)
        must = seen - slack > self.tolerance.over * self.report.threshold
        must = must and not cut  # the share of a cut call that is seen depends on its first sleep
        must = must and op.result >= 0  # one that failed may never have reached the file system
        result.expected += must
        stall = self.best_stall(op, by_tid)
        name = self.name(op)
        if stall is None:
            if must:
                least = self.tolerance.over * self.report.threshold
                near = seen - slack < least + self.tolerance.noise_ns
                (result.noisy if near else result.failures).append(f"missing: {name}")
            return
        if stall["kind"] not in CALL_KINDS[op.kind]:
            result.failures.append(f"{name}: reported as {stall['kind']}")
        if id(stall) in matched:
            result.failures.append(f"{name}: its stall is that of another call too")
        matched.add(id(stall))
        result.matched += 1
        duration = round(stall["duration_us"] * NS_PER_US)
        if seen < self.tolerance.under * self.report.threshold:
            result.failures.append(f"too short to be reported: {name}")
        if duration < self.report.threshold and not cut:
            result.failures.append(f"{name}: reported with {ms(duration)}, under the threshold")
        allowed = self.tolerance.of(seen)
        if cut:
            if "cut" not in stall and not stall.get("unfinished"):
                result.failures.append(f"{name}: cut by the window's edge, not marked so")
            if duration > seen + allowed:
                result.failures.append(f"{name}: reported with {ms(duration)}")
        elif not seen - allowed - slack <= duration <= seen + allowed:
            noise = seen - self.tolerance.preempted_ns <= duration <= seen
            (result.noisy if noise else result.failures).append(
                f"{name}: reported with {ms(duration)}, allowed are {ms(allowed)} of difference")

    def check_async(self):
        """Requests from submission to completion, and their split."""
        result = Calls()
        slow = [(entry["kind"], one) for entry in self.report.json.get("async", [])
                for one in entry.get("slow", [])]
        by_user_id, by_tid = {}, {}
        for kind, one in slow:
            if one.get("user_id"):
                by_user_id.setdefault(int(one["user_id"]), []).append((kind, one))
            by_tid.setdefault(one.get("tid"), []).append((kind, one))
            self.check_split(kind, one, result)
        matched = set()
        for op in self.requests:
            self.check_request(op, by_user_id, by_tid, matched, result)
        for tid in {op.tid for op in self.requests}:
            for kind, one in by_tid.get(tid, []):
                result.reported += 1
                if id(one) not in matched:
                    result.failures.append(
                        f"the workload knows no such request: {kind} of tid {tid} at "
                        f"{self.at(self.report.at(one['start_us']))}, {one['duration_us']} us")
        return result

    def check_split(self, kind, one, result):
        split = [one.get(name) for name in ("submit_us", "queue_us", "device_us", "complete_us")]
        present = [us for us in split if us is not None]
        if len(present) == len(split) and abs(sum(present) - one["duration_us"]) > 1:
            result.failures.append(f"{kind} at {one['start_us']} us: {present} add up to "
                                   f"{sum(present):.3f}, not {one['duration_us']} us")

    def find_request(self, op, by_user_id, by_tid):
        for kind, one in by_user_id.get(op.id, []) if by_user_id else by_tid.get(op.tid, []):
            start = self.report.at(one["start_us"])
            if kind in ASYNC_KINDS[op.kind] and abs(start - op.start) <= self.near(op):
                yield one

    def near(self, op):
        return self.tolerance.ns + self.preempted_at_edges(op) + 2_000_000

    def check_request(self, op, by_user_id, by_tid, matched, result):
        if op.start < self.report.start or op.end > self.report.end or op.result < 0:
            return
        least, most = max(0, op.reap_from - op.start), op.end - op.start
        slack = self.preempted_at_edges(op)
        must = least - slack > self.tolerance.over * self.report.threshold
        result.expected += must
        name = self.name(op)
        candidates = [one for one in self.find_request(op, by_user_id, by_tid)
                      if id(one) not in matched]
        if not candidates:
            if must:
                result.failures.append(f"missing: {name}")
            return
        one = min(candidates, key=lambda one: abs(self.report.at(one["start_us"]) - op.start))
        matched.add(id(one))
        result.matched += 1
        duration = round(one["duration_us"] * NS_PER_US)
        allowed = self.tolerance.of(most)
        if most < self.tolerance.under * self.report.threshold:
            result.failures.append(f"too short to be reported: {name}")
        if not least - allowed - slack <= duration <= most + allowed:
            result.failures.append(f"{name}: reported with {ms(duration)}; it took between "
                                   f"{ms(least)} and {ms(most)}")

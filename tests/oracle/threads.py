"""Which threads were running, runnable or blocked at each instant, from sched events."""

from intervals import Index, subtract, union


class Threads:
    def __init__(self, trace):
        events = [(when, 1, pid) for when, pid in trace.wakings]
        events += [(when, 0, switch) for when, *switch in trace.switches]
        events.sort(key=lambda event: event[0])
        state, since = {}, {}
        times = {}

        def enter(pid, new, when):
            old = state.get(pid)
            if old in ("running", "runnable"):
                times.setdefault(pid, {"running": [], "runnable": []})[old].append(
                    (since[pid], when))
            state[pid], since[pid] = new, when

        for when, is_waking, what in events:
            if is_waking:
                if state.get(what) == "blocked" or what not in state:
                    enter(what, "runnable", when)
                continue
            previous, previous_state, following = what
            if previous not in state:  # it ran since before the first event
                state[previous], since[previous] = "running", trace.start
            enter(previous, "runnable" if previous_state.startswith("R") else "blocked", when)
            enter(following, "running", when)
        for pid in list(state):
            enter(pid, "blocked", trace.end)
        state_of = {pid: {name: Index(union(pairs)) for name, pairs in of.items()}
                    for pid, of in times.items()}
        self.state_of = state_of

    def known(self, tid):
        return tid in self.state_of

    def running(self, tid, start, end):
        return self.state_of[tid]["running"].within(start, end) if self.known(tid) else []

    def runnable(self, tid, start, end):
        return self.state_of[tid]["runnable"].within(start, end) if self.known(tid) else []

    def others_runnable(self, tid, start, end):
        """Time in which some other thread that is known had to wait for a CPU."""
        return union(*(of["runnable"].within(start, end) for other, of in self.state_of.items()
                       if other != tid))

    def blocked(self, tid, start, end):
        """All of [start, end) for a thread that was never seen."""
        awake = union(self.running(tid, start, end), self.runnable(tid, start, end))
        return subtract([(start, end)], awake)

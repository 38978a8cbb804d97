"""What the kernel's own tracepoints say of the followed tasks: states, stacks, handles, commits.

The wait classes here are told from the kernel's stacks by a few symbols of our own choice: the
tool's table is not asked.
"""

import os
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from sources import LINE, NS_PER_US, RQ_ISSUE, kdev

# Two instances stamp one switch this far apart at most; on an emulated CPU (scripts/vm) each takes
# longer, and the host may take the CPU away in between.
SAME_SWITCH = (5000 if os.environ.get("KT_EMULATED") else 300) * NS_PER_US
GENERIC = re.compile(r"^(trace_event_raw_event_.*|__traceiter_.*|__schedule|schedule|"
                     r"schedule_preempt_disabled|schedule_timeout|io_schedule|io_schedule_timeout|"
                     r"blk_io_schedule|bit_wait|bit_wait_io|__wait_on_bit|__wait_on_bit_lock|"
                     r"bpf_.*)$")

STACK = re.compile(r"^\s*.*-(\d+)\s+\[\d+\] \S+\s+(\d+)\.(\d{6}): <stack trace>")

# (symbols of which all are in the stack, symbols of which none is, class); the first match wins.
RULES = [
    ("percpu_rwsem_wait", "ext4_writepages ext4_do_writepages", "fs.frozen"),
    ("__jbd2_log_wait_for_space", "", "journal.space"),
    ("blk_mq_get_tag", "", "block.tag"),
    ("wbt_wait", "", "block.wbt"),
    ("rq_qos_wait", "", "block.wbt"),
    ("__bio_queue_enter", "", "block.frozen"),
    ("blk_queue_enter", "", "block.frozen"),
    ("try_to_free_pages", "", "memory.reclaim"),
    ("try_to_free_mem_cgroup_pages", "", "memory.reclaim"),
    ("rwsem_down_read_slowpath ext4_map_blocks", "", "lock.extent"),
    ("rwsem_down_write_slowpath ext4_map_blocks", "", "lock.extent"),
    ("rwsem_down_read_slowpath ext4_da_map_blocks", "", "lock.extent"),
    ("rwsem_down_write_slowpath ext4_da_map_blocks", "", "lock.extent"),
    ("rwsem_down_read_slowpath", "", "lock.inode"),
    ("rwsem_down_write_slowpath", "", "lock.inode"),
    ("jbd2_log_wait_commit", "", "journal.commit"),
    ("jbd2_journal_stop schedule_hrtimeout_range_clock", "", "journal.batch"),
    ("wait_transaction_locked", "", "journal.locked"),
    ("jbd2_fc_begin_commit", "", "journal.fastcommit"),
    ("jbd2_fc_wait_bufs", "", "journal.fastcommit"),
    ("ext4_fc_track_inode", "", "journal.fastcommit"),
    ("ext4_fc_del", "", "journal.fastcommit"),
    ("jbd2_journal_lock_updates ext4_fc_commit", "", "journal.fastcommit"),
    ("start_this_handle", "wait_transaction_locked add_transaction_credits", "journal.barrier"),
    ("__mutex_lock ext4_orphan_add", "", "lock.other"),
    ("__mutex_lock ext4_orphan_del", "", "lock.other"),
    ("__mutex_lock.constprop.0", "", "lock.other"),
    ("do_get_write_access out_of_line_wait_on_bit", "", "journal.buffer"),
    ("do_get_write_access out_of_line_wait_on_bit_lock", "", "journal.buffer"),
    ("do_get_write_access __lock_buffer", "", "journal.buffer"),
    ("blkdev_issue_flush", "", "block.flush"),
    ("inode_dio_wait", "", "block.drain"),
    ("balance_dirty_pages", "", "page.dirty_throttle"),
    ("folio_wait_writeback", "", "page.writeback"),
    ("folio_wait_stable", "", "page.writeback"),
    ("__folio_lock", "", "page.lock"),
    ("ext4_wait_block_bitmap", "", "block.read"),
    ("ext4_read_bh", "", "block.read"),
    ("ext4_read_bh_lock", "", "block.read"),
    ("ext4_read_inode_bitmap", "", "block.read"),
    ("ext4_read_block_bitmap_nowait", "", "block.read"),
    ("__ext4_get_inode_loc", "", "block.read"),
    ("ext4_bread", "", "block.read"),
    ("out_of_line_wait_on_bit __ext4_find_entry", "", "block.read"),
    ("__read_extent_tree_block", "", "block.read"),
    ("iomap_dio_rw ext4_file_read_iter", "", "block.read"),
    ("__iomap_dio_rw ext4_file_read_iter", "", "block.read"),
    ("__iomap_dio_rw ext4_file_write_iter", "", "block.write"),
    ("read_events", "", "uring.wait"),
    ("io_cqring_wait", "", "uring.wait"),
]


def base(symbol):
    """A symbol without what the compiler appended."""
    return symbol.split(".")[0]


def class_of(symbols, rules=()):
    """The wait class of a stack; None where no rule knows it."""
    names = {base(symbol) for symbol in symbols}
    for wanted, unwanted, name in [*rules, *RULES]:
        if (all(base(symbol) in names for symbol in wanted.split())
                and not any(base(symbol) in names for symbol in unwanted.split())):
            return name
    return None


@dataclass
class Segment:
    """A stretch of one task's life: running, runnable or blocked; blocked ones have a stack."""

    start: int
    end: int
    state: str
    symbols: tuple = ()


@dataclass
class Handle:
    """An open handle, as far as its task's own events tell."""

    tid: int
    comm: str
    transaction: int
    start: int
    end: int


@dataclass
class Transaction:
    tid: int
    locking: int = 0  # the commit has locked it: new handles wait
    flushing: int = 0  # and from here on they need not
    logging: int = 0
    end: int = 0
    data_inodes: list = field(default_factory=list)
    data_bytes: dict = field(default_factory=dict)  # inode -> what the thread sent after naming it


class Evidence:
    """`trace` is what read_trace made of the recorder's text; the text is read once more here."""

    def __init__(self, trace, lines=(), stack_lines=()):
        self.trace = trace
        self.stacks = {}  # tid -> ([when], [symbols])
        self.handles = {}  # kdev -> [Handle]
        self.transactions = {}  # kdev -> {tid: Transaction}
        self.journal_threads = {}  # kdev -> tid
        self.segments_of, self.ends_of = {}, {}
        self.read_stacks(stack_lines)
        self.read_journal(lines)
        self.read_states()

    def read_stacks(self, lines):
        symbols, went = None, {}  # task -> when it switched away; its stack is an entry of its own
        for line in lines:
            if line.startswith(" => "):
                if symbols is not None:
                    symbols.append(line[4:].split()[0])
                continue
            symbols = None
            match = STACK.match(line)
            if match:
                # In an emulated guest the switch itself is now and then missing before its stack.
                task = int(match[1])
                when = int(match[2]) * 10**9 + int(match[3]) * NS_PER_US
                times, stacks = self.stacks.setdefault(task, ([], []))
                times.append(went.pop(task, when))
                symbols = []
                stacks.append(symbols)
                continue
            match = LINE.match(line)
            if match and match[5] == "sched_switch":
                went[int(match[2])] = int(match[3]) * 10**9 + int(match[4]) * NS_PER_US

    def read_journal(self, lines):
        held, running = {}, {}
        for line in lines:
            if " jbd2_" not in line and (" block_rq_issue:" not in line or not running):
                continue
            match = LINE.match(line)
            if not match:
                continue
            if match[5] == "block_rq_issue":
                self.count_data(match, running)
                continue
            comm, task, name, rest = match[1].strip(), int(match[2]), match[5], match[6]
            when = int(match[3]) * 10**9 + int(match[4]) * NS_PER_US
            where = re.match(r"dev (\d+,\d+) (?:transaction|tid|ino) (\d+)", rest)
            if not where:
                continue
            dev, number = kdev(where[1]), int(where[2])
            of = self.transactions.setdefault(dev, {})
            if name == "jbd2_submit_inode_data":
                if dev in running:
                    of[running[dev]].data_inodes.append(number)
                continue
            transaction = of.setdefault(number, Transaction(number))
            if name in ("jbd2_handle_start", "jbd2_handle_restart", "jbd2_handle_stats"):
                before = held.pop((dev, task), None)
                if before:
                    before.end = when
                if name != "jbd2_handle_stats":
                    handle = Handle(task, comm, number, when, self.trace.end)
                    self.handles.setdefault(dev, []).append(handle)
                    held[dev, task] = handle
            elif name == "jbd2_commit_locking":
                transaction.locking = when
                self.journal_threads[dev] = task
            elif name == "jbd2_commit_flushing":
                transaction.flushing = when
                running[dev] = number
            elif name == "jbd2_commit_logging":
                transaction.logging = when
            elif name == "jbd2_end_commit":
                transaction.end = when

    def count_data(self, match, running):
        issued = RQ_ISSUE.match(match[6])
        dev = kdev(issued[1])
        if dev not in running or self.journal_threads.get(dev) != int(match[2]):
            return
        one = self.transactions[dev][running[dev]]
        if one.data_inodes and not one.logging:
            inode = one.data_inodes[-1]
            one.data_bytes[inode] = one.data_bytes.get(inode, 0) + int(issued[4]) * 512

    def locked(self, dev):
        """Time in which new handles of `dev` had to wait for those that were open."""
        return [(one.locking, one.flushing or self.trace.end)
                for one in self.transactions.get(dev, {}).values() if one.locking]

    def late_handles(self, dev):
        """[(from, to, Handle)]: who held which locked transaction back."""
        found = []
        for handle in self.handles.get(dev, []):
            one = self.transactions[dev].get(handle.transaction)
            if one and one.locking and handle.end > one.locking:
                found.append((max(handle.start, one.locking), handle.end, handle))
        return found

    def sleeping(self, tid, *classes, rules=()):
        """Time in which `tid` slept in one of the classes."""
        return [(one.start, one.end) for one in self.segments_of.get(tid, [])
                if one.state == "blocked" and class_of(one.symbols, rules) in classes]

    def without_cpu(self, tid, least=0):
        """Time in which `tid` was runnable and did not run."""
        return [(one.start, one.end) for one in self.segments_of.get(tid, [])
                if one.state == "runnable" and one.end - one.start >= least]

    def read_states(self):
        events = [(when, 1, pid, "", 0) for when, pid in self.trace.wakings]
        events += [(when, 0, previous, state, following)
                   for when, previous, state, following in self.trace.switches]
        events.sort(key=lambda event: event[:2])
        state = {}

        def enter(pid, new, when):
            old = state.get(pid)
            if old:
                self.segments_of.setdefault(pid, []).append(Segment(old[1], when, old[0]))
            state[pid] = new, when

        for when, is_waking, pid, how, following in events:
            if is_waking:
                if pid not in state or state[pid][0] == "blocked":
                    enter(pid, "runnable", when)
                continue
            if pid not in state:
                state[pid] = "running", self.trace.start
            enter(pid, "runnable" if how.startswith("R") else "blocked", when)
            enter(following, "running", when)
        for pid in list(state):
            enter(pid, "blocked", self.trace.end)
        for pid, segments in self.segments_of.items():
            for segment in segments:
                if segment.state == "blocked":
                    segment.symbols = tuple(self.stack_at(pid, segment.start))

    def stack_at(self, tid, when):
        """The stack with which `tid` went to sleep at `when`; generic frames are left out."""
        times, stacks = self.stacks.get(tid, ([], []))
        index = bisect_left(times, when)
        near = [i for i in (index - 1, index) if 0 <= i < len(times)
                and abs(times[i] - when) < SAME_SWITCH]
        if not near:
            return []
        best = min(near, key=lambda i: abs(times[i] - when))
        return [symbol for symbol in stacks[best] if not GENERIC.match(symbol)
                or "wait_on_bit" in symbol]

    def segments(self, tid, start, end):
        """The segments of `tid` that touch [start, end), clipped."""
        every = self.segments_of.get(tid, [])
        if tid not in self.ends_of:
            self.ends_of[tid] = [one.end for one in every]
        first = bisect_right(self.ends_of[tid], start)
        found = []
        for one in every[first:]:
            if one.start >= end:
                break
            found.append(Segment(max(one.start, start), min(one.end, end), one.state,
                                 one.symbols))
        return found

"""The judge of the fault rows: right rows pass; a wrong class, device, task or root does not."""

import unittest

from made_up import DISK, FLUSH_US, MS, SECOND, START, perfect, self_part, flush_part, flush_root
from evidence import Evidence, class_of
from rows import (Expect, Limits, Root, RowJudge, chains, check_completeness, failures_of,
                  share_named)
from sources import Op, Request, kdev
from threads import Threads

COMMIT_WAIT = ("__schedule", "schedule", "jbd2_log_wait_commit", "ext4_sync_file")
LOCKED = ("__schedule", "schedule", "wait_transaction_locked", "add_transaction_credits",
          "start_this_handle", "ext4_dirty_inode")


def stamp(ns):
    return f"{ns // 10**9}.{ns % 10**9 // 1000:06}"


def stack_lines(trace, symbols, tids=(11, 12)):
    """The text of the recorder for every sleep of `tids`, the stacks one switch late, as when two
    CPUs write at once."""
    lines, late = ["# comment"], []
    for when, task, state, following in trace.switches:
        if state.startswith("R"):
            continue
        lines.append(f"  load-{task}  [000] d..2. {stamp(when)}: sched_switch: prev_comm=load "
                     f"prev_pid={task} prev_prio=120 prev_state={state} ==> next_comm=x "
                     f"next_pid={following} next_prio=120")
        lines += late
        late = []
        if task in tids:
            late = [f"  load-{task}  [000] d..2. {stamp(when + 9000)}: <stack trace>"]
            late += [f" => {symbol}" for symbol in symbols]
    return lines + late


class Rows(unittest.TestCase):
    def setUp(self):
        self.inputs = perfect()
        self.report = self.inputs.report
        self.stall = self.report.stalls[0]  # of tid 11, 1.5 s of flush from second 1 on
        self.trace = self.inputs.trace
        self.symbols = COMMIT_WAIT
        self.journal = []

    def score(self, victims=(11, 12), **more):
        evidence = Evidence(self.trace, self.journal, stack_lines(self.trace, self.symbols))
        return RowJudge(self.report, evidence, victims, **more).judge()

    def assert_row(self, score, right=1.0, wrong=0.0, unexplained=0.0, guessed=0.0, unknown=0.0):
        for name, wanted in (("right", right), ("wrong", wrong), ("unexplained", unexplained),
                             ("guessed", guessed), ("unknown", unknown)):
            self.assertAlmostEqual(score.share(getattr(score, name)), wanted, delta=0.005, msg=name)
        self.assertEqual(bool(failures_of(score, Limits())), right < 0.97)

    def blame(self, us=FLUSH_US, **changes):
        """The first stall's long part ends in another root."""
        root = flush_root(us, **changes)
        self.stall["parts"][0] = flush_part(self.stall["start_us"], us, root)
        self.stall["roots"][0] = root

    def test_perfect(self):
        self.assert_row(self.score())

    def test_stalls_of_others_do_not_count(self):
        self.blame(cause="device.write")
        self.assert_row(self.score(victims=(12,)))
        self.assertEqual(self.score(victims=(12,)).stalls, 1)

    def test_wrong_class(self):
        self.stall["parts"][0]["class"] = "page.writeback"
        self.assert_row(self.score(), right=2 / 3, wrong=1 / 3)

    def test_wrong_class_by_other_stacks(self):
        self.symbols = ("schedule", "folio_wait_writeback", "file_write_and_wait_range")
        self.assert_row(self.score(), right=0, wrong=1)

    def test_a_class_that_means_the_same_in_this_row(self):
        self.symbols = ("schedule", "folio_wait_writeback", "file_write_and_wait_range")
        self.assert_row(self.score(class_alias={"page.writeback": ("journal.commit",)}))

    def test_wrong_root(self):
        for cause in ("device.write", "device.read", "device.queue", "device.hung", "memory",
                      "knob", "throttle", "frozen", "self", "task.cpu", "task.runnable"):
            with self.subTest(cause=cause):
                self.blame(cause=cause)
                self.assert_row(self.score(), right=2 / 3, wrong=1 / 3)

    def test_a_deliberate_sleep_while_the_device_was_idle(self):
        self.blame(cause="knob", dev=None, tid=77)
        asleep = {77: [(START, START + 4 * SECOND)]}
        self.assert_row(self.score(pauses=asleep), right=2 / 3, wrong=1 / 3)
        self.trace.requests[DISK] = [one for one in self.trace.requests[DISK]
                                     if one.end < START + SECOND or one.start > START + 2600 * MS]
        idle = self.score(victims=(11,), pauses=asleep)
        self.assertGreater(idle.right, self.score(victims=(11,)).right + FLUSH_US * 900)
        self.assertEqual(self.score(victims=(11,), pauses={78: asleep[77]}).right,
                         self.score(victims=(11,)).right)

    def test_wrong_device(self):
        self.blame(dev="7:4")
        self.assert_row(self.score(), right=2 / 3, wrong=1 / 3)

    def test_related_device_that_was_idle_or_busy(self):
        self.blame(dev="7:4")
        related = {DISK: {DISK, kdev("7:4")}}
        self.trace.requests[kdev("7:4")] = []
        self.assert_row(self.score(related=related), right=2 / 3, wrong=1 / 3)
        self.trace.requests[kdev("7:4")] = [Request("flush", START + SECOND,
                                                    START + 2500 * MS, 0, 0)]
        self.assert_row(self.score(), right=2 / 3, wrong=1 / 3)
        self.assert_row(self.score(related=related))

    def test_wrong_guess(self):
        self.blame(cause="device.write", sure="guess")
        self.assert_row(self.score(), right=2 / 3, guessed=1 / 3)

    def test_unexplained(self):
        self.blame(cause="unexplained")
        self.assert_row(self.score(), right=2 / 3, unexplained=1 / 3)

    def test_the_class_other_is_unexplained(self):
        self.stall["parts"][0]["class"] = "other"
        self.assert_row(self.score(), right=2 / 3, unexplained=1 / 3)

    def test_a_judge_without_stacks_does_not_pass(self):
        self.symbols = ("schedule", "some_new_function")
        self.assert_row(self.score(), right=0, unknown=1)

    def test_leaves_without_roots(self):
        del self.stall["parts"][0]["causes"][0]["causes"][0]["root"]
        self.stall["parts"][0]["causes"][0]["causes"][0]["kind"] = "task"
        self.assert_row(self.score(), right=2 / 3, wrong=1 / 3)

    # ---- what the injector knows

    def expect(self, *roots, **more):
        return [Expect(START + SECOND, START + 2500 * MS, roots, **more)]

    def held(self, tid):
        """The stall's flush is replaced by a holder without a CPU."""
        root = {"cause": "task.runnable", "tid": 77, "us": FLUSH_US, "sure": "measured"}
        holder = {"kind": "holder", "tid": tid, "start_us": self.stall["start_us"], "us": FLUSH_US,
                  "root": root}
        self.stall["parts"][0]["causes"] = [holder]
        self.stall["roots"][0] = root

    def test_the_injector_contradicts_the_device(self):
        self.assert_row(self.score(expect=self.expect(Root("memory"))), right=2 / 3, wrong=1 / 3)
        self.blame(cause="memory", dev="7:3")
        self.assert_row(self.score(expect=self.expect(Root("memory"))))

    def test_expectations_are_for_some_classes_and_victims(self):
        expect = self.expect(Root("memory"), classes=frozenset({"journal.locked"}))
        self.assert_row(self.score(expect=expect))
        expect = self.expect(Root("memory"), tids=frozenset({12}))
        self.assert_row(self.score(expect=expect))
        expect = self.expect(Root("memory"), tids=frozenset({11}),
                             classes=frozenset({"journal.commit"}))
        self.assert_row(self.score(expect=expect), right=2 / 3, wrong=1 / 3)

    def test_right_and_wrong_task(self):
        self.held(99)
        self.assert_row(self.score(expect=self.expect(Root("task.runnable", tid=99))))
        self.assert_row(self.score(expect=self.expect(Root("task.runnable", tid=98))),
                        right=2 / 3, wrong=1 / 3)
        self.assert_row(self.score(expect=self.expect(Root("task.runnable", dev=DISK, tid=99))),
                        right=2 / 3, wrong=1 / 3)

    def test_a_holder_that_slept_was_not_runnable(self):
        self.held(99)
        self.trace.requests[DISK] = []
        # Nothing is known of 99: the device is idle, so somebody has yet to run.
        self.assertAlmostEqual(self.score(victims=(11,)).share(self.score(victims=(11,)).right),
                               0.5, delta=0.01)
        self.trace.switches += [(START, 99, "S", 0), (START + 9 * SECOND, 99, "S", 0)]
        self.trace.switches.sort()
        score = self.score(victims=(11,))
        self.assertAlmostEqual(score.share(score.wrong), 1.0, delta=0.01)

    # ---- journal phases

    def commit_lines(self, locking, flushing):
        at = stamp(START + locking)
        self.journal = [
            f" load-50 [000] ..... {stamp(START)}: jbd2_handle_start: dev 7,3 tid 9 type 1",
            f" jbd2/l-3 [001] ..... {at}: jbd2_commit_locking: dev 7,3 transaction 9 sync 0",
            f" load-50 [000] ..... {stamp(START + flushing)}: jbd2_handle_stats: dev 7,3 tid 9",
            f" jbd2/l-3 [001] ..... {stamp(START + flushing)}: jbd2_commit_flushing: dev 7,3 "
            "transaction 9 sync 0"]

    def test_locked_or_out_of_credits(self):
        self.symbols = LOCKED
        for stall in self.report.stalls:
            stall["parts"][0]["class"] = "journal.locked"
        self.commit_lines(900 * MS, 9 * SECOND)
        self.assert_row(self.score())
        self.commit_lines(8500 * MS, 9 * SECOND)  # nothing was locked then: it was full
        self.assert_row(self.score(), right=0, wrong=1)
        for stall in self.report.stalls:
            stall["parts"][0]["class"] = "journal.credits"
        self.assert_row(self.score())

    def test_late_handles(self):
        self.commit_lines(900 * MS, 2 * SECOND)
        evidence = Evidence(self.trace, self.journal)
        (start, end, handle), = evidence.late_handles(DISK)
        self.assertEqual((start - START, end - START, handle.tid), (900 * MS, 2 * SECOND, 50))
        self.assertEqual(evidence.locked(DISK), [(START + 900 * MS, START + 2 * SECOND)])
        self.assertEqual(evidence.journal_threads, {DISK: 3})

    def test_a_device_is_not_blamed_while_the_journal_thread_is_awake(self):
        self.commit_lines(900 * MS, 2 * SECOND)  # task 3 is the journal's thread
        self.trace.switches += [(START, 3, "S", 0), (START + 2 * SECOND, 3, "S", 0)]
        self.trace.wakings.append((START + 1500 * MS, 3))
        self.trace.switches.sort()
        score = self.score(victims=(11,))
        self.assertAlmostEqual(score.wrong / MS, 500 - 4, delta=1)  # two edges are forgiven

    def test_a_device_is_not_blamed_while_the_holder_is_awake(self):
        self.symbols = LOCKED
        for stall in self.report.stalls:
            stall["parts"][0]["class"] = "journal.locked"
        self.commit_lines(900 * MS, 9 * SECOND)  # by the handle of task 50
        self.assert_row(self.score())
        self.trace.switches += [(START, 50, "S", 0), (START + 9500 * MS, 50, "S", 0)]
        self.trace.wakings.append((START + 1200 * MS, 50))
        self.trace.switches.sort()
        score = self.score(victims=(11,))
        self.assertAlmostEqual(score.wrong / MS, 1300 + 1500 - 2, delta=1)  # one edge

    # ---- the rest

    def test_limits(self):
        score = self.score()
        self.assertTrue(failures_of(score, Limits(stalls=4)))
        self.assertTrue(failures_of(score, Limits(seconds=5)))
        self.assertFalse(failures_of(score, Limits(stalls=3, seconds=4)))

    def test_calls_of_every_kind(self):
        ops = [Op(1, "rename", 11, START + SECOND - 2000, START + 2500 * MS + 102_000)]
        threads = Threads(self.trace)
        self.report.stalls[:] = [self.stall]
        self.assertTrue(check_completeness(self.report, ops, threads).failures)
        self.stall["kind"] = "rename"
        self.assertFalse(check_completeness(self.report, ops, threads).failures)
        self.report.stalls.clear()
        self.assertTrue(check_completeness(self.report, ops, threads).failures)
        ops[0].result = -1  # refused before it came to the file system
        self.assertFalse(check_completeness(self.report, ops, threads).failures)

    def test_chains(self):
        def of(part, _path):
            return part["class"] == "journal.commit"

        def flush(_part, path):
            return path[-1]["root"]["cause"] == "device.flush"

        share, ns = share_named(self.report, {11}, of, flush)
        self.assertEqual((share, ns), (1.0, 3 * SECOND))
        self.blame(cause="device.write")
        self.assertEqual(share_named(self.report, {11}, of, flush)[0], 0.5)
        share, ns = share_named(self.report, {11}, of, flush,
                                [(START + SECOND, START + 2 * SECOND)])
        self.assertEqual((share, ns), (0.0, SECOND))
        self.assertEqual([len(path) for _, _, path, _ in chains(self.report, {11})], [2, 0, 2, 0])

    def test_classes_by_stacks(self):
        for symbols, name in ((LOCKED, "journal.locked"), (COMMIT_WAIT, "journal.commit"),
                              (("schedule", "start_this_handle"), "journal.barrier"),
                              (("blk_mq_get_tag", "jbd2_log_do_checkpoint",
                                "__jbd2_log_wait_for_space"), "journal.space"),
                              (("__mutex_lock.constprop.0", "do_unlinkat"), "lock.other"),
                              (("strange",), None)):
            self.assertEqual(class_of(symbols), name)
        self.assertEqual(class_of(("strange",), [("strange", "", "memory.reclaim")]),
                         "memory.reclaim")
        self.assertEqual(class_of(LOCKED, [("start_this_handle", "ext4_dirty_inode", "x")]),
                         "journal.locked")

    def test_running_is_not_sleeping(self):
        self.stall["parts"][0] = self_part(self.stall["start_us"], FLUSH_US, 11)
        self.stall["roots"][0] = self.stall["parts"][0]["root"]
        self.assert_row(self.score(), right=2 / 3, wrong=1 / 3)

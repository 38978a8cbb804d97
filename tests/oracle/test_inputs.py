"""Readers, clocks and the command line."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import check_report
import intervals
import judge
from device import settle_unfinished
from made_up import DISK, MS, SECOND, START, Case, flush_times, perfect, report_json, run
from sources import Commit, Op, Trace, TraceReader, Truth, dev_name, read_ops, read_truth
from threads import Threads


class Sources(Case):
    def test_lost_events(self):
        inputs = perfect()
        inputs.trace.lost = 5
        self.assert_fails(run(inputs, ("sources",)), "sources", "lost 5 events")

    def test_truth_and_trace_disagree(self):
        inputs = perfect()
        inputs.truth[1] = Truth("flush", START + 3 * SECOND, START + 3100 * MS)
        self.assert_fails(run(inputs, ("sources",)), "sources", "is not in the trace")

    def test_trace_too_short(self):
        inputs = perfect()
        inputs.trace.end = START + SECOND
        self.assert_fails(run(inputs, ("sources",)), "sources", "does not cover")

    def test_trace_lines(self):
        trace = TraceReader().read("""# start_ns=1000000000 end_ns=3000000000 lost=7
# tracer: nop
     kworker/0:1H-44  [000] .....     1.100000: block_rq_issue: 7,3 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]
        a b-c: d-45   [001] d....     1.200000: block_rq_issue: 7,3 WS 4096 () 80 + 8 be,0,4 [a b-c: d]
     ksoftirqd/0-14   [000] ..s..     1.250000: block_rq_complete: 7,3 WFS () 80 + 8 be,0,4 [0]
     ksoftirqd/0-14   [000] ..s..     1.300000: block_rq_complete: 7,3 FF () 18446744073709551615 + 0 none,0,0 [0]
     ksoftirqd/0-14   [000] ..s..     1.300001: block_rq_complete: 7,3 WS () 0 + 0 be,0,4 [0]
     ksoftirqd/0-14   [000] ..s..     1.350000: block_rq_complete: 7,3 R () 160 + 8 be,0,4 [0]
            fio-46    [000] .....     1.400000: block_rq_issue: 7,3 R 4096 () 88 + 8 be,0,4 [fio]
            fio-46    [000] .....     1.410000: block_rq_requeue: 7,3 R () 88 + 8 be,0,4 [0]
            fio-46    [000] .....     1.500000: block_rq_issue: 7,3 R 4096 () 88 + 8 be,0,4 [fio]
     jbd2/loop3-8-47  [000] .....     1.600000: jbd2_start_commit: dev 7,3 transaction 5 sync 0
     jbd2/loop3-8-47  [000] .....     1.700000: jbd2_end_commit: dev 7,3 transaction 5 sync 0 head 2
            fio-46    [000] .....     1.800000: sys_enter: NR 75 (4, 0, 0, 0, 0, 0)
            fio-46    [000] d....     1.810000: sched_switch: prev_comm=fio x prev_pid=46 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0    [000] d....     1.820000: sched_waking: comm=fio x pid=46 prio=120 target_cpu=000
            fio-46    [000] .....     1.900000: sys_exit: NR 75 = -5
""".splitlines())
        at = [(r.op, r.start // MS, r.end // MS, r.finished) for r in trace.requests[DISK]]
        self.assertEqual(at, [("read", 1000, 1350, True), ("flush", 1100, 1300, True),
                              ("write", 1200, 1250, True), ("read", 1500, 3000, False)])
        self.assertEqual((trace.lost, trace.unmatched, trace.unseen), (7, 1, 1))
        self.assertEqual(trace.commits[DISK], [Commit(5, 1600 * MS, 1700 * MS)])
        self.assertEqual(trace.calls, [(75, 46, 1800 * MS, 1900 * MS, -5)])
        self.assertEqual(trace.switches, [(1810 * MS, 46, "D", 0)])
        self.assertEqual(trace.wakings, [(1820 * MS, 46)])

    def test_completions_that_were_not_traced(self):
        trace = TraceReader().read([
            f"k-1 [000] .....     {when}: block_rq_issue: 7,3 {rwbs} 0 () {sector} + {sectors} be,0,4 [k]"
            for when, rwbs, sector, sectors in (("1.000000", "FF", 0, 0), ("1.100000", "WS", 8, 8),
                                                ("1.200000", "FF", 0, 0), ("1.300000", "W", 16, 8))]
            + ["k-1 [000] .....     1.400000: block_rq_complete: 7,3 FF () 0 + 0 none,0,0 [0]"])
        self.assertEqual(trace.unseen, 3)
        requests = trace.requests[DISK]
        self.assertEqual([r.end // MS for r in requests], [1200, 1400, 1400, 1400])
        truth = [Truth("flush", 1010 * MS, 1080 * MS), Truth("write", 1110 * MS, 1120 * MS, 4096, 9)]
        settled = settle_unfinished(requests, truth)
        self.assertEqual([(r.op, r.end // MS) for r in settled],
                         [("flush", 1080), ("write", 1120), ("flush", 1400)])

    def test_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.csv")
            with open(path, "w") as file:
                file.write("op,start_ns,end_ns,offset,bytes\nflush,1,5,0,0\nwrite,2,3,4096,512\nfl")
            self.assertEqual(read_truth(path), [Truth("flush", 1, 5), Truth("write", 2, 3, 4096,
                                                                           512)])
            with open(path, "w") as file:
                file.write("op,start_ns,end_ns,offset,bytes\nflush,1,x,0,0\nwrite,2,3,4096,512\n")
            with self.assertRaisesRegex(ValueError, "line 2"):
                read_truth(path)
            with open(path, "w") as file:
                file.write("id,kind,tid,start_ns,end_ns,result,reap_from_ns\n3,aio,7,1,9,512,8\n")
            self.assertEqual(read_ops(path), [Op(3, "aio", 7, 1, 9, 512, 8)])


class ThreadStates(unittest.TestCase):
    def test_states(self):
        trace = Trace(start=0, end=100)
        trace.switches = [(10, 5, "S", 6), (30, 6, "R", 5), (40, 5, "D", 6)]
        trace.wakings = [(20, 5)]
        threads = Threads(trace)
        self.assertEqual(threads.running(5, 0, 100), [(0, 10), (30, 40)])
        self.assertEqual(threads.runnable(5, 0, 100), [(20, 30)])
        self.assertEqual(threads.blocked(5, 0, 100), [(10, 20), (40, 100)])
        self.assertEqual(threads.running(6, 0, 100), [(10, 30), (40, 100)])
        self.assertEqual(threads.blocked(7, 0, 100), [(0, 100)])


class Intervals(unittest.TestCase):
    def test_algebra(self):
        self.assertEqual(intervals.union([(5, 7), (1, 3)], [(3, 4), (9, 9)]), [(1, 4), (5, 7)])
        self.assertEqual(intervals.intersect([(0, 10)], [(2, 3), (5, 20)]), [(2, 3), (5, 10)])
        self.assertEqual(intervals.subtract([(0, 10), (12, 14)], [(2, 3), (5, 13)]),
                         [(0, 2), (3, 5), (13, 14)])
        self.assertEqual(intervals.dilate([(5, 6), (9, 10)], 2), [(3, 12)])
        self.assertEqual(intervals.Index([(0, 5), (8, 9)]).within(4, 9), [(4, 5), (8, 9)])
        self.assertEqual(intervals.measure([(0, 5), (8, 9)]), 6)


class CommandLine(unittest.TestCase):
    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = judge.main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def files(self, folder, change=lambda report: None):
        report = report_json()
        report["async"] = []
        change(report)
        paths = [os.path.join(folder, name) for name in ("r.json", "t.csv", "o.csv")]
        with open(paths[0], "w") as file:
            json.dump(report, file)
        with open(paths[1], "w") as file:
            file.write("op,start_ns,end_ns,offset,bytes\n")
            file.writelines(f"flush,{a},{b},0,0\n" for a, b in flush_times())
        with open(paths[2], "w") as file:
            file.write("id,kind,tid,start_ns,end_ns,result,reap_from_ns\n")
            file.writelines(f"{op.id},{op.kind},{op.tid},{op.start},{op.end},0,{op.end}\n"
                            for op in perfect().ops if op.kind == "fdatasync")
        return ["--report", paths[0], "--truth", paths[1], "--ops", paths[2],
                "--disk", dev_name(DISK)]

    def test_good(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, _ = self.run_main(*self.files(folder))
        self.assertEqual(status, 0, out)
        self.assertIn("device.flush   -> device.flush", out)

    def test_bad(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, _ = self.run_main(*self.files(folder, lambda r: r["stalls"].pop()))
        self.assertEqual(status, 1)
        self.assertIn("FAIL  completeness", out)

    def test_bad_input(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = self.files(folder, lambda r: r.update(schema="other/9"))
            self.assertEqual(self.run_main(*arguments)[0], 2)
            self.assertEqual(self.run_main(*arguments, "--checks", "nonsense")[0], 2)
        self.assertEqual(self.run_main("--report", "/nonexistent/r.json")[0], 2)


class ReportHelpers(unittest.TestCase):
    def test_counts_at_the_window_edges(self):
        times = [100 * MS, 500 * MS, 1001 * MS]
        self.assertEqual(check_report.count_between(times, 98 * MS, 1000 * MS), (1, 3))

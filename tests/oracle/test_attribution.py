"""Right roots pass; swapped, unexplained and innocent ones do not."""

from made_up import (FLUSH_US, MS, SECOND, START, DISK, Case, flush_part, flush_root,
                     perfect, run, self_part)
import judge
from attribution import Leaf, true_span
from device import Device
from sources import Request


class Perfect(Case):
    def test_everything_passes(self):
        verdict = run(perfect(), stalls=3)
        self.assert_ok(verdict)
        self.assertEqual({row[0] for row in verdict.rows}, set(judge.CHECKS))
        self.assertIn("100.00 % right", verdict.text())

    def test_passes_with_the_truth_log_alone(self):
        inputs = perfect()
        inputs.trace = None
        self.assert_ok(run(inputs))

    def test_passes_with_roots_per_stall_only(self):
        inputs = perfect()
        for stall in inputs.report.stalls:
            stall["parts"] = []
        self.assert_ok(run(inputs, ("attribution",)))


class Attribution(Case):
    def swapped(self, cause, sure="measured", dev="7:3", number=0):
        inputs = perfect()
        stall = inputs.report.stalls[number]
        root = flush_root(FLUSH_US, cause, dev, sure)
        stall["parts"][0] = flush_part(stall["start_us"], FLUSH_US, root)
        stall["roots"][0] = root
        return run(inputs, ("attribution",))

    def test_swapped_roots_are_wrong(self):
        for cause in ("device.write", "device.read", "device.queue", "device.hung", "knob", "self",
                      "task.cpu", "task.runnable", "readers", "throttle"):
            with self.subTest(cause=cause):
                verdict = self.swapped(cause)
                self.assert_fails(verdict, "attribution", "33.")
                self.assert_fails(verdict, "attribution", "wrong, allowed")

    def test_a_wrong_guess_is_not_confident(self):
        verdict = self.swapped("device.write", sure="guess")
        self.assert_fails(verdict, "attribution", "right, wanted")
        self.assertNotIn("wrong, allowed", verdict.text())

    def test_unexplained_is_unexplained(self):
        verdict = self.swapped("unexplained")
        self.assert_fails(verdict, "attribution", "unexplained, allowed")
        self.assertNotIn("wrong, allowed", verdict.text())

    def test_the_innocent_disk_is_noticed(self):
        self.assert_fails(self.swapped("device.flush", dev="7:4"), "attribution", "7:4 is blamed")

    def test_a_short_blame_of_the_innocent_disk_is_noticed(self):
        inputs = perfect()
        stall = inputs.report.stalls[0]
        stall["parts"][1]["root"] = flush_root(100.0, "device.write", "7:4")
        stall["roots"][1] = flush_root(100.0, "device.write", "7:4")
        self.assert_fails(run(inputs, ("attribution",)), "attribution", "7:4 is blamed")

    def test_roots_per_stall_are_scored_too(self):
        inputs = perfect()
        for stall in inputs.report.stalls:
            stall["parts"] = []
            stall["roots"][0]["cause"] = "device.write"
        verdict = run(inputs, ("attribution",))
        self.assert_fails(verdict, "attribution", "wrong, allowed")

    def test_a_flush_blamed_while_the_device_was_idle(self):
        inputs = perfect()
        inputs.trace.requests[DISK] = []
        self.assert_fails(run(inputs, ("attribution",)), "attribution", "wrong, allowed")

    def test_a_flush_blamed_while_the_thread_was_runnable(self):
        inputs = perfect()
        inputs.trace.wakings = [(when - 700 * MS, tid) for when, tid in inputs.trace.wakings]
        self.assert_fails(run(inputs, ("attribution",)), "attribution", "wrong, allowed")

    def summed_up(self, *shares):
        """The first stall's flush as leaves that were summed up: (cause, share) each."""
        inputs = perfect()
        stall = inputs.report.stalls[0]
        leaves, at = [], stall["start_us"]
        for cause, share in shares:
            us = FLUSH_US * share
            leaves.append({"kind": "request", "dev": "7:3", "start_us": at, "us": us, "turns": 9,
                           "sure": "measured", "root": flush_root(us, cause, "7:3", "measured")})
            at += us
        stall["parts"][0]["causes"][0]["causes"] = leaves
        return run(inputs, ("attribution",))

    def test_what_was_summed_up_has_its_length(self):
        self.assert_ok(self.summed_up(("device.flush", 0.2), ("device.flush", 0.8)))
        self.assert_fails(self.summed_up(("device.write", 0.2), ("device.flush", 0.8)),
                          "attribution", "wrong, allowed")

    def test_what_was_summed_up_has_no_place(self):
        leaf = Leaf(0, 10, "device.flush", DISK, 0, "measured", run=(0, 100))
        self.assertEqual(true_span(leaf, [(50, 58)]), [(0, 8)])
        self.assertEqual(true_span(leaf, [(50, 90)]), [(0, 10)])
        self.assertEqual(true_span(leaf, [(200, 300)]), [])
        leaf.run = ()
        self.assertEqual(true_span(leaf, [(50, 58)]), [])

    def test_edges_of_two_milliseconds_are_forgiven(self):
        inputs = perfect()
        for request in inputs.trace.requests[DISK]:
            request.start += 1_900_000
            request.end -= 1_900_000
        self.assertIn("100.00 % right", run(inputs, ("attribution",)).text())

    def test_a_holder_without_cpu_is_believed_if_it_was_seen(self):
        inputs = perfect()
        stall = inputs.report.stalls[0]
        start = stall["start_us"]
        length = 30_000.0
        root = {"cause": "task.runnable", "tid": 77, "us": length, "sure": "measured"}
        holder = {"kind": "holder", "tid": 99, "start_us": start, "us": length, "root": root}
        stall["parts"] = [
            {"class": "lock.inode", "start_us": start, "us": length, "causes": [holder]},
            flush_part(start + length, FLUSH_US - length),
            self_part(start + FLUSH_US, 100.0, 11)]
        # 30 ms are under 2 % of all, so look at this stall alone.
        inputs.report.stalls[:] = [stall]
        self.assert_fails(run(inputs, ("attribution",), wrong=0.01), "attribution", "wrong")
        begin = START + SECOND
        inputs.trace.wakings.append((begin, 99))
        inputs.trace.switches += [(begin - MS, 99, "S", 0), (begin + 30 * MS, 0, "S", 99),
                                  (begin + 31 * MS, 99, "S", 0)]
        self.assert_ok(run(inputs, ("attribution",), wrong=0.01))
        self.assert_fails(run(inputs, ("attribution",), cpu_claims=0.001), "attribution",
                          "by_cpu_claim")

    def test_stalls_on_an_unknown_device(self):
        inputs = perfect()
        inputs.report.stalls[0]["dev"] = "8:0"
        self.assert_fails(run(inputs, ("attribution",)), "attribution", "no trace of")

    def test_too_few_stalls(self):
        self.assert_fails(run(perfect(), ("attribution",), stalls=4), "attribution", "at least 4")

    def test_a_quiet_disk_is_not_blamed(self):
        inputs = perfect()
        inputs.trace.requests[DISK] = [Request("flush", request.start + n * MS,
                                               request.start + (n + 1) * MS, 0, 0)
                                       for request in inputs.trace.requests[DISK]
                                       for n in range(1500)]
        self.assert_fails(run(inputs, ("attribution",), quiet=True), "attribution",
                          "without any delay")
        for change in (lambda stall: None,
                       lambda stall: stall.update(roots=[{"cause": "self", "us": FLUSH_US}])):
            inputs = perfect()
            for stall in inputs.report.stalls:
                change(stall)
            # The first: by the trace the device did take that long.
            self.assertNotIn("without any delay",
                             run(inputs, ("attribution",), quiet=True).text())


class WritesBesideFlushes(Case):
    """A write that outlives the flush waits for it; one that completes within it does not."""

    def setUp(self):
        self.flush = Request("flush", 10 * MS, 110 * MS, 0, 0)

    def causes_at(self, write, when):
        device = Device([self.flush, write])
        return {name for name, time in device.within(when, when + 1).items() if time}

    def test_outliving(self):
        write = Request("write", 5 * MS, 111 * MS, 8, 8)
        self.assertEqual(self.causes_at(write, 50 * MS), {"device.flush"})
        self.assertEqual(self.causes_at(write, 7 * MS), {"device.write", "device.queue"})

    def test_in_the_same_batch_of_completions(self):
        write = Request("write", 5 * MS, 110 * MS - 100_000, 8, 8)
        self.assertEqual(self.causes_at(write, 50 * MS), {"device.flush"})

    def test_completing_during_the_flush(self):
        write = Request("write", 5 * MS, 60 * MS, 8, 8)
        self.assertEqual(self.causes_at(write, 50 * MS),
                         {"device.flush", "device.write", "device.queue"})
        self.assertEqual(self.causes_at(write, 70 * MS), {"device.flush"})

    def test_reads(self):
        read = Request("read", 200 * MS, 300 * MS, 8, 8)
        self.assertEqual(self.causes_at(read, 250 * MS), {"device.read", "device.queue"})
        self.assertEqual(self.causes_at(read, 150 * MS), {"idle"})

"""Each check passes on a right report and fails on one that is wrong in one known way."""

import copy

import check_report
from made_up import DISK, FLUSH_US, MS, SECOND, START, Case, perfect, report_json, run, stall_of
from sources import Op, Report, Request, Truth


class Completeness(Case):
    def check(self, change):
        inputs = perfect()
        change(inputs)
        return run(inputs, ("completeness", "async"))

    def test_missing_stall(self):
        verdict = self.check(lambda i: i.report.stalls.pop(1))
        self.assert_fails(verdict, "completeness", "missing: fdatasync id 1")

    def test_missing_probe(self):
        verdict = self.check(lambda i: i.ops.append(
            Op(9, "probe_submit", 13, START + SECOND, START + SECOND + 16 * MS)))
        self.assert_fails(verdict, "completeness", "missing: probe_submit id 9")

    def test_near_misses_are_few(self):
        def add(inputs, count):
            inputs.ops += [Op(9, "probe_submit", 13, start, start + 11 * MS) for start in
                           range(START + SECOND, START + SECOND + count * SECOND, SECOND)]

        self.assert_ok(self.check(lambda i: add(i, 2)))
        self.assert_fails(self.check(lambda i: add(i, 3)), "completeness",
                          "missing: probe_submit id 9")

    def test_longer_than_the_clock_says(self):
        def lengthen(inputs):
            inputs.report.stalls[0]["duration_us"] *= 1.013

        self.assert_fails(self.check(lengthen), "completeness", "allowed are")

    def test_under_the_threshold(self):
        def shorten(inputs):
            op = inputs.ops[0]
            op.end = op.start + 10 * MS
            inputs.report.stalls[0]["duration_us"] = 9950.0

        self.assert_fails(self.check(shorten), "completeness", "under the threshold")

    def test_wrong_duration(self):
        def shorten(inputs):
            inputs.report.stalls[0]["duration_us"] *= 0.985

        self.assert_fails(self.check(shorten), "completeness", "allowed are")

    def test_duration_within_one_percent(self):
        def shorten(inputs):
            inputs.report.stalls[0]["duration_us"] *= 0.993

        self.assert_ok(self.check(shorten))

    def test_preempted_beside_the_call(self):
        def preempt(inputs):
            op = inputs.ops[0]
            op.end += 40 * MS
            leave = op.end - 40 * MS + 10_000
            inputs.trace.switches += [(leave, op.tid, "R", 0), (op.end - 5000, 0, "S", op.tid)]

        self.assert_ok(self.check(preempt))
        inputs = perfect()
        preempt(inputs)
        inputs.trace.switches, inputs.trace.wakings = [], []
        self.assert_fails(run(inputs, ("completeness",)), "completeness", "allowed are")

    def test_unknown_stall(self):
        verdict = self.check(lambda i: i.report.stalls.append(stall_of(9, 12, 8_000_000.0)))
        self.assert_fails(verdict, "completeness", "knows no such call")

    def test_other_threads_are_not_the_workload(self):
        self.assert_ok(self.check(lambda i: i.report.stalls.append(stall_of(9, 50, 8_000_000.0))))

    def test_reported_twice(self):
        def double(inputs):
            inputs.report.stalls.append(copy.deepcopy(inputs.report.stalls[0]))

        self.assert_fails(self.check(double), "completeness", "knows no such call")

    def test_too_short(self):
        def add(inputs):
            inputs.ops.append(Op(5, "fdatasync", 12, START + SECOND, START + SECOND + 9 * MS))
            short = stall_of(4, 12, 1_000_000.0)
            short["duration_us"] = 9000.0
            inputs.report.stalls.append(short)

        self.assert_fails(self.check(add), "completeness", "too short to be reported")

    def test_wrong_kind(self):
        def change(inputs):
            inputs.report.stalls[0]["kind"] = "io_submit"

        self.assert_fails(self.check(change), "completeness", "reported as io_submit")

    def test_cut_by_the_window(self):
        def cut(inputs, mark):
            inputs.ops.append(Op(6, "fdatasync", 14, START - SECOND, START + 100 * MS))
            stall = stall_of(4, 14, 0.0)
            stall["duration_us"] = 100_000.0
            stall.update(mark)
            inputs.report.stalls.append(stall)

        self.assert_ok(self.check(lambda i: cut(i, {"cut": "start"})))
        self.assert_fails(self.check(lambda i: cut(i, {})), "completeness", "not marked so")

    def slow(self, inputs):
        return inputs.report.json["async"][0]["slow"]

    def test_missing_request(self):
        self.assert_fails(self.check(lambda i: self.slow(i).clear()), "async", "missing: aio id 77")

    def test_request_with_wrong_duration(self):
        for us in (1_250_000.0, 1_350_000.0):
            def change(inputs, us=us):
                one = self.slow(inputs)[0]
                one["device_us"] += us - one["duration_us"]
                one["duration_us"] = us

            self.assert_fails(self.check(change), "async", "it took between")

    def test_split_does_not_add_up(self):
        def change(inputs):
            self.slow(inputs)[0]["device_us"] -= 5

        self.assert_fails(self.check(change), "async", "add up to")

    def test_unknown_request(self):
        def change(inputs):
            self.slow(inputs).append(dict(self.slow(inputs)[0], start_us=8_000_000.0, user_id=78))

        self.assert_fails(self.check(change), "async", "knows no such request")

    def test_short_request(self):
        def change(inputs):
            inputs.ops[-1].end = inputs.ops[-1].start + 9 * MS
            inputs.ops[-1].reap_from = inputs.ops[-1].start + 8 * MS

        self.assert_fails(self.check(change), "async", "too short to be reported")

    def test_joined_by_time_without_user_id(self):
        self.assert_ok(self.check(lambda i: self.slow(i)[0].pop("user_id")))


class Sums(Case):
    def fails(self, text, change):
        inputs = perfect()
        change(inputs.report.stalls[0], inputs.report.json)
        self.assert_fails(run(inputs, ("sums",)), "sums", text)

    def test_parts(self):
        self.fails("pieces add up", lambda s, _: s["parts"].pop())

    def test_overlap(self):
        def change(stall, _):
            stall["parts"][1]["start_us"] -= 50
        self.fails("overlap", change)

    def test_causes(self):
        def change(stall, _):
            stall["parts"][0]["causes"][0]["us"] -= 3
        self.fails("pieces add up", change)

    def test_deep_causes_outside(self):
        def change(stall, _):
            stall["parts"][0]["causes"][0]["causes"][0]["start_us"] -= 40
        self.fails("is outside", change)

    def test_roots(self):
        def change(stall, _):
            stall["roots"][1]["us"] += 2
        self.fails("roots add up", change)

    def test_roots_unlike_their_chain(self):
        def change(stall, _):
            stall["roots"][0]["us"] -= 500
            stall["roots"][1]["us"] += 500
        self.fails("in its chain", change)

    def test_shares(self):
        def change(_, report):
            report["roots"][0]["share"] -= 0.1
        self.fails("roots: shares", change)

    def test_totals(self):
        def change(_, report):
            report["waits"][0]["us"] -= 4000
        self.fails("waits:", change)


class Flushes(Case):
    def test_chain_names_a_flush_that_was_none(self):
        inputs = perfect()
        stall = inputs.report.stalls[0]
        for item in (stall, stall["parts"][0], stall["parts"][0]["causes"][0],
                     stall["parts"][0]["causes"][0]["causes"][0]):
            item["start_us"] += 500_000
        self.assert_fails(run(inputs, ("flushes",)), "flushes", "not flushing all that time")

    def test_distribution(self):
        for key, text in (("mean", "mean flush"), ("max", "longest flush")):
            inputs = perfect()
            inputs.report.json["flushes"][0]["device_us"][key] *= 0.5
            self.assert_fails(run(inputs, ("flushes",)), "flushes", text)

    def test_list(self):
        def entry(inputs, us):
            inputs.report.json["flushes"][0]["flush_list"] = [
                {"start_us": when * 1e6 - 50, "us": us} for when in (1, 4, 7)]
            return run(inputs, ("flushes",))

        self.assert_ok(entry(perfect(), FLUSH_US * 1.04))
        self.assert_fails(entry(perfect(), FLUSH_US * 1.07), "flushes", "reported with")

    def test_list_is_complete(self):
        inputs = perfect()
        inputs.report.json["flushes"][0]["flush_list"] = [{"start_us": 4e6 - 50, "us": FLUSH_US}]
        self.assert_fails(run(inputs, ("flushes",)), "flushes", "is not listed")

    def test_a_flush_issued_behind_writes(self):
        """10 ms of writes first, then 20 ms of flush: 20 and 30 ms are both true of it."""
        request = Request("flush", START + SECOND, START + SECOND + 30 * MS, 0, 0)
        write = Request("write", START, START + SECOND + 10 * MS, 8, 8)
        self.assertEqual(check_report.own_time(request, [write.end]), 20 * MS)
        truth = [Truth("flush", START + SECOND + 10 * MS, START + SECOND + 30 * MS)]
        report = Report(report_json())
        times = check_report.flush_times(report, truth, [write, request])
        self.assertEqual([(one.server, one.driver) for one in times], [(20 * MS, 30 * MS)])
        for start_us, us, good in ((1e6, 30e3, True), (1.01e6, 20e3, True), (1e6, 20e3, True),
                                   (1e6, 32e3, False), (1.01e6, 18e3, False), (2e6, 20e3, False)):
            entry = {"flush_list": [{"start_us": start_us, "us": us}]}
            self.assertEqual(not check_report.match_flush_list(report, times, entry), good,
                             (start_us, us))

    def test_no_flushes_in_the_report(self):
        inputs = perfect()
        inputs.report.json["flushes"] = []
        self.assert_fails(run(inputs, ("flushes",)), "flushes", "has no flushes")


class Counts(Case):
    def test_own_outside_count(self):
        for key, field in (("commits", "proc_count"), ("flushes", "diskstats_count")):
            inputs = perfect()
            inputs.report.json[key][0][field] += 1
            self.assert_fails(run(inputs, ("counts",)), "counts", "its own outside count")

    def test_trace(self):
        inputs = perfect()
        inputs.trace.commits[DISK].pop()
        inputs.trace.requests[DISK].pop()
        verdict = run(inputs, ("counts",))
        self.assert_fails(verdict, "counts", "commits of 7:3 (trace): 3 reported, 2 counted")
        self.assert_fails(verdict, "counts", "flushes of 7:3 (trace): 3 reported, 2 counted")

    def test_growth(self):
        inputs = perfect()
        inputs.growth = {"commits": 3, "flushes": 3}
        self.assert_ok(run(inputs, ("counts",)))
        inputs.growth = {"commits": 4, "flushes": 3}
        self.assert_fails(run(inputs, ("counts",)), "counts", "3 reported, 4 counted")

    def test_a_flush_hidden_from_the_trace(self):
        inputs = perfect()
        inputs.trace.requests[DISK][1].finished = False
        inputs.report.json["flushes"][0]["count"] = 2
        self.assert_ok(run(inputs, ("counts",)))
        inputs.report.json["flushes"][0]["count"] = 1
        self.assert_fails(run(inputs, ("counts",)), "counts", "its own outside count")

    def test_loss(self):
        inputs = perfect()
        inputs.report.json["loss"]["unmatched"] = 2
        self.assert_fails(run(inputs, ("loss",)), "loss", "unmatched is 2")
        del inputs.report.json["loss"]
        self.assert_fails(run(inputs, ("loss",)), "loss", "does not say")

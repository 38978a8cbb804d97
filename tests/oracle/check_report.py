"""Checks that need the report and counts only: sums, flushes one by one, totals, loss."""

import statistics
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from intervals import union
from sources import NS_PER_US, dev_name, kdev

SUM_SLACK_US = 1.0
EPSILON_US = 0.0015  # times are printed with three decimals
FLUSH_SHARE, FLUSH_NS = 0.05, 300 * NS_PER_US
WINDOW_EDGE = 5_000_000
SHARE_SLACK = 0.002


def end_of(item):
    return item["start_us"] + item["us"]


def check_tiling(name, children, start, length, failures):
    """Children lie inside [start, start + length), do not overlap and add up to it."""
    total = sum(child["us"] for child in children)
    if abs(total - length) > SUM_SLACK_US:
        failures.append(f"{name}: {len(children)} pieces add up to {total:.3f} us, not "
                        f"{length:.3f}")
    ordered = sorted(children, key=lambda child: (child["start_us"], end_of(child)))
    for left, right in zip(ordered, ordered[1:]):
        if right["start_us"] < end_of(left) - EPSILON_US:
            failures.append(f"{name}: pieces at {left['start_us']:.3f} and "
                            f"{right['start_us']:.3f} us overlap")
    for child in children:
        if child["us"] < 0:
            failures.append(f"{name}: a piece of {child['us']} us")
        if (child["start_us"] < start - EPSILON_US
                or end_of(child) > start + length + EPSILON_US):
            failures.append(f"{name}: the piece [{child['start_us']:.3f}, {end_of(child):.3f}) "
                            f"is outside [{start:.3f}, {start + length:.3f})")


def check_causes(name, item, failures):
    if not item.get("causes"):
        return
    check_tiling(name, item["causes"], item["start_us"], item["us"], failures)
    for number, cause in enumerate(item["causes"]):
        check_causes(f"{name}.{cause.get('kind')}[{number}]", cause, failures)


def leaf_roots(item, totals):
    """Adds the roots of the leaves below `item`; False if one has none."""
    if item.get("causes"):
        return all([leaf_roots(cause, totals) for cause in item["causes"]])
    root = item.get("root")
    if root is None:
        return False
    key = root["cause"], root.get("dev")
    totals[key] = totals.get(key, 0) + item["us"]
    return True


def check_sums(report):
    failures = []
    for stall in report.stalls:
        name = f"stall {stall.get('id')}"
        parts = stall.get("parts", [])
        check_tiling(name, parts, stall["start_us"], stall["duration_us"], failures)
        for number, part in enumerate(parts):
            check_causes(f"{name} part {number} ({part.get('class')})", part, failures)
        roots = stall.get("roots", [])
        total = sum(root["us"] for root in roots)
        if abs(total - stall["duration_us"]) > SUM_SLACK_US:
            failures.append(f"{name}: roots add up to {total:.3f} us, not "
                            f"{stall['duration_us']:.3f}")
        totals, listed = {}, {}
        if parts and all([leaf_roots(part, totals) for part in parts]):
            for root in roots:
                key = root["cause"], root.get("dev")
                listed[key] = listed.get(key, 0) + root["us"]
            for key in totals.keys() | listed.keys():
                if abs(totals.get(key, 0) - listed.get(key, 0)) > SUM_SLACK_US:
                    failures.append(f"{name}: root {key[0]} {key[1]} is {listed.get(key, 0):.3f} "
                                    f"us in its list, {totals.get(key, 0):.3f} in its chain")
    for table in ("waits", "roots"):
        rows = report.json.get(table, [])
        total = sum(row["share"] for row in rows)
        if rows and abs(total - 1) > SHARE_SLACK:
            failures.append(f"{table}: shares add up to {total:.4f}")
        us = sum(row["us"] for row in rows)
        stalled = sum(stall["duration_us"] for stall in report.stalls)
        if rows and abs(us - stalled) > max(SUM_SLACK_US * len(report.stalls), 1e-6 * stalled):
            failures.append(f"{table}: {us:.0f} us in all, the stalls have {stalled:.0f}")
    return failures


def flush_causes(report, dev):
    """(start, end) of every cause on `dev` that is said to be a flush being executed."""
    found = []

    def walk(item):
        root = item.get("root") or {"cause": "device.flush"}
        if (item.get("kind") == "flush" and not item.get("causes")
                and root["cause"] == "device.flush" and kdev(item["dev"]) == dev):
            found.append(report.span(item))
        for cause in item.get("causes") or []:
            walk(cause)

    for stall in report.stalls:
        for part in stall.get("parts", []):
            walk(part)
    return found


def check_flush_causes(report, dev, truth, executed):
    """A flush in a chain is clipped to its waiter's time, so it must lie inside real ones."""
    failures = []
    slack = FLUSH_NS
    real = union([(r.start - slack, r.end + slack) for r in executed or truth])
    ends = [end for _, end in real]
    causes = flush_causes(report, dev)
    # Flushes that say of themselves that their end was not seen give an upper bound only.
    unseen = [(report.at(one["start_us"]), report.at(one["start_us"] + one["us"]))
              for entry in report.json.get("flushes", []) if kdev(entry["dev"]) == dev
              for one in entry.get("flush_list", []) if one.get("end_unseen")]
    for start, end in causes:
        if any(begin - slack <= start and end <= last + slack for begin, last in unseen):
            continue
        index = bisect_left(ends, min(end, start + 1))
        inside = index < len(real) and real[index][0] <= start and end <= real[index][1]
        if not inside and end - start > 2 * slack:
            failures.append(f"a flush of {dev_name(dev)} is said to run from "
                            f"{(start - report.start) / 1e9:.4f} s on for "
                            f"{(end - start) / 1e6:.3f} ms; the device was not flushing all that "
                            "time")
    return failures, len(causes)


def own_time(request, completions):
    """A flush's time in the driver less that in which the driver still served earlier requests.

    A device that takes requests in order (a loop device does) executes a flush only when those
    before it have completed. The server's time of a flush is this one, the driver's the whole.
    """
    index = bisect_left(completions, request.end - NS_PER_US)
    last_other = completions[index - 1] if index else 0
    return request.end - max(request.start, last_other)


@dataclass
class FlushTimes:
    start: int
    server: int  # by the truth log
    driver: int  # from issue to completion, by the trace; the server's where there is none

    def agrees(self, value):
        """Between what the server and what the driver took, but for the tolerance."""
        slack = max(FLUSH_SHARE * self.server, FLUSH_NS)
        return min(self.server, self.driver) - slack <= value <= self.driver + slack


def flush_times(report, truth, requests):
    """The flushes of the window by both outside sources; those at its edges are left out."""
    executed = sorted((r for r in requests if r.op == "flush"), key=lambda r: r.start)
    starts = [r.start for r in executed]
    times = []
    for one in truth:
        if one.start < report.start + WINDOW_EDGE or one.end > report.end - WINDOW_EDGE:
            continue
        index = bisect_right(starts, one.start) - 1
        server = one.end - one.start
        if index >= 0 and executed[index].end >= one.end:
            request = executed[index]
            times.append(FlushTimes(request.start, server, request.end - request.start))
        else:
            times.append(FlushTimes(one.start, server, server))
    return times


def match_flush_list(report, times, entry):
    """Each flush of the truth log against the report's own list."""
    failures = []
    listed = sorted((report.at(one["start_us"]), one["us"] * NS_PER_US,
                     one.get("end_unseen", False)) for one in entry["flush_list"])
    starts = [start for start, _, _ in listed]
    unseen = sum(one[2] for one in listed)
    if unseen > max(2, 0.02 * len(listed)):
        failures.append(f"the end of {unseen} of {len(listed)} flushes is said to be unseen")
    for one in times:
        # The list may begin a flush with its issue or with its execution.
        index = bisect_right(starts, one.start + one.driver - one.server + FLUSH_NS) - 1
        at = f"flush at {(one.start - report.start) / 1e9:.4f} s"
        if index < 0 or starts[index] < one.start - FLUSH_NS:
            failures.append(f"{at} is not listed")
        elif listed[index][2] and listed[index][1] >= one.server - FLUSH_NS:
            continue
        elif not one.agrees(listed[index][1]):
            failures.append(f"{at} took {one.server / 1e6:.3f} ms in the server and "
                            f"{one.driver / 1e6:.3f} ms in the driver, reported with "
                            f"{listed[index][1] / 1e6:.3f} ms")
    return failures


def check_flush_dist(name, times, dist):
    """Mean and longest. Flushes at the window's edges may be in one of the two only."""
    failures = []
    server, driver = ([getattr(one, key) for one in times] for key in ("server", "driver"))
    edge = 2 * max(driver) / len(times)
    mean = FlushTimes(0, round(statistics.fmean(server)), round(statistics.fmean(driver) + edge))
    if not mean.agrees(dist["mean"] * NS_PER_US):
        failures.append(f"mean flush of {name} is {dist['mean'] / 1e3:.3f} ms, by the truth log "
                        f"{mean.server / 1e6:.3f} ms, by the trace {mean.driver / 1e6:.3f} ms")
    longest = FlushTimes(0, max(server), max(driver))
    if dist["max"] * NS_PER_US < longest.server - max(FLUSH_SHARE * longest.server, FLUSH_NS):
        failures.append(f"longest flush of {name} is {dist['max'] / 1e3:.3f} ms, by the truth log "
                        f"{longest.server / 1e6:.3f} ms")
    return failures


def check_flushes(report, dev, truth, requests):
    """Flushes of the report against the truth log; `requests` are those of the block trace."""
    truth = sorted((one for one in truth if one.op == "flush"), key=lambda one: one.start)
    executed = [r for r in requests if r.op == "flush"]
    failures, causes = check_flush_causes(report, dev, truth, executed)
    times = flush_times(report, truth, requests)
    entry = next((e for e in report.json.get("flushes", []) if kdev(e["dev"]) == dev), None)
    facts = {"in the truth log": len(times), "in chains": causes}
    if times and executed:
        ends = sorted(r.end for r in requests if r.op != "flush")
        driver = {r.start: r for r in executed}
        behind = sum(one.driver - own_time(driver[one.start], ends) > FLUSH_NS for one in times
                     if one.start in driver)
        facts["issued behind other requests"] = behind
    if not times:
        return failures, facts
    if entry is None:
        return failures + [f"the report has no flushes of {dev_name(dev)}"], facts
    if "flush_list" in entry:
        failures += match_flush_list(report, times, entry)
        facts["listed"] = len(entry["flush_list"])
    dist = entry.get("device_us")
    if dist:
        failures += check_flush_dist(dev_name(dev), times, dist)
        facts["mean ms (server, driver, report)"] = (
            f"{statistics.fmean(one.server for one in times) / 1e6:.3f} "
            f"{statistics.fmean(one.driver for one in times) / 1e6:.3f} {dist['mean'] / 1e3:.3f}")
    return failures, facts


def count_between(times, start, end):
    """Least and most of the events that can belong to [start, end)."""
    least = sum(start + WINDOW_EDGE <= when < end - WINDOW_EDGE for when in times)
    most = sum(start - WINDOW_EDGE <= when < end + WINDOW_EDGE for when in times)
    return least, most


def check_count(name, reported, least, most, failures):
    if not least <= reported <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        failures.append(f"{name}: {reported} reported, {wanted} counted outside")


def check_counts(report, dev, trace=None, growth=None):
    """Commits and flushes against the trace, against the kernel's counters, and loss.

    `growth` is {"commits": n, "flushes": n} from /proc and diskstats around a window outside of
    which nothing happened.
    """
    failures = []
    for key, field, event in (("commits", "proc_count", "commits"),
                              ("flushes", "diskstats_count", "requests")):
        entry = next((e for e in report.json.get(key, []) if kdev(e["dev"]) == dev), None)
        count = entry["count"] if entry else 0
        hidden = 0
        if trace is not None:
            events = [e for e in getattr(trace, event).get(dev, [])
                      if key == "commits" or e.op == "flush"]
            least, most = count_between([e.end for e in events], report.start, report.end)
            # What the kernel hid from the trace it may have hidden from the tool.
            hidden = sum(not e.finished for e in events) if key == "flushes" else 0
            check_count(f"{key} of {dev_name(dev)} (trace)", count, least - hidden, most, failures)
        if entry and entry.get(field) is not None and not 0 <= entry[field] - count <= hidden:
            failures.append(f"{key} of {dev_name(dev)}: {count} reported, its own outside count "
                            f"is {entry[field]}")
        if growth is not None and key in growth:
            check_count(f"{key} of {dev_name(dev)}", count, growth[key] - hidden, growth[key],
                        failures)
    return failures


def check_loss(report):
    loss = report.json.get("loss")
    if loss is None:
        return ["the report does not say what was lost"]
    return [f"loss.{name} is {value}" for name, value in loss.items() if value]

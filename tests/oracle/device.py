"""What a block device was doing at each instant, from the trace of its driver or the truth log."""

from bisect import bisect_left, bisect_right

from intervals import Index, subtract, union
from sources import NS_PER_US

# A softirq completes a batch in one go: a write that ends this close to the flush's end did not
# complete during the flush.
SAME_BATCH = 300 * NS_PER_US


class Device:
    """Time during which each answer to "what are you waiting for there" is true.

    A request that is in flight while a flush is executed waits for that flush, unless it completes
    before the flush does: then its own time counts.
    """

    def __init__(self, requests):
        flushes = [r for r in requests if r.op == "flush"]
        self.flushes = sorted(flushes, key=lambda r: r.start)
        # Truth logs know overlapping flushes of several queues; their union is the flush time.
        flush = union([(r.start, r.end) for r in flushes])
        held = {"read": [], "write": [], "discard": []}
        ends = [end for _, end in flush]
        starts = [start for start, _ in flush]
        for request in requests:
            if request.op == "flush":
                continue
            first, last = bisect_right(ends, request.start), bisect_left(starts, request.end)
            outlived = [pair for pair in flush[first:last] if request.end >= pair[1] - SAME_BATCH]
            held[request.op] += subtract([(request.start, request.end)], outlived)
        self.flush = Index(flush)
        self.read = Index(union(held["read"]))
        self.write = Index(union(held["write"], held["discard"]))

    def within(self, start, end):
        """cause -> time in [start, end) when it is a right answer."""
        flush = self.flush.within(start, end)
        read = self.read.within(start, end)
        write = self.write.within(start, end)
        return {"device.flush": flush, "device.read": read, "device.write": write,
                "device.queue": union(read, write),
                "idle": subtract([(start, end)], union(flush, read, write))}


def settle_unfinished(requests, truth):
    """Ends of requests whose completion was not traced, by the server's log; without it they say
    nothing. (A kernel may hide what happens while certain tasks run, interrupts included.)"""
    by_offset = {}
    for one in truth:
        by_offset.setdefault((one.op == "flush", one.offset), []).append(one)
    settled = []
    for request in requests:
        if not request.finished:
            flush = request.op == "flush"
            key = flush, 0 if flush else request.sector * 512
            served = [one for one in by_offset.get(key, [])
                      if request.start <= one.start and one.end <= request.end]
            if not served:
                continue
            request.end = served[0].end
        settled.append(request)
    return settled


def flushes_disagree(truth, requests, slack=2_000_000):
    """Flushes of the server that the trace of the driver does not contain: a broken judge."""
    flush = union([(r.start - slack, r.end + slack) for r in requests if r.op == "flush"])
    if not requests:
        return []
    begin = min(r.start for r in requests)
    finish = max(r.end for r in requests)
    ends = [end for _, end in flush]
    missing = []
    for one in truth:
        if one.op != "flush" or one.start < begin or one.end > finish:
            continue
        index = bisect_left(ends, one.end)
        if index == len(flush) or flush[index][0] > one.start:
            missing.append(one)
    return missing

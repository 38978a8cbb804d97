"""Sets of time as sorted lists of disjoint (start, end) pairs, in integer nanoseconds."""


def union(*sets):
    """The time in any of the sets; the pairs given need not be sorted or disjoint."""
    merged = []
    for start, end in sorted(pair for one in sets for pair in one if pair[1] > pair[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def intersect(left, right):
    result, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        start = max(left[i][0], right[j][0])
        end = min(left[i][1], right[j][1])
        if end > start:
            result.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return result


def subtract(left, right):
    result, j = [], 0
    for start, end in left:
        while j < len(right) and right[j][1] <= start:
            j += 1
        k = j
        while k < len(right) and right[k][0] < end:
            if right[k][0] > start:
                result.append((start, right[k][0]))
            start = max(start, right[k][1])
            k += 1
        if start < end:
            result.append((start, end))
    return result


def clip(pairs, start, end):
    return intersect(pairs, [(start, end)])


def dilate(pairs, by):
    """Every pair grown by `by` on both sides."""
    return union([(start - by, end + by) for start, end in pairs])


def measure(pairs):
    return sum(end - start for start, end in pairs)


class Index:
    """A long set that is asked for many short windows."""

    def __init__(self, pairs):
        self.pairs = pairs
        self.starts = [pair[0] for pair in pairs]
        self.ends = [pair[1] for pair in pairs]

    def within(self, start, end):
        from bisect import bisect_left, bisect_right

        first = bisect_right(self.ends, start)
        last = bisect_left(self.starts, end)
        return clip(self.pairs[first:last], start, end)

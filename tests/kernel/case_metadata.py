"""Whose metadata and data a sync had to have written: the tool's figures against what ftrace saw
each handle dirty, each commit log and each sync wait for."""

import bisect
import json
import re
from collections import defaultdict

from case_batch import KernelEvents
from fault_loads import appender, folder_maker
from faults import Watch, tid_of
from lab import SECOND, Disk, Folder, check, seed

EVENTS = ("jbd2/jbd2_handle_stats", "jbd2/jbd2_run_stats", "jbd2/jbd2_end_commit",
          "ext4/ext4_sync_file_enter", "ext4/ext4_sync_file_exit")
LINE = re.compile(r"-(\d+)\s+\[\d+\]\s+\S+\s+(\d+)\.(\d+): (\w+): dev (\d+),(\d+) (.*)")


class Journal:
    """What ftrace tells of one journal."""

    def __init__(self, kernel, dev):
        self.dirtied = defaultdict(lambda: defaultdict(int))  # transaction -> task -> blocks
        self.logged = {}  # transaction -> blocks written to the log, descriptors among them
        self.ends, self.end_tids = [], []
        self.syncs = []  # (task, start, end)
        starts = {}
        for match in filter(None, map(LINE.search, kernel.lines())):
            task, event, rest = int(match[1]), match[4], match[7]
            if f"{match[5]}:{match[6]}" != dev:
                continue
            at = int(match[2]) * 10**9 + int(match[3]) * 1000
            if event == "ext4_sync_file_enter":
                starts[task] = at
            elif event == "ext4_sync_file_exit":
                if task in starts:
                    self.syncs.append((task, starts.pop(task), at))
            elif event == "jbd2_end_commit":
                self.ends.append(at)
                self.end_tids.append(int(re.search(r"transaction (\d+)", rest)[1]))
            else:
                number = {key: int(value) for key, value in re.findall(r"(\w+) (-?\d+)", rest)}
                if event == "jbd2_run_stats":
                    self.logged[number["tid"]] = number["blocks_logged"]
                else:
                    self.dirtied[number["tid"]][task] += number["dirtied_blocks"]

    def commits_in(self, start, end):
        return [tid for at, tid in zip(self.ends, self.end_tids) if start <= at <= end]

    def paid(self, tasks, start, end):
        """Mean blocks, own and others', of the syncs in which a commit ended: the last one."""
        own = others = count = 0
        for task, begin, done in self.syncs:
            last = bisect.bisect_right(self.ends, done) - 1
            if task not in tasks or not start <= done <= end or self.ends[last] < begin:
                continue
            blocks = self.dirtied[self.end_tids[last]]
            count += 1
            own += blocks[task]
            others += sum(blocks.values()) - blocks[task]
        return count, own / count, others / count


def close_to(what, ours, outside, share=0.03):
    print(f"  {what}: {ours:.5g}, from outside {outside:.5g}")
    check(abs(ours - outside) <= share * outside, f"{what} is {ours}, from outside {outside}")


def whose_metadata():
    """One task makes folders, and two others' syncs pay for them."""
    rng = seed()
    with Folder() as folder, KernelEvents(*EVENTS) as kernel:
        # Writing the log takes its time.
        with Disk(folder, "slow", flush="2ms", write=f"{rng.uniform(4, 8):.1f}ms") as disk:
            kernel.only(disk)
            with Watch(folder, [disk]) as watch:
                payers = [watch.worker(appender, f"{disk.mountpoint}/a{n}", rng.uniform(0, 0.02))
                          for n in range(2)]
                maker = watch.worker(folder_maker, disk.mountpoint, 0)
                watch.trace()
                watch.go(5)
            journal = Journal(kernel, disk.dev)
        with open(folder.file("report.json")) as file:
            report = json.load(file)
    start = report["window"]["start_monotonic_ns"]
    end = start + int(report["window"]["duration_s"] * SECOND)
    told = report["batching"][0]
    by_task = defaultdict(int)
    commits = journal.commits_in(start, end)
    for tid in commits:
        for task, blocks in journal.dirtied[tid].items():
            by_task[task] += blocks
    print(f"{len(commits)} commits, flushes of 2 ms")
    tids = {tid_of(worker) for worker in (*payers, maker)}
    for one in told["metadata_by"]:
        if one["tid"] in tids:
            close_to(f"blocks dirtied by {one['tid']}", one["blocks"], by_task[one["tid"]])
    named = {one["tid"]: one for one in told["metadata_by"]}
    check(tids <= set(named), f"dirtied by {sorted(named)}, not all of {sorted(tids)}")
    check(told["metadata_by"][0]["tid"] == tid_of(maker), f"the first is {told['metadata_by'][0]}")
    for number, payer in enumerate(payers):
        path = named[tid_of(payer)].get("path")
        check(path == f"{disk.mountpoint}/a{number}", f"{tid_of(payer)} dirtied for {path}")
    # Each block once: what the commits logged is that, and a descriptor block now and then.
    logged = sum(journal.logged[tid] for tid in commits)
    print(f"  {told['metadata_blocks']} blocks dirtied, {logged} logged")
    check(0.8 * logged <= told["metadata_blocks"] <= logged,
          f"{told['metadata_blocks']} blocks dirtied, {logged} logged")
    paid = told["paid_per_sync"]
    count, own, others = journal.paid({tid_of(payer) for payer in payers}, start, end)
    close_to("syncs that waited for a commit", paid["syncs"], count)
    close_to("own blocks of a sync", paid["own_metadata_blocks"], own)
    close_to("others' blocks of a sync", paid["others_metadata_blocks"], others)
    # Each sync follows one appended block.
    close_to("own data of a sync", paid["own_data_bytes"], 4096, 0.05)
    culprits = [one for one in report["culprits"] if "metadata" in one["what"]]
    print(f"  culprits: {culprits}")
    check(culprits and culprits[0]["tid"] == tid_of(maker), f"culprits: {report['culprits']}")


CASES = (whose_metadata,)

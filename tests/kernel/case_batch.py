"""fsync batching: our fs_mark against the real one, every factor of the gain against counts taken
outside the tool, and the knobs put back whatever happens."""

import bisect
import json
import math
import os
import re
import shutil
import statistics

from kernel_events import KernelEvents, near
from lab import Disk, Folder, Skip, check, run, seed, tool


def batch(folder, disk, *words, timeout=300, places=("",)):
    path = folder.file("batch.json")
    dirs = [word for place in places for word in ("--dir", os.path.join(disk.mountpoint, place))]
    done = run(tool(), "batch", *dirs, *words, "--json", path, timeout=timeout)
    with open(path) as file:
        return json.load(file), done.stdout


def inside(times, windows):
    return sum(1 for at in times
               if any(w["start_monotonic_ns"] <= at <= w["end_monotonic_ns"] for w in windows))


def batch_factors():
    """Calls, commits and flushes counted by ftrace and by the disk give the same factors."""
    rng = seed()
    flush = f"{rng.uniform(3, 9):.2f}ms"
    with Folder() as folder:
        events = ("jbd2/jbd2_end_commit", "ext4/ext4_sync_file_enter", "jbd2/jbd2_start_commit")
        with KernelEvents(*events) as kernel:
            with Disk(folder, "slow", flush=flush) as disk:
                report, text = batch(folder, disk, "-t", "1,3,6", "-n", "40", "-L", "2")
                commits = kernel.times(events[0], disk.dev)
                syncs = kernel.times(events[1], disk.dev)
                starts = kernel.times(events[2], disk.dev)
                truth = disk.truth_path
            with open(truth) as file:
                flushes = [int(line.split(",")[2]) for line in file if line.startswith("flush,")]
        print(text)
        check(report["schema"] == "stalltrace.batch/1", report["schema"])
        check([r["threads"] for r in report["runs"]] == [1, 3, 6], "the ladder is not complete")
        first = None
        for one in report["runs"]:
            print(f"{one['threads']} threads, flush {flush}")
            made = inside(syncs, one["windows"])
            check(made == 40 * 2 * one["threads"], f"the kernel saw {made} syncs")
            check(sum(one["syncs"].values()) == made, f"syncs: {one['syncs']}, not {made}")
            ended = inside(commits, one["windows"])
            check(one["proc_commits"] == ended and
                  one["commits"] + one["timer_commits"] == ended,
                  f"commits: {one['commits']} + {one['timer_commits']}, /proc "
                  f"{one['proc_commits']}, ftrace {ended}")
            done = inside(flushes, one["windows"])
            check(sum(one["flushes"].values()) == done == one["diskstats_flushes"],
                  f"flushes: {one['flushes']}, diskstats {one['diskstats_flushes']}, disk {done}")
            left_out = done - one["flushes"]["commit"] - one["flushes"]["sync"]
            requests = ended - one["timer_commits"] + one["syncs"]["flush_only"]
            parts = sum(one["sync_parts_us"].values())
            near("the sum of a sync's parts, us", parts, one["fsync_us"]["mean"], 0.001)
            # At its beginning a commit was under way, or none.
            free = sum(1 for at in syncs if inside([at], one["windows"]) and
                       bisect.bisect(starts, at) == bisect.bisect(commits, at))
            print(f"  joined {one['joined']}, from outside {free} found no commit under way")
            check(sum(one["joined"].values()) == one["syncs"]["with_commit"], f"{one['joined']}")
            check(abs(one["joined"]["running"] - free) <= max(2, 0.03 * made), f"{one['joined']}")
            seconds = one["elapsed_s"]
            near("syncs per commit", one["syncs_per_commit"], made / requests)
            near("commits per flush", one["commits_per_flush"], requests / (done - left_out))
            near("flushes/s", one["flushes_per_s"], (done - left_out) / seconds)
            near("the product", one["syncs_per_commit"] * one["commits_per_flush"] *
                 one["flushes_per_s"], made / seconds)
            first = first or one
            if one is not first:
                factors = one["factors"]
                near("the gain's product", factors["commit_sharing"] * factors["flush_sharing"] *
                     factors["flush_rate"], one["gain"], 0.001)
                check(one["gain"] > 1.2, f"sharing gains nothing on a slow disk: {one['gain']}")


def batch_external_journal():
    """The log on a disk of its own: flushes of both disks, the file system's before the record."""
    with Folder() as folder, Disk(folder, "log", flush="4ms", size="256m", mount=False) as log:
        run("mke2fs", "-q", "-O", "journal_dev", "-b", "4096", log.device)
        with Disk(folder, "data", flush="2ms",
                  mkfs=("-b", "4096", "-J", f"device={log.device}")) as disk:
            report, _ = batch(folder, disk, "-t", "1,4", "-n", "30", "-L", "1")
            run("umount", disk.mountpoint)
        check(len(report["devices"]) == 2, f"devices: {report['devices']}")
        for one in report["runs"]:
            check(sum(one["flushes"].values()) == one["diskstats_flushes"],
                  f"flushes: {one['flushes']}, diskstats {one['diskstats_flushes']}")
            check(sum(one["syncs"].values()) == 30 * one["threads"], f"syncs: {one['syncs']}")
            # One on the data's disk, two for the record: the loop driver has no FUA.
            per_commit = one["flushes"]["commit"] / max(one["commits"], 1)
            check(2.5 < per_commit < 3.1, f"{per_commit} flushes per commit")


def rate_of_fs_mark(directory, threads, files, size=20480):
    # It leaves its files: in a folder of their own they are removed.
    os.mkdir(directory)
    done = run("fs_mark", "-s", str(size), "-n", str(files), "-L", "2", "-t", str(threads), "-d",
               directory, cwd=directory, timeout=120)
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s+\d+\s+\d+\s", line)]
    shutil.rmtree(directory)
    check(len(rows) == 2, f"fs_mark printed {done.stdout}")
    return statistics.mean(float(row[3]) for row in rows)


def rate_of_ours(folder, directory, threads, files, *words, size=20480):
    path = folder.file("fsmark.json")
    done = run(tool(), "run", "fsmark", "-s", str(size), "-n", str(files), "-L", "2", "-t",
               str(threads), "-d", directory, *words, "--json", path, timeout=120)
    with open(path) as file:
        workload = json.load(file)["workload"]
    # An old script reads the table by position: the fourth number of each row.
    lines = done.stdout.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("FSUse%")) + 1
    table = [float(line.split()[3]) for line in lines[begin:begin + 2]]
    ours = [row["files_per_s_sum"] for row in workload["iterations"]]
    check(all(abs(a - b) < 0.06 for a, b in zip(table, ours)), f"table {table}, JSON {ours}")
    return statistics.mean(ours)


def fsmark_rates():
    """As fast as the real fs_mark on a disk whose flush takes 20 ms, run in turn."""
    if not shutil.which("fs_mark"):
        raise Skip("fs_mark is not installed (package fsmark)")
    with Folder() as folder, Disk(folder, "slow", flush="20ms") as disk:
        for threads, files in ((1, 10), (4, 12), (8, 10)):
            pairs = []
            for turn in range(2):
                theirs = rate_of_fs_mark(f"{disk.mountpoint}/f{turn}", threads, files)
                ours = rate_of_ours(folder, disk.mountpoint, threads, files, "--processes")
                pairs.append((ours, theirs))
            # Each at its best: with few files the threads may begin out of step.
            ratio = max(ours for ours, _ in pairs) / max(theirs for _, theirs in pairs)
            print(f"{threads} threads: {pairs}, ratio {ratio:.3f}")
            check(0.9 <= ratio <= 1.1, f"{threads} threads: {ratio:.3f} of fs_mark's rate")


# Student's, two-sided 95 %, by the number of pairs.
T_QUANTILES = {5: 2.776, 10: 2.262, 20: 2.093}
OURS = ("threads", "processes")


def ratio_interval(rates, kind):
    logs = [math.log(ours / theirs) for ours, theirs in zip(rates[kind], rates["fs_mark"])]
    half = T_QUANTILES[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    middle = statistics.mean(logs)
    return math.exp(middle - half), math.exp(middle + half)


def fsmark_in_memory():
    """On a disk in memory the generator itself is what limits: at least as fast as the real
    fs_mark, run in turn."""
    if not shutil.which("fs_mark"):
        raise Skip("fs_mark is not installed (package fsmark)")
    with Folder() as folder:
        path, place = folder.file("disk"), folder.file("mnt-memory")
        with open(path, "w") as file:
            os.ftruncate(file.fileno(), 1 << 30)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", path)
        os.mkdir(place)
        run("mount", "-o", "loop", path, place)
        try:
            rates = {"fs_mark": [], "threads": [], "processes": []}
            for turn in range(20):
                rates["fs_mark"].append(rate_of_fs_mark(f"{place}/f{turn}", 4, 1000, size=4096))
                for kind, words in (("threads", ()), ("processes", ("--processes",))):
                    rates[kind].append(rate_of_ours(folder, place, 4, 1000, "--no-trace", *words,
                                                    size=4096))
                if turn + 1 in T_QUANTILES and all(
                        low >= 1 for low, _ in (ratio_interval(rates, kind) for kind in OURS)):
                    break
        finally:
            run("umount", place)
    for kind in OURS:
        low, high = ratio_interval(rates, kind)
        print(f"{kind}: {len(rates[kind])} pairs, {statistics.median(rates[kind]):.0f} files/s, "
              f"fs_mark {statistics.median(rates['fs_mark']):.0f}, ratio {low:.3f} to {high:.3f}")
        check(high >= 1, f"{kind}: surely slower than fs_mark: {low} to {high}")


def batch_modes():
    """Ways of syncing side by side: files by the load, syncfs by ftrace, each file's wait by the
    interval."""
    modes = ("fsync", "group", "syncfs-every=40ms")
    with Folder() as folder, Disk(folder, "slow", flush="5ms") as disk:
        with KernelEvents("ext4/ext4_sync_fs", "ext4/ext4_sync_file_enter") as kernel:
            report, text = batch(folder, disk, "-t", "1,4", "-n", "12", "-L", "2", "-s", "4k",
                                 "--sync", ",".join(modes))
            # Each call comes by twice: to begin, and to wait.
            whole = [at for at, _, rest in kernel.rows("ext4/ext4_sync_fs", disk.dev)
                     if rest == "wait 1"]
            files = kernel.times("ext4/ext4_sync_file_enter", disk.dev)
        print(text)
        check("devices by mode by threads" in text, "the table of modes is missing")
        check([(one["setting"], one["threads"]) for one in report["runs"]] ==
              [(mode, threads) for mode in modes for threads in (1, 4)], "not all modes ran")
        for one in report["runs"]:
            mode, made = one["setting"], 12 * 2 * one["threads"]
            calls = inside(whole if mode != "fsync" else files, one["windows"])
            print(f"{mode}, {one['threads']} threads: {one['files_per_s']:.1f} files/s, {calls} "
                  f"calls, a file takes {one['file_us']['p50'] / 1000:.1f} ms")
            check(sum(one["syncs"].values()) == calls, f"{one['syncs']}, ftrace: {calls}")
            check(one["file_us"]["count"] == made, f"{made} files: {one['file_us']}")
            check(mode != "fsync" or calls == made, f"{calls} calls for {made} files")
            check(mode != "group" or calls <= made, f"{calls} calls for {made} files")
            if mode.startswith("syncfs-every"):
                # A file a thread and interval: it waits for the next call, and for its end.
                check(abs(calls - 24) <= 4, f"{calls} calls in 2 loops of 12 intervals")
                rate = one["threads"] / 0.040
                check(0.8 * rate <= one["files_per_s"] <= rate * 1.02, f"{one['files_per_s']}")
                check(40e3 <= one["file_us"]["p50"] <= 65e3, f"a file takes {one['file_us']}")


def batch_unseen():
    """Without a hook what it sees is left out and said, not counted as none."""
    losses = {"ext4_sync_file_enter": ("syncs", "syncs_per_s", "syncs_per_commit", "fsync_us",
                                       "factors", "gain", "idle_us", "sync_parts_us"),
              "jbd2_end_commit": ("commits", "syncs_per_commit", "commits_per_flush", "commit_us",
                                  "factors", "average_commit_us"),
              "block_bio_queue": ("flushes", "flushes_per_s", "commits_per_flush", "factors",
                                  "syncs"),
              "block_rq_issue": ("flushes", "flushes_per_s", "commits_per_flush", "flush_us",
                                 "idle_us", "factors"),
              "jbd2_commit_locking": ("commit_handles_us",)}
    with Folder() as folder, Disk(folder, "slow", flush="3ms") as disk:
        for hook, lost in losses.items():
            report, text = batch(folder, disk, "-t", "1,3", "-n", "15", "-L", "2", "-s", "4k",
                                 "--disable-hook", hook)
            said = [note for note in report["notes"] if hook in note]
            print(f"{hook}: {said}")
            check(len(said) == 1 and "not seen" in said[0], f"not said: {report['notes']}")
            check(hook in " ".join(text.split()), f"the text does not say so: {text}")
            for one in report["runs"]:
                left = [key for key in lost if key in one]
                check(not left, f"without {hook}: {left} of {one}")
                check(one["files_per_s"] > 0 and one["proc_commits"] > 10 and
                      one["diskstats_flushes"] > 20, f"what was counted outside: {one}")
            check(not [v for v in report["verdicts"] if "x0.00" in v["text"]],
                  f"{report['verdicts']}")


def batch_beside():
    """Another batch's JSON beside ours: its rates as they stand there, their ratios to ours by the
    loops of both, and what is wrong with a file that is none."""
    words = ("-t", "1,4", "-n", "10", "-L", "3", "-s", "4k")
    with Folder() as folder, Disk(folder, "slow", flush="5ms") as disk:
        other, _ = batch(folder, disk, *words)
        other["host"] |= {"kernel": "6.1.0-elsewhere", "cpus": 64}
        other["load"]["files"] = 11
        path = folder.file("other.json")
        with open(path, "w") as file:
            json.dump(other, file)
        report, text = batch(folder, disk, *words, "--beside", path)
        print(text)
        lines = text.splitlines()
        begin = next(i for i, line in enumerate(lines) if line.startswith("Files/s: devices by"))
        row = next(line.split() for line in lines[begin:] if " 6.1.0-elsewhere " in line)
        flat = " ".join(text.split())
        for note in ("Linux 6.1.0-elsewhere on another host", "11 files of 4 KiB each; here 10"):
            check(note in flat, f"not said: {note}")
        beside = report["beside"][0]
        check(not beside["same_host"] and beside["host"]["cpus"] == 64, f"{beside}")
        for i, (theirs, ours) in enumerate(zip(other["runs"], report["runs"])):
            both = [[math.log(rate) for rate in one["files_per_s_of_loops"]]
                    for one in (theirs, ours)]
            ratio = math.exp(statistics.mean(both[0]) - statistics.mean(both[1]))
            check(row[3 + 2 * i:5 + 2 * i] ==
                  [f"{theirs['files_per_s']:.1f}", f"x{ratio:.2f}"], f"{row}: {ratio}")
            check(abs(beside["runs"][i]["to_ours"] - ratio) < 1e-6 * ratio, f"{beside['runs'][i]}")
            low, high = beside["runs"][i]["ci95"]
            check(low < ratio < high, f"{low} to {high}")
            about = f"Linux 6.1.0-elsewhere, {ours['threads']} thread"
            check(any(v["about"].startswith(about) for v in report["verdicts"]), f"no {about}")
        for name, content, said in (
                ("empty", "", "is empty"), ("text", "hello", "not JSON"), ("list", "[]", "object"),
                ("trace", '{"schema": "stalltrace/1"}', "its schema is"),
                ("none", json.dumps(other | {"runs": []}), "has no runs"),
                ("missing", None, "No such file"), (".", None, "is a directory")):
            bad = folder.file(name)
            if content is not None:
                with open(bad, "w") as file:
                    file.write(content)
            done = run(tool(), "batch", "--dir", disk.mountpoint, *words, "--beside", bad, ok=False)
            print(done.stderr.strip())
            check(done.returncode == 2 and said in done.stderr and
                  done.stderr.count("\n") == 1, f"{name}: exit {done.returncode}: {done.stderr}")


CASES = [batch_factors, batch_external_journal, fsmark_rates, fsmark_in_memory, batch_modes,
         batch_beside, batch_unseen]

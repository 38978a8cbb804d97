"""What `batch --try` turns: verdicts, every knob once, and all of it put back whatever happens."""

import math
import os
import signal
import statistics
import subprocess
import threading
import time

from case_batch import batch, inside
from kernel_events import KernelEvents, spans
from lab import Disk, Folder, check, run, tool, wait_until


def options_of(disk):
    with open("/proc/self/mountinfo") as file:
        for line in file:
            words = line.split()
            if words[4] == disk.mountpoint:
                return words[5], words[-1]
    return None


def knob_verdicts():
    """The batching sleep: not on a plain fsync's way, on a synchronous directory's."""
    words = ("-t", "4", "-n", "25", "-L", "3", "-s", "4k", "--try", "max_batch_time=0,15000")
    with Folder() as folder, Disk(folder, "slow", flush="3ms") as disk:
        before = options_of(disk)
        plain, _ = batch(folder, disk, *words)
        synchronous, text = batch(folder, disk, *words, "--sync", "dirsync")
        print(text)
        check(options_of(disk) == before, f"options: {options_of(disk)}, before {before}")
        for report, sleeps in ((plain, False), (synchronous, True)):
            off, on = report["runs"]
            check(off["knobs"] == {"max_batch_time": "0"}, f"knobs: {off['knobs']}")
            check(off["batch_wait_us"]["count"] == 0, f"slept with 0: {off['batch_wait_us']}")
            check((on["batch_wait_us"]["count"] > 0) == sleeps, f"{on['batch_wait_us']}")
            verdict = next(v for v in report["verdicts"]
                           if v["about"].startswith("max_batch_time=15000,"))
            print(verdict)
            low, high = verdict["ci95"]
            check(low <= verdict["effect"] <= high, f"{verdict}")
            if not sleeps:
                check("no effect" in verdict["text"], verdict["text"])
                continue
            # It sleeps with the handle open, and the commit waits for open handles.
            check(on["commit_handles_us"]["mean"] > off["commit_handles_us"]["mean"],
                  f"open handles: {on['commit_handles_us']}, {off['commit_handles_us']}")
            check(0 < on["batch_wait_us"]["mean"] <= 15000 * 1.5, f"{on['batch_wait_us']}")


def knobs_put_back():
    """Ctrl-C puts them back at once, kill -9 leaves it to the next start."""
    words = ("-t", "2", "-n", "30", "-L", "9", "-s", "4k", "--try", "max_batch_time=7,8", "--try",
             "barrier=0,1", "--quiet")
    with Folder() as folder, Disk(folder, "slow", flush="2ms") as disk:
        before = options_of(disk)
        for stop in (signal.SIGINT, signal.SIGKILL):
            process = subprocess.Popen([tool(), "batch", "--dir", disk.mountpoint, *words],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       text=True)
            wait_until(lambda: options_of(disk) != before, 30, "no knob was turned")
            process.send_signal(stop)
            _, err = process.communicate(timeout=60)
            if stop == signal.SIGINT:
                check(process.returncode == 0, f"exit {process.returncode}: {err}")
            else:
                check(options_of(disk) != before, "killed, and yet it put them back?")
                time.sleep(1)
                done = run(tool(), "batch", "--dir", disk.mountpoint, "-t", "1", "-n", "5", "-L",
                           "1", "--quiet")
                check("put back" in done.stderr, f"it says nothing: {done.stderr}")
            check(options_of(disk) == before, f"options: {options_of(disk)}, before {before}")
            left = [name for name in os.listdir(disk.mountpoint) if name != "lost+found"]
            check(not left or stop == signal.SIGKILL, f"left behind: {left}")


LOCKING, FLUSHING = "jbd2/jbd2_commit_locking", "jbd2/jbd2_commit_flushing"
# Student's t, two-sided: all four comparisons (two values by two numbers of threads) hold together
# with 95 %, so each with 98.75 %. By degrees of freedom: one less than the loops.
T_OF_FOUR = {4: 4.315, 9: 3.111, 19: 2.759}


def check_interval(verdict, run, reference, loops):
    """The verdict's ratio, interval and words, from the loops' rates."""
    logs = [math.log(a / b) for a, b in zip(run, reference)]
    middle = statistics.mean(logs)
    half = T_OF_FOUR[loops - 1] * statistics.stdev(logs) / math.sqrt(loops)
    low, high = math.exp(middle - half), math.exp(middle + half)
    ours = [verdict["effect"], *verdict["ci95"], verdict["comparisons"]]
    check(all(abs(x - y) < 1e-3 * y for x, y in zip(ours, [math.exp(middle), low, high, 4])),
          f"from the loops' rates {math.exp(middle)}, {low} to {high}: {verdict}")
    if low > 0.95 and high < 1.05:
        words = ": no effect ("
    elif low > 1 or high < 1:
        words = "times as many files a second"
    else:
        words = "no effect that these loops could show"
    check(words in verdict["text"], f"{low} to {high} means '{words}': {verdict['text']}")


def batch_time(folder, disk, sync, places, loops):
    """max_batch_time on a disk whose commits take longer than 15 ms, and shorter than 30. Returns
    the verdicts by value and threads."""
    words = ("-t", "1,4", "-n", "30", "-L", str(loops), "-s", "4k", "--sync", sync, "--try",
             "max_batch_time=0,15000,30000")
    before = options_of(disk)
    with KernelEvents(LOCKING, FLUSHING) as kernel:
        kernel.only(disk)
        report, text = batch(folder, disk, *words, places=places, timeout=900)
        # The journal thread, one commit at a time.
        locked = spans(kernel.rows(LOCKING, disk.dev), kernel.rows(FLUSHING, disk.dev))
    check(options_of(disk) == before, f"options: {options_of(disk)}, before {before}")
    if loops == LOOPS[0]:
        print(text)
    waits, rates, verdicts = {}, {}, {}
    for one in report["runs"]:
        value, slept = int(one["knobs"]["max_batch_time"]), one["batch_wait_us"]
        mine = [end - begin for begin, end, _ in locked if inside([end], one["windows"])]
        outside, ours = statistics.mean(mine) / 1000, one["commit_handles_us"]["mean"]
        print(f"{sync}, {value} us, {one['threads']} threads: {one['files_per_s']:.1f} files/s, "
              f"slept {slept['count']} x {slept.get('mean', 0):.0f} us, commit.handles "
              f"{ours:.0f} us, from outside {outside:.0f} us")
        check(abs(ours - outside) < 50 + 0.02 * outside, "open handles, from outside")
        # A commit that waits for a sleeper waits for milliseconds; what else is in the way, a
        # handle's holder that waits for a CPU, is in few commits.
        waits[value, one["threads"]] = statistics.median(mine) / 1000 if sync == "fsync" else outside
        rates[value, one["threads"]] = one["files_per_s_of_loops"]
        sleeps = sync == "dirsync" and value > 0
        check((slept["count"] > 0) == sleeps, f"{sync}, {value} us: {slept}")
        check(not sleeps or 0 < slept["mean"] <= value * 1.1, f"at most {value} us: {slept}")
        # A thread alone is the last who synced, but for the first time in each of the loops: then
        # nobody else would join.
        check(one["threads"] > 1 or slept["count"] <= loops, f"alone, and slept: {slept}")
    for (value, threads), mine in rates.items():
        if value == 0:
            continue
        longer = waits[value, threads] - waits[0, threads]
        check(sync != "fsync" or abs(longer) < 100,
              f"commits wait {longer:.0f} us longer for open handles: {waits}")
        # A sleep as long as a commit is what the next one waits for; one of 15 ms has mostly ended
        # by then, for it begins with the commit before, which takes 22.
        check(sync == "fsync" or threads == 1 or value == 15000 or longer >= 500,
              f"commits wait only {longer:.0f} us longer for open handles: {waits}")
        about = f"max_batch_time={value}, {threads} thread{'s' if threads > 1 else ''}"
        verdict = next(v for v in report["verdicts"] if v["about"] == about)
        print(f"{about}, {loops} loops: {verdict['text']}")
        check_interval(verdict, mine, rates[0, threads], loops)
        verdicts[value, threads] = verdict
    return verdicts


LOOPS = (5, 10, 20)  # more, where the ones before could not tell


def surely_within(verdict, most):
    low, high = verdict["ci95"]
    return low > 1 - most and high < 1 + most


def batch_time_fsync():
    """The sleep is not on a plain fsync's way. In one of twenty such tests one of the four
    comparisons finds an effect all the same: then, too, more loops have to say otherwise."""
    with Folder() as folder, Disk(folder, "slow", flush="10ms") as disk:
        for loops in LOOPS:
            verdicts = batch_time(folder, disk, "fsync", ("",), loops)
            if all(surely_within(verdict, 0.1) for verdict in verdicts.values()):
                break
    for verdict in verdicts.values():
        check("no effect" in verdict["text"], verdict["text"])


def batch_time_dirsync():
    """In synchronous directories it is, with the handle open: everybody's commit waits for it. What
    that does to the rate is for the loops to say (the sleepers' time, against the commits that they
    share); a thread alone sleeps once a loop, 15 or 23 ms of 0.7 s."""
    places = ("a", "b", "c", "d")
    with Folder() as folder, Disk(folder, "slow", flush="10ms") as disk:
        for place in places:
            os.mkdir(f"{disk.mountpoint}/{place}")
        for loops in LOOPS:
            verdicts = batch_time(folder, disk, "dirsync", places, loops)
            if all(surely_within(verdict, 0.15) for (_, threads), verdict in verdicts.items()
                   if threads == 1):
                break
    for (value, threads), verdict in verdicts.items():
        check("open handles" in verdict["text"], verdict["text"])
        low, high = verdict["ci95"]
        check(threads > 1 or (low <= 1.0 and high >= 0.95),
              f"alone, {value} us are 2 to 3 % of its time: {verdict}")


# What is tried of each knob, the one that the disk has first.
TRIALS = {"max_batch_time": ("15000", "30000"), "min_batch_time": ("0", "5000"),
          "commit": ("5", "1"), "barrier": ("1", "0"), "lazytime": ("0", "1"),
          "dioread_nolock": ("1", "0"), "data": ("ordered", "journal", "writeback"),
          "fast_commit": ("0", "1"), "write_cache": ("write back", "write through"),
          "scheduler": ("none", "mq-deadline"), "wbt_lat_usec": ("0", "2000")}
SHOWN = {"barrier": ("nobarrier", "barrier"), "lazytime": ("", "lazytime"),
         "dioread_nolock": ("dioread_lock", "dioread_nolock")}


def value_of(disk, knob):
    """As the kernel has it now; None while it is not mounted."""
    queue = f"/sys/block/{disk.short}/queue/{knob}"
    if os.path.exists(queue):
        with open(queue) as file:
            text = file.read().strip()
        return text[text.index("[") + 1:text.index("]")] if "[" in text else text
    if knob == "fast_commit":  # no option: a feature in the super block
        return "1" if " fast_commit" in run("dumpe2fs", "-h", disk.device, ok=False).stdout else "0"
    try:
        with open(f"/proc/fs/ext4/{disk.short}/options") as file:
            words = file.read().split() + options_of(disk)[1].split(",")
    except (OSError, TypeError):
        return None
    if knob in SHOWN:
        off, on = SHOWN[knob]
        return "1" if on in words and (not off or off not in words) else "0"
    return next((word.split("=")[1] for word in words if word.startswith(f"{knob}=")), None)


class Watch(threading.Thread):
    """The values that a knob has had meanwhile."""

    def __init__(self, disk, knob):
        super().__init__()
        self.disk, self.knob, self.seen, self.done = disk, knob, set(), threading.Event()

    def run(self):
        while not self.done.wait(0.005):
            self.seen.add(value_of(self.disk, self.knob))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()


def every_knob():
    """Each is really turned, by the kernel's own word, its effect is there, and it is put back."""
    with Folder() as folder, Disk(folder, "slow", flush="2ms") as disk:
        for knob, values in TRIALS.items():
            before = {name: value_of(disk, name) for name in TRIALS}
            check(before[knob] == values[0], f"{knob} is {before[knob]} at first")
            with Watch(disk, knob) as watch:
                report, _ = batch(folder, disk, "-t", "2", "-n", "15", "-L", "2", "-s", "4k",
                                  "--try", f"{knob}={','.join(values)}")
            after = {name: value_of(disk, name) for name in TRIALS}
            check(after == before, f"{knob}: {after}, before {before}")
            check(set(values) <= watch.seen, f"{knob}: only {watch.seen} were seen")
            check([one["knobs"][knob] for one in report["runs"]] == list(values), f"{knob}: runs")
            last = report["runs"][-1]
            verdicts = [v for v in report["verdicts"] if v["about"].startswith(f"{knob}=")]
            check(len(verdicts) == len(values) - 1 and all(len(v["ci95"]) == 2 for v in verdicts),
                  f"{knob}: verdicts {verdicts}")
            for verdict in verdicts:
                print(f"{verdict['about']}: {verdict['text']}")
            # What the kernel's own counters say of it.
            if knob in ("barrier", "write_cache"):
                check(last["diskstats_flushes"] == 0 and "factors" not in last,
                      f"{knob}={values[-1]}: {last['diskstats_flushes']} flushes")
            if knob == "fast_commit":
                check(last["syncs"]["fast_commit"] > 0, f"no fast commit: {last['syncs']}")


def remounted_after_a_kill():
    """Killed while the file system was unmounted to turn a knob: the next start mounts it as it
    was."""
    with Folder() as folder, Disk(folder, "slow", flush="20ms") as disk:
        before, fast = options_of(disk), value_of(disk, "fast_commit")
        process = subprocess.Popen(
            [tool(), "batch", "--dir", disk.mountpoint, "-t", "1", "-n", "2", "-L", "99", "--quiet",
             "--try", "fast_commit=0,1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while options_of(disk) is not None:
            check(time.monotonic() < deadline and process.poll() is None, "it is never unmounted")
        process.kill()
        process.wait()
        wait_until(lambda: run("pgrep", "tune2fs", ok=False).returncode != 0, 10, "tune2fs")
        check(options_of(disk) is None, "killed too late: it is mounted")
        other = folder.file("other")
        os.mkdir(other)
        done = run(tool(), "batch", "--dir", other, ok=False)
        print(done.stderr.strip())
        check("put back" in done.stderr, f"it says nothing: {done.stderr}")
        check(options_of(disk) == before and value_of(disk, "fast_commit") == fast,
              f"options: {options_of(disk)}, before {before}")


CASES = [knob_verdicts, knobs_put_back, batch_time_fsync, batch_time_dirsync, every_knob,
         remounted_after_a_kill]

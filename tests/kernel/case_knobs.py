"""What `batch --try` turns: verdicts, every knob once, and all of it put back whatever happens."""

import os
import signal
import statistics
import subprocess
import threading
import time

from case_batch import batch, inside
from kernel_events import KernelEvents, near, spans
from lab import Disk, Failure, Folder, check, run, tool, wait_until


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


def batch_time(sync, places, least):
    """max_batch_time on a disk whose commits take longer than 15 ms, and shorter than 30. `least`:
    by how much a commit that waits for a sleeper's handle waits longer, in us."""
    words = ("-t", "1,4", "-n", "30", "-L", "5", "-s", "4k", "--sync", sync, "--try",
             "max_batch_time=0,15000,30000")
    with Folder() as folder, Disk(folder, "slow", flush="10ms") as disk:
        before = options_of(disk)
        for place in filter(None, places):
            os.mkdir(f"{disk.mountpoint}/{place}")
        with KernelEvents(LOCKING, FLUSHING) as kernel:
            report, text = batch(folder, disk, *words, places=places)
            # The journal thread, one commit at a time.
            locked = spans(kernel.rows(LOCKING, disk.dev), kernel.rows(FLUSHING, disk.dev))
        check(options_of(disk) == before, f"options: {options_of(disk)}, before {before}")
    print(text)
    waits = {}
    for one in report["runs"]:
        value, slept = int(one["knobs"]["max_batch_time"]), one["batch_wait_us"]
        mine = [end - begin for begin, end, _ in locked if inside([end], one["windows"])]
        outside, ours = statistics.mean(mine) / 1000, one["commit_handles_us"]["mean"]
        print(f"{sync}, {value} us, {one['threads']} threads: {one['files_per_s']:.1f} files/s, "
              f"slept {slept['count']} x {slept.get('mean', 0):.0f} us, commit.handles "
              f"{ours:.0f} us, from outside {outside:.0f} us")
        check(abs(ours - outside) < 50 + 0.02 * outside, "open handles, from outside")
        waits[value, one["threads"]] = outside
        sleeps = sync == "dirsync" and value > 0
        check((slept["count"] > 0) == sleeps, f"{sync}, {value} us: {slept}")
        check(not sleeps or 0 < slept["mean"] <= value * 1.1, f"at most {value} us: {slept}")
        # A thread alone is the last who synced, but for the first time in each of the 5 loops: then
        # nobody else would join.
        check(one["threads"] > 1 or slept["count"] <= 5, f"alone, and slept: {slept}")
    for value in (15000, 30000):
        longer = waits[value, 4] - waits[0, 4]
        check(longer >= least, f"commits wait {longer:.0f} us longer for open handles: {waits}")
    return {verdict["about"]: verdict for verdict in report["verdicts"]
            if verdict["about"].startswith("max_batch_time=")}


def batch_time_fsync():
    """The sleep is not on a plain fsync's way."""
    for about, verdict in batch_time("fsync", ("",), -100).items():
        print(f"{about}: {verdict['text']}")
        check("no effect" in verdict["text"], verdict["text"])


def batch_time_dirsync():
    """In synchronous directories it is, with the handle open: everybody's commit waits for it."""
    for about, verdict in batch_time("dirsync", ("a", "b", "c", "d"), 500).items():
        print(f"{about}: {verdict['text']}")
        check("open handles" in verdict["text"] and len(verdict["ci95"]) == 2, f"{verdict}")
        # Alone it sleeps once a loop, 15 ms of 0.7 s.
        check(not about.endswith(" 1 thread") or abs(verdict["effect"] - 1) < 0.1, f"{verdict}")


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

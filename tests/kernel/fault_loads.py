"""Loads of the fault rows, and what their reports have to name."""

import ctypes
import mmap
import os
import re
import time

import aio
from faults import aligned, share_named, tid_of
from lab import SECOND, Skip, monotonic_ns, run


def written_file(folder, name, size):
    """A file whose blocks are written, so that overwriting it allocates nothing."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(b"w" * size)
        file.flush()
        os.fsync(file.fileno())
    return path


def appender(calls, path, pause=0.0, size=4096, sync=os.fsync):
    """Appends and syncs."""
    file = calls.time("open", os.open, path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    data = b"a" * size
    while calls.going():
        calls.time("write", os.write, file, data)
        calls.time(sync.__name__, sync, file)
        time.sleep(pause)


def resyncer(calls, path, pause=0.0):
    """Overwrites and syncs: the time of change makes a commit, and nothing is allocated."""
    file = os.open(path, os.O_RDWR)
    data = b"r" * 4096
    while calls.going():
        calls.time("write", os.pwrite, file, data, 0)
        calls.time("fsync", os.fsync, file)
        time.sleep(pause)


def overwriter(calls, path, pause=0.005):
    """Direct 4 KiB overwrites of a written file: what can hold them up is the time of change."""
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    buffer = aligned(4096)
    while calls.going():
        calls.time("write", os.pwrite, file, buffer, 0)
        time.sleep(pause)


def submitter(calls, path, pause=0.01, most=16):
    """The same by AIO, many in flight: the submission must not wait for the device."""
    ring = aio.Ring(os.open(path, os.O_RDWR | os.O_DIRECT), aligned(4096))
    prepared = ring.prepare(aio.WRITE, [0])
    while calls.going():
        calls.time("io_submit", ring.submit, prepared)
        time.sleep(pause)
        if ring.flying >= most:
            ring.reap()
    ring.reap()


def small_appender(calls, path, pause=0.02, size=100):
    """Buffered, never synced."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    data = b"b" * size
    while calls.going():
        calls.time("write", os.write, file, data)
        time.sleep(pause)


def reader_with_atime(calls, path, pause=0.05):
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = aligned(4096)
    while calls.going():
        calls.time("read", os.preadv, file, [buffer], 0)
        time.sleep(pause)


def renamer(calls, folder, pause=0.01):
    one, two = (os.path.join(folder, f"n{os.getpid()}{end}") for end in "ab")
    os.close(calls.time("open", os.open, one, os.O_WRONLY | os.O_CREAT))
    while calls.going():
        calls.time("rename", os.rename, one, two)
        one, two = two, one
        time.sleep(pause)


def data_owner(calls, folder, size):
    """Allocates blocks for much data and leaves the writing to the next commit."""
    data = b"d" * size
    turn = 0
    while calls.going():
        path = os.path.join(folder, f"d{turn % 4}")
        turn += 1
        file = calls.time("open", os.open, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        calls.time("write", os.write, file, data)
        os.close(file)
        time.sleep(0.05)


def folder_maker(calls, folder, number):
    turn = 0
    while calls.going():
        calls.time("mkdir", os.mkdir, f"{folder}/m{number}-{turn}")
        turn += 1


def burster(calls, cpu, length, pause):
    """Bursts of work of ordinary priority on one CPU."""
    os.sched_setaffinity(0, {cpu})
    while calls.going():
        start = monotonic_ns()
        while monotonic_ns() - start < length * SECOND:
            pass
        calls.note("burst", start)
        time.sleep(pause)


def folder_worker(calls, folder, pause=0.01):
    """Every call that changes a folder."""
    base = f"{folder}/d{os.getpid()}"
    while calls.going():
        calls.time("mkdir", os.mkdir, base)
        time.sleep(pause)
        os.close(calls.time("open", os.open, f"{base}/one", os.O_WRONLY | os.O_CREAT))
        calls.time("link", os.link, f"{base}/one", f"{base}/two")
        time.sleep(pause)
        calls.time("rename", os.rename, f"{base}/two", f"{base}/three")
        time.sleep(pause)
        calls.time("unlink", os.unlink, f"{base}/one")
        time.sleep(pause)
        calls.time("unlink", os.unlink, f"{base}/three")
        time.sleep(pause)
        calls.time("rmdir", os.rmdir, base)
        time.sleep(pause)


def attribute_worker(calls, path, pause=0.01):
    """Every call that changes an inode."""
    file = os.open(path, os.O_RDWR)
    turn = 0
    while calls.going():
        turn += 1
        calls.time("setattr", os.fchmod, file, 0o600 + turn % 2)
        time.sleep(pause)
        calls.time("xattr", os.setxattr, path, "user.turn", str(turn).encode())
        time.sleep(pause)
        calls.time("truncate", os.ftruncate, file, turn % 5 * 4096)
        time.sleep(pause)
        calls.time("fallocate", os.posix_fallocate, file, 65536, 65536)
        time.sleep(pause)
        calls.time("setattr", os.utime, path)
        time.sleep(pause)


def sync_worker(calls, path, pause=0.01):
    """Every call that waits for data to be written, but fsync and sync."""
    file = os.open(path, os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(file, 65536)
    turn = 0
    while calls.going():
        turn += 1
        data = bytes([turn % 256]) * 4096
        calls.time("write", os.pwrite, file, data, 8192)
        calls.time("sync_file_range", libc.sync_file_range, file, ctypes.c_long(0),
                   ctypes.c_long(0), 7)
        time.sleep(pause)
        calls.time("fault", memory.__setitem__, 0, turn % 256)
        calls.time("msync", memory.flush)
        time.sleep(pause)
        calls.time("write", os.pwrite, file, data, 8192)
        calls.time("fdatasync", os.fdatasync, file)
        time.sleep(pause)
        calls.time("write", os.pwrite, file, data, 8192)
        calls.time("syncfs", libc.syncfs, file)
        time.sleep(pause)


def on_cpu(calls, cpu, function, *arguments):
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    function(calls, *arguments)


# Files to be unlinked in many small groups: a holder that reads cold metadata in its handles.
COLD = {"size": "2g", "mkfs": ("-O", "^flex_bg", "-g", "8192", "-I", "256"),
        "options": "no_prefetch_block_bitmaps"}
GROUPS = 60


def fill_groups(disk, per_group=2):
    """Files in a folder of each group, then a mount that has read none of it."""
    for number in range(GROUPS):
        folder = f"{disk.mountpoint}/g{number:02}"
        os.mkdir(folder)
        for file in range(per_group):
            with open(f"{folder}/f{file}", "wb") as target:
                target.write(b"c" * 16384)
    for number in range(4):
        written_file(disk.mountpoint, f"w{number}", 65536)
    remount(disk)
    for number in range(4):
        with open(f"{disk.mountpoint}/w{number}", "rb") as file:
            file.read()
    for number in range(GROUPS):
        for file in range(per_group):
            os.stat(f"{disk.mountpoint}/g{number:02}/f{file}")


def remount(disk):
    run("umount", disk.mountpoint)
    words = ["-o", disk.options] if disk.options else []
    run("mount", *words, disk.device, disk.mountpoint)


def unlinker(calls, folder, order, cpu=None, idle=False, pause=0.02):
    """Deletes files: freeing their blocks and inodes reads bitmaps, inside a handle."""
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    if idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    for path in order:
        if not calls.going():
            return
        calls.time("unlink", os.unlink, os.path.join(folder, path))
        time.sleep(pause)


def cold_order(rng, per_group=2):
    groups = list(range(GROUPS))
    rng.shuffle(groups)
    return [f"g{number:02}/f{file}" for number in groups for file in range(per_group)]


def journal_victims(watch, disk, cpu=None):
    """Two whose time of change needs a handle, two whose syncs need commits."""
    return ([watch.worker(on_cpu, cpu, overwriter, f"{disk.mountpoint}/w{number}", 0.01)
             for number in (0, 1)]
            + [watch.worker(on_cpu, cpu, resyncer, f"{disk.mountpoint}/w{number}", 0.02)
               for number in (2, 3)])


class MemoryGroup:
    """A memory cgroup (v1 or v2) with a limit, that never kills."""

    def __init__(self, mib):
        self.name, self.bytes = f"kt-{os.getpid()}", mib << 20
        legacy = os.path.isdir("/sys/fs/cgroup/memory")
        self.path = f"/sys/fs/cgroup/{'memory/' if legacy else ''}{self.name}"
        self.limits = ([("memory.limit_in_bytes", self.bytes), ("memory.oom_control", 1)] if legacy
                       else [("memory.max", self.bytes)])

    def __enter__(self):
        os.mkdir(self.path)
        for file, value in self.limits:
            self.write(file, value)
        return self

    def write(self, file, value):
        with open(f"{self.path}/{file}", "w") as target:
            target.write(str(value))

    def join(self):
        self.write("cgroup.procs", os.getpid())

    def __exit__(self, *_):
        os.rmdir(self.path)


class CpuGroup:
    """A cgroup (v2) with a CPU quota."""

    ROOT = "/sys/fs/cgroup"

    def __init__(self, quota_ms, period_ms):
        self.path = f"{self.ROOT}/kt-{os.getpid()}-cpu"
        self.limit = f"{quota_ms * 1000} {period_ms * 1000}"

    def __enter__(self):
        controllers = f"{self.ROOT}/cgroup.controllers"
        if not os.path.exists(controllers) or "cpu" not in open(controllers).read().split():
            raise Skip(f"no cgroup v2 with the cpu controller at {self.ROOT}")
        with open(f"{self.ROOT}/cgroup.subtree_control", "w") as target:
            target.write("+cpu")
        os.mkdir(self.path)
        if not os.path.exists(f"{self.path}/cpu.max"):
            os.rmdir(self.path)
            raise Skip("the kernel has no CPU quotas (CONFIG_CFS_BANDWIDTH)")
        with open(f"{self.path}/cpu.max", "w") as target:
            target.write(self.limit)
        return self

    def join(self):
        with open(f"{self.path}/cgroup.procs", "w") as target:
            target.write(str(os.getpid()))

    def stopped_ns(self):
        """For how long the kernel says it has been stopped so far."""
        with open(f"{self.path}/cpu.stat") as file:
            counts = dict(line.split() for line in file)
        return int(counts["throttled_usec"]) * 1000

    def __exit__(self, *_):
        os.rmdir(self.path)


def quota_stops_in_kernel():
    """Since Linux 6.18 a task leaves the kernel before its quota stops it."""
    release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    return release < (6, 18)


def allocator(calls, group, path, size):
    """Gives a file blocks and takes them away again, most of the time with a handle open."""
    group.join()
    file = calls.time("open", os.open, path, os.O_RDWR | os.O_CREAT)
    while calls.going():
        calls.time("fallocate", os.posix_fallocate, file, 0, size)
        calls.time("truncate", os.ftruncate, file, 0)


def dirtier(calls, group, path):
    """Fills the group with dirty pages of a slow disk that has no part in this."""
    group.join()
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    data, turn = b"x" * 65536, 0
    while calls.going():
        turn += 1
        try:
            os.pwrite(file, data, turn % 4096 * len(data))
        except OSError:  # no memory left
            pass
        time.sleep(0.001)


def squeezed_maker(calls, group, folder):
    """Makes folders; each takes memory while its handle is open."""
    group.join()
    turn = 0
    while calls.going():
        turn += 1
        try:
            calls.time("mkdir", os.mkdir, f"{folder}/m{turn}")
        except OSError:
            pass
        time.sleep(0.001)


# What a row wants to be named.
JOURNAL_WAITS = ("journal.locked", "journal.credits", "journal.commit", "journal.buffer",
                 "journal.space", "journal.fastcommit", "journal.barrier")


def in_journal(part, _path):
    return part["class"] in JOURNAL_WAITS


def says(path, *patterns):
    """Every pattern is in what the chain says of itself."""
    text = " ".join([cause.get("text") or "" for cause in path]
                    + [" ".join(cause.get("evidence") or []) for cause in path])
    return all(re.search(pattern, text) for pattern in patterns)


def has(path, kind, **fields):
    return any(cause["kind"] == kind and all(cause.get(key) == value
               for key, value in fields.items()) for cause in path)


def root_is(path, part, *causes):
    root = (path[-1] if path else part).get("root") or {}
    return root.get("cause") in causes


class Named:
    """Collects what a row found named."""

    def __init__(self, report, victims):
        self.report, self.victims = report, {tid_of(one) for one in victims}
        self.words, self.failures = [], []

    def share(self, what, of, wanted, least=0.97, when=None, seconds=0.0):
        share, ns = share_named(self.report, self.victims, of, wanted, when)
        self.words.append(f"{what} {100 * share:.1f} % of {ns / 1e9:.2f} s")
        if share < least:
            self.failures.append(f"{what}: {100 * share:.1f} %, wanted are {100 * least:g} %")
        if ns < seconds * 1e9:
            self.failures.append(f"{what}: {ns / 1e9:.3f} s of it, {seconds:g} s were provoked")

    def result(self):
        return ", ".join(self.words), self.failures


def class_us(report, victims, *classes):
    tids = {tid_of(one) for one in victims}
    return sum(part["us"] for stall in report.stalls if stall["tid"] in tids
               for part in stall["parts"] if part["class"] in classes)

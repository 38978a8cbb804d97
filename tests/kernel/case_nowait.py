"""Jobs with `nowait=1`: why calls were refused, each reason against what the kernel shows elsewhere."""

import json
import mmap
import os
import re
import threading

from lab import Disk, Folder, check, run, tool
from recorder import SYSCALLS, Instance, monotonic_ns, mount_tracefs

MIB = 1 << 20
EVENT = re.compile(r".*?-(\d+) +(?:\(.*?\) +)?\[\d+\] .*?: (\w+): (.*)")


def nowait_job(folder, disk, name, *lines, options=()):
    """The job's `nowait`, and the whole report."""
    path, out = folder.file(f"{name}.fio"), folder.file(f"{name}.json")
    with open(path, "w") as file:
        file.write("\n".join((f"[{name}]", f"filename={name}", "bs=4k", "direct=1", "nowait=1",
                              "allow_file_create=0", *lines)) + "\n")
    run(tool(), "run", "job", path, "--dir", disk.mountpoint, "--json", out, "--quiet", *options,
        timeout=90)
    with open(out) as file:
        report = json.load(file)
    nowait = report["workload"]["jobs"][0]["nowait"]
    print(f"{name}: {nowait}", flush=True)
    check(sum(nowait["refused_why"].values()) == nowait["refused"], f"{nowait}")
    return nowait, report


def only(nowait, why):
    """All that was refused (and looked at: the first 256) was so for one reason."""
    told = {key: count for key, count in nowait["refused_why"].items() if key != "not_looked_at"}
    check(nowait["refused"] > 0 and set(told) == {why}, f"not only {why}: {nowait}")


def make(disk, name, size, written=True):
    """With the mark of a load's own file: others are never overwritten."""
    path = os.path.join(disk.mountpoint, name)
    with open(path, "wb") as file:
        if written:
            file.write(os.urandom(size))
        else:
            file.truncate(size)
        file.flush()
        os.setxattr(file.fileno(), "user.stalltrace.load", b"1")
        os.fsync(file.fileno())
    return path


def drop_pages(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_pages(path):
    return int(run("fincore", "--bytes", "--noheadings", "--output", "PAGES", path).stdout)


def lines_of(instance, folder):
    path = folder.file("trace.txt")
    with open(path, "w") as target:
        instance.copy_to(target)
    check(instance.lost() == 0, "the trace lost events")
    with open(path) as file:
        return file.readlines()


def slept_in(lines, number):
    """Calls in which the thread went to sleep, by the kernel's own trace."""
    inside, slept = set(), set()
    count = 0
    for line in lines:
        found = EVENT.match(line)
        if not found:
            continue
        tid, event, rest = int(found[1]), found[2], found[3]
        if event == "sys_enter" and f"NR {number} " in rest:
            inside.add(tid)
            slept.discard(tid)
        elif event == "sys_exit" and f"NR {number} " in rest:
            inside.discard(tid)
            count += tid in slept
            slept.discard(tid)
        elif event == "sched_switch" and tid in inside and not re.search(r"prev_state=R", rest):
            slept.add(tid)
    return count


class FewRequests:
    """The disk's queue has four, and the kernel's own trace is on."""

    def __init__(self, disk):
        self.path = f"/sys/block/{disk.short}/queue/nr_requests"
        major, minor = (int(word) for word in disk.dev.split(":"))
        self.dev = major << 20 | minor

    def __enter__(self):
        with open(self.path) as file:
            self.before = file.read().strip()
        with open(self.path, "w") as file:
            file.write("4")
        mount_tracefs()
        self.instance = Instance(f"kt-{os.getpid()}-nowait", 16384)
        self.instance.enable("block/block_bio_complete", f"dev == {self.dev}")
        return self.instance

    def __exit__(self, *_):
        self.instance.write("events/enable", "0")
        os.rmdir(self.instance.path)
        with open(self.path, "w") as file:
            file.write(self.before)


def nowait_blocked(folder, disk):
    """Four requests for sixteen writes of a file: iomap lets them wait all the same."""
    drop_pages(make(disk, "blocked", 8 * MIB))
    with FewRequests(disk) as instance:
        number = SYSCALLS["io_submit"]
        for side in ("enter", "exit"):
            instance.enable(f"raw_syscalls/sys_{side}", f"id == {number}")
        instance.enable("sched/sched_switch", 'prev_comm ~ "blocked*"')
        nowait, _ = nowait_job(folder, disk, "blocked", "rw=randwrite", "ioengine=libaio",
                               "iodepth=16", "size=8m", "time_based", "runtime=1500ms")
        lines = lines_of(instance, folder)
    theirs = slept_in(lines, number)
    print(f"  blocked {nowait['blocked']}, by the kernel's trace {theirs}")
    check(theirs > 50 and abs(nowait["blocked"] - theirs) <= 0.02 * theirs + 1,
          f"{nowait['blocked']} calls blocked, the trace {theirs}")
    check(nowait["blocked_longest_us"] > 2000, f"{nowait}")


def nowait_queue(folder, disk):
    """A raw device's bios carry the flag: the block layer refuses what finds no request."""
    out = folder.file("queue.json")
    with FewRequests(disk) as instance:
        run(tool(), "trace", "--dev", disk.device, "--json", out, "--quiet", "--", "fio",
            "--name=queue", f"--filename={disk.device}", "--ioengine=libaio", "--iodepth=16",
            "--rw=randwrite", "--bs=4k", "--direct=1", "--nowait=1", "--size=32m", "--thread",
            "--time_based", "--runtime=1500ms", "--ignore_error=,EAGAIN", "--output=/dev/null",
            ok=False, timeout=90)
        lines = lines_of(instance, folder)
    with open(out) as file:
        report = json.load(file)
    ours = sum(device.get("bios_refused", 0) for device in report["devices"])
    theirs = sum(1 for line in lines if "block_bio_complete:" in line and "[-11]" in line)
    print(f"bios refused: {ours}, by the kernel's trace {theirs}")
    check(theirs > 20 and abs(ours - theirs) <= 0.02 * theirs, f"{ours}, the trace {theirs}")
    unfinished = sum(1 for kind in report["async"] for one in kind["slow"]
                     if one["duration_us"] > 1e6)
    check(unfinished == 0, f"{unfinished} refused requests never ended")


def nowait_pages(folder, disk):
    """Pages in the cache: a write has to drop them first, a read only writes out what is dirty."""
    path = make(disk, "pages", MIB)
    check(cached_pages(path) == 256, f"cached: {cached_pages(path)}")
    wanted = ("ioengine=pvsync2", "size=1m", "invalidate=0")
    write, _ = nowait_job(folder, disk, "pages", "rw=write", *wanted)
    check(write["refused"] == write["calls"] == 256, f"{write}")
    only(write, "cached_pages")
    check(cached_pages(path) == 256, f"dropped all the same: {cached_pages(path)}")
    read, _ = nowait_job(folder, disk, "pages", "rw=read", *wanted)
    check(read["refused"] == 0, f"clean pages refuse no read: {read}")
    with open(path, "r+b") as file:
        file.write(os.urandom(MIB))
    dirty, _ = nowait_job(folder, disk, "pages", "rw=read", *wanted)
    only(dirty, "cached_pages")


def nowait_extents(folder, disk):
    """Holes and what lies beyond the end are refused; a reserved extent is not (6.3 and later)."""
    path = make(disk, "hole", MIB, written=False)
    hole, _ = nowait_job(folder, disk, "hole", "rw=randwrite", "ioengine=pvsync2", "size=1m")
    only(hole, "hole")
    check(hole["refused"] == hole["calls"], f"{hole}")
    check(os.stat(path).st_blocks == 0, "a refused write allocated blocks")
    read, _ = nowait_job(folder, disk, "hole", "rw=randread", "ioengine=pvsync2", "size=1m")
    check(read["refused"] == 0, f"a hole refuses no read: {read}")
    path = make(disk, "reserved", MIB, written=False)
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, MIB)
        os.fsync(file.fileno())
    reserved, _ = nowait_job(folder, disk, "reserved", "rw=randwrite", "ioengine=pvsync2",
                             "size=1m")
    release = tuple(int(word) for word in os.uname().release.split(".")[:2])
    if release < (6, 3):
        only(reserved, "unwritten_extent")
    else:
        check("unwritten_extent" not in reserved["refused_why"], f"{reserved}")
        check(reserved["refused"] < 0.1 * reserved["calls"], f"{reserved}")


def nowait_lock(folder, disk):
    """Another one extends the file, and has its lock alone: no reason is made up."""
    path = make(disk, "lock", MIB)
    drop_pages(path)
    stop, held = threading.Event(), []

    def extend():
        block = mmap.mmap(-1, 4096)
        fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
        offset = MIB
        while not stop.is_set():
            start = monotonic_ns()
            os.pwrite(fd, block, offset)
            held.append((start, monotonic_ns()))
            offset += 4096
        os.close(fd)

    thread = threading.Thread(target=extend)
    thread.start()
    try:
        nowait, report = nowait_job(folder, disk, "lock", "rw=randwrite", "ioengine=pvsync2",
                                    "size=1m", "time_based", "runtime=1s")
    finally:
        stop.set()
        thread.join()
    check(len(held) > 20, f"only {len(held)} writes extended the file")
    only(nowait, "not_told")
    check(not any(device.get("bios_refused") for device in report["devices"]), "in the queue?")


def nowait_reasons():
    """Each reason is known, or none is given."""
    with Folder() as folder, Disk(folder, "nowait", read="2ms", write="5ms", size="256m") as disk:
        nowait_blocked(folder, disk)
        nowait_pages(folder, disk)
        nowait_extents(folder, disk)
        nowait_lock(folder, disk)
    with Folder() as folder, Disk(folder, "queue", write="5ms", size="64m", mount=False) as disk:
        nowait_queue(folder, disk)


CASES = [nowait_reasons]

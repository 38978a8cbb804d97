"""`run osync` against the disk's own log and diskstats, and the guard of devices in use."""

import json
import os
import subprocess

from case_errors import expect
from intervals import intersect, measure, union
from lab import Disk, Folder, check, run, tool
from recorder import monotonic_ns


def near(what, ours, theirs, tolerance=0.02):
    print(f"  {what}: {ours:.4g}, from outside {theirs:.4g}")
    check(abs(ours - theirs) <= tolerance * max(abs(theirs), 1e-9),
          f"{what}: {ours}, from outside {theirs}")


def disk_stat(disk):
    with open(f"/sys/block/{disk.short}/stat") as file:
        words = [int(word) for word in file.read().split()]
    # (A write that a flush follows counts as two writes there.)
    return {"bytes": words[6] * 512, "flushes": words[15]}


def osync(folder, disk, *words, timeout=60):
    """The workload's figures, what diskstats grew by, and when it ran."""
    path = folder.file("osync.json")
    before, started = disk_stat(disk), monotonic_ns()
    done = run(tool(), "run", "osync", *words, "--json", path, timeout=timeout)
    after, ended = disk_stat(disk), monotonic_ns()
    with open(path) as file:
        report = json.load(file)
    growth = {key: after[key] - before[key] for key in after}
    return report, done.stdout, growth, (started, ended)


def osync_raw():
    """A flush of 10 ms, eight writers: flushes and bytes as the disk and the kernel counted them."""
    with Folder() as folder:
        with Disk(folder, "raw", flush="10ms", size="256m", mount=False) as disk:
            rounds = []
            for words in (("--sync", "osync"), ("--sync", "rwf_dsync", "--engine", "io_uring"),
                          ("--sync", "dsync", "--engine", "libaio", "--iodepth", "2"),
                          ("--sync", "dsync", "--threads", "1")):
                rounds.append((words, *osync(folder, disk, "--device", disk.device,
                                             "--destroy-data", "--runtime", "2s",
                                             *words)))
            truth = disk.truth_path
        with open(truth) as file:
            lines = [line.split(",") for line in file]
        log = [(line[0], int(line[1]), int(line[2]), int(line[4])) for line in lines
               if line[0] in ("flush", "write")]
    for words, report, text, growth, (start, end) in rounds:
        workload = report["workload"]
        print(words, workload["verdict"])
        flushes = sum(1 for op, begin, done, _ in log if op == "flush" and start < done < end)
        sizes = [size for op, begin, done, size in log if op == "write" and start < done < end]
        written = sum(sizes)
        near("flushes, by diskstats", workload["flushes"]["executed"], growth["flushes"])
        near("flushes, by the disk's log", workload["flushes"]["executed"], flushes)
        near("bytes written, by diskstats", workload["bytes_written"], growth["bytes"])
        near("bytes written, by the disk's log", workload["bytes_written"], written)
        near("writes per flush", workload["flushes"]["writers_per_flush"],
             len(sizes) / flushes)
        took = workload["elapsed_s"]
        near("MB/s", workload["mb_per_s"], written / took / 1e6)
        check(1.9 < took < 2.6, f"a run of 2 s took {took} s")
        # A thread that waits for its write has two flushes to wait for, one behind the data, and
        # an empty one; a write that blocks nobody has the first only.
        waits = "--engine" not in words
        near("empty flushes", workload["flushes"]["empty"], workload["writes"] if waits else 0)
        near("flushes for data", workload["flushes"]["after_writes"], workload["writes"])
        # What the disk was doing, all of the time: so the writers were behind a flush.
        busy = sum(done - begin for op, begin, done, _ in log
                   if op == "flush" and start < done < end) / 1e9 / took
        states = workload["states"]
        print(f"  flushing {busy:.3f} of the time; states {states}")
        check(abs(sum(states.values()) - 1) < 1e-6, f"states: {states}")
        check(abs(states["flush"] - busy) < 0.1, f"in a flush {states['flush']}, the disk {busy}")
        check(states["lock"] < 0.01, f"in locks: {states}")
        check("the device's flush" in workload["verdict"], workload["verdict"])
        if waits:
            roots = {root["cause"]: root["share"] for root in workload["writers"]["roots"]}
            check(roots.get("device.flush", 0) > 0.85, f"roots: {workload['writers']}")
        else:
            judge_async(report, [(begin, done) for op, begin, done, _ in log if op == "flush"])
        # A line for each second, as vmstat has it.
        table = [line.split() for line in text.splitlines()]
        head = next(i for i, words in enumerate(table) if words[:3] == ["s", "run", "lock"])
        live = [words for words in table[head + 1:head + 3] if words and words[0].isdigit()]
        check(len(live) == 2 and len(workload["seconds"]) == len(live), f"live lines: {live}")
        for second in workload["seconds"]:
            writers = sum(second[state] for state in states)
            share = writers / workload["options"]["threads"]
            check(0.8 < share < 1.01, f"a second's writers: {second}")


def judge_async(report, flushing):
    """Each write from its submission to the end of the flush behind it: their roots, by the log."""
    writes = report["workload"]["writes"]
    seen = sum(one["latency_us"]["count"] for one in report["async"])
    near("asynchronous writes, by the workload", seen, writes)
    slow = [one for kind in report["async"] for one in kind["slow"]]
    check(len(slow) >= 0.9 * writes, f"a flush takes 10 ms, and {len(slow)} of {writes} were slow")
    opened = report["window"]["start_monotonic_ns"]
    blamed = 0
    spans = []
    for one in slow:
        parts = sum(root["us"] for root in one["roots"])
        check(abs(parts - one["duration_us"]) < 1, f"the roots of a write add up to {parts}: {one}")
        blamed += sum(root["us"] for root in one["roots"] if root["cause"] == "device.flush")
        start = opened + int(one["start_us"] * 1000)
        spans.append([(start, start + int(one["duration_us"] * 1000))])
    whole = sum(one["duration_us"] for one in slow)
    disk = union(flushing)
    there = sum(measure(intersect(span, disk)) for span in spans) / 1000
    print(f"  asynchronous: {len(slow)} slow ones, {blamed / whole:.3f} of their time blamed on "
          f"flushes, the disk was in one for {there / whole:.3f}")
    check(abs(blamed - there) < 0.1 * whole, f"blamed {blamed / whole}, the disk {there / whole}")
    check(blamed > 0.8 * whole, f"blamed on flushes: {blamed / whole}")
    unexplained = sum(root["us"] for one in slow for root in one["roots"]
                      if root["cause"] == "unexplained")
    check(unexplained < 0.05 * whole, f"unexplained: {unexplained / whole}")


def osync_file():
    """On files: nothing is left behind, and the journal shows where there is one."""
    with Folder() as folder, Disk(folder, "file", flush="10ms", size="512m") as disk:
        report, _, growth, _ = osync(folder, disk, "--dir", disk.mountpoint, "--threads", "4",
                                     "--size", "8m", "--runtime", "2s", "--layout", "fallocated")
        workload = report["workload"]
        print(workload["verdict"], workload["states"])
        near("flushes, by diskstats", workload["flushes"]["executed"],
             workload["flushes"]["diskstats"])
        check(workload["states"]["journal"] + workload["states"]["lock"] > 0.3,
              f"the first write of each block needs a commit: {workload['states']}")
        check(os.listdir(disk.mountpoint) == ["lost+found"], os.listdir(disk.mountpoint))


def node_journal():
    """A device's node on a journalled file system: its mtime is committed, and counted."""
    with Folder() as folder, Disk(folder, "host", size="64m", options="commit=1") as host, \
            Disk(folder, "raw", flush="2ms", size="64m", mount=False) as disk:
        node = f"{host.mountpoint}/node"
        major, minor = disk.dev.split(":")
        run("mknod", node, "b", major, minor)
        with open(f"/proc/fs/jbd2/{host.short}-8/info") as file:
            before = int(file.readline().split()[0])
        report, text, _, _ = osync(folder, disk, "--device", node, "--destroy-data", "--threads",
                                   "2", "--runtime", "3s")
        with open(f"/proc/fs/jbd2/{host.short}-8/info") as file:
            after = int(file.readline().split()[0])
        node = report["workload"]["node_journal"]
        print(node)
        check(node and node["mountpoint"] == host.mountpoint, f"the node's journal: {node}")
        check(node["commits"] >= 1 and before + node["commits"] <= after,
              f"{node['commits']} commits, /proc {before} to {after}")
        check("the device's node" in text, text)


def device_guard():
    """Nothing is written to a device that something needs, whatever is said."""
    with Folder() as folder, Disk(folder, "guarded", size="128m", mount=False) as disk:
        words = ["run", "osync", "--device", disk.device, "--runtime", "1s", "--threads", "1"]
        matrix = ["run", "dio-matrix", "--target", f"raw={disk.device}", "--seconds", "100ms"]
        sure = "--destroy-data"

        def refused(*mentions):
            before = disk_stat(disk)
            expect(words + [sure], {2}, *mentions)
            expect(matrix + [sure], {2}, *mentions)
            after = disk_stat(disk)
            check(after["bytes"] == before["bytes"], f"written all the same: {before}, {after}")

        expect(words, {2}, sure)
        expect(matrix, {2}, sure)
        expect(["run", "osync", "--device", "/dev/no-such", sure], {2}, "/dev/no-such")
        expect(["run", "osync", "--device", folder.path, sure], {2}, "block device")
        expect(["run", "osync", "--runtime", "1s"], {2}, "--device")
        expect(words + [sure, "--layout", "fallocated"], {2}, "--layout", "--dir")
        expect(matrix + [sure, "--remount", "dioread_lock"], {2}, "--remount", "ext4")
        run("blockdev", "--setro", disk.device)
        refused("is read-only")
        run("blockdev", "--setrw", disk.device)
        run("mkfs.ext4", "-q", disk.device)
        run("mount", disk.device, disk.mountpoint)
        refused("is mounted on " + disk.mountpoint)
        run("umount", disk.mountpoint)
        # In another mount namespace only: no table of ours shows it.
        hidden = subprocess.Popen(["unshare", "-m", "sh", "-c",
                                   f"mount {disk.device} {disk.mountpoint} && echo on && read _"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check(hidden.stdout.readline() == "on\n", "no mount in a namespace of its own")
        refused("in use")
        hidden.communicate("\n", timeout=20)
        run("mkswap", "-q", disk.device)
        if run("swapon", disk.device, ok=False).returncode == 0:
            refused("is swap")
            run("swapoff", disk.device)
        else:
            print("no swap can be had here")
        loop = run("losetup", "--find", "--show", disk.device).stdout.strip()
        try:
            refused("is the backing device of " + os.path.basename(loop))
        finally:
            run("losetup", "--detach", loop)
        # A partition in use stands for its disk, and a disk in use for its partitions.
        run("addpart", disk.device, "1", "2048", "131072")
        part = f"{disk.device}p1"
        try:
            run("mkfs.ext4", "-q", part)
            run("mount", part, disk.mountpoint)
            refused("is mounted on " + disk.mountpoint, os.path.basename(part))
            run("umount", disk.mountpoint)
            run("mkfs.ext4", "-q", "-F", disk.device)
            run("mount", disk.device, disk.mountpoint)
            words[3] = part
            matrix[3] = f"raw={part}"
            refused("is mounted on " + disk.mountpoint)
            run("umount", disk.mountpoint)
        finally:
            run("umount", disk.mountpoint, ok=False)
            run("delpart", disk.device, "1")
        words[3], matrix[3] = disk.device, f"raw={disk.device}"
        # A member of an array that nothing has assembled: md's superblock 1.0, 8 KiB from the end.
        run("wipefs", "-aq", disk.device)
        write_md_member(disk.device, 128 << 20)
        refused("linux_raid_member")
        run("wipefs", "-aq", disk.device)
        done = run(tool(), *words, sure, "--json", folder.file("ok.json"))
        check("Durable writers" in done.stdout, "an idle device with --destroy-data is refused")


def write_md_member(device, size):
    """As mdadm lays out superblock 1.0, which libblkid knows by magic, version and checksum."""
    offset = (size // 512 - 16) & ~7
    block = bytearray(256)
    block[0:4] = (0xA92B4EFC).to_bytes(4, "little")
    block[4:8] = (1).to_bytes(4, "little")
    block[16:32] = bytes(range(1, 17))
    block[32:36] = b"test"
    block[144:152] = offset.to_bytes(8, "little")
    words = [int.from_bytes(block[i:i + 4], "little") for i in range(0, 256, 4)]
    total = sum(words)
    block[216:220] = ((total & 0xFFFFFFFF) + (total >> 32) & 0xFFFFFFFF).to_bytes(4, "little")
    with open(device, "r+b", buffering=0) as file:
        file.seek(offset * 512)
        file.write(block + bytes(256))
        os.fsync(file.fileno())


CASES = [osync_raw, osync_file, node_journal, device_guard]

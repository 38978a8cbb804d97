"""Devices that dm, md and LVM have assembled: the guard of what they are made of, and `run osync` on
a striped logical volume (VM: the kernels of scripts/vm have them)."""

import glob
import json
import os
import shutil
import time

from case_errors import expect
from case_osync import disk_stat, near
from lab import Disk, Folder, Skip, check, run, tool
from mapped import load_module
from recorder import monotonic_ns

EMULATED = bool(os.environ.get("KT_EMULATED"))
# Nobody listens to udev in a guest, and nothing of the host's configuration is meant.
LVM_CONFIG = ("activation{udev_sync=0 udev_rules=0 monitoring=0 verify_udev_operations=1} "
              "backup{backup=0 archive=0} global{use_lvmpolld=0} "
              "devices{use_devicesfile=0 obtain_device_list_from_udev=0 "
              "external_device_info_source=\"none\" filter=[\"a|^/dev/loop|\",\"r|.*|\"]}")


def lvm(command, *words):
    return run("lvm", command, "--config", LVM_CONFIG, *words, timeout=120)


def mdadm(*words):
    return run("mdadm", *words, timeout=120, env={**os.environ, "MDADM_NO_UDEV": "1"})


def dm_node(name):
    """Not by /dev/mapper: the kernel's own name is in every table."""
    for path in glob.glob("/sys/block/dm-*/dm/name"):
        with open(path) as file:
            if file.read().strip() == name:
                return "/dev/" + path.split("/")[3]
    raise Skip(f"no mapped device is called {name}")


class Guard:
    """`run osync` and `run dio-matrix`, each with --destroy-data, on devices that are in use."""

    def __init__(self, disks):
        self.disks = disks

    def written(self):
        return [disk_stat(disk)["bytes"] for disk in self.disks]

    def settled(self):
        """Once md has noted in its superblocks that the array is clean, 0.2 s after its last write."""
        before, since = self.written(), time.monotonic()
        while time.monotonic() - since < 1:
            time.sleep(0.1)
            if self.written() != before:
                before, since = self.written(), time.monotonic()
        return before

    def refuses(self, device, *mentions):
        before = self.settled()
        expect(["run", "osync", "--device", device, "--destroy-data", "--runtime", "1s",
                "--threads", "1"], {2}, *mentions)
        expect(["run", "dio-matrix", "--target", f"raw={device}", "--destroy-data", "--seconds",
                "100ms"], {2}, *mentions)
        check(self.written() == before, f"written all the same: {before}, {self.written()}")
        print(f"  refused {device}: {' '.join(mentions)}", flush=True)

    def refuses_while_mounted(self, device, mountpoint, members, member_says):
        run("mkfs.ext4", "-q", device, timeout=120)
        run("mount", "-o", "ro", device, mountpoint)  # or ext4 writes now and then
        try:
            self.refuses(device, "is mounted on " + mountpoint)
            for member in members:
                self.refuses(member.device, member_says)
        finally:
            run("umount", mountpoint)


def guard_of_dm(guard, disk):
    name = f"kt-{os.getpid()}"
    with open(f"/sys/block/{disk.short}/size") as file:
        table = f"0 {int(file.read())} linear {disk.device} 0"
    run("dmsetup", "--noudevsync", "--noudevrules", "create", name, "--table", table)
    try:
        device = dm_node(name)
        guard.refuses(disk.device, "is part of " + os.path.basename(device))
        guard.refuses_while_mounted(device, disk.mountpoint, [disk],
                                    "is part of " + os.path.basename(device))
    finally:
        run("dmsetup", "--noudevsync", "--noudevrules", "remove", "--retry", name)


def guard_of_md(guard, disks):
    device, names = "/dev/md77", [disk.device for disk in disks]
    mdadm("--create", device, "--run", "--level=1", f"--raid-devices={len(disks)}",
          "--metadata=1.2", "--assume-clean", "--bitmap=none", *names)
    try:
        for disk in disks:
            guard.refuses(disk.device, "is part of md77")
        guard.refuses_while_mounted(device, disks[0].mountpoint, disks, "is part of md77")
    finally:
        mdadm("--stop", device)
    for disk in disks:
        guard.refuses(disk.device, "linux_raid_member", "not active")
        mdadm("--zero-superblock", disk.device)
        run("dd", "if=/dev/zero", f"of={disk.device}", "bs=1M", "count=1", "conv=fsync")


def osync_on(folder, device, disks, *words):
    """On a mapped device: the figures against the counts and the logs of the disks below it."""
    path = folder.file("osync.json")
    before, started = [disk_stat(disk) for disk in disks], monotonic_ns()
    run(tool(), "run", "osync", "--device", device, "--destroy-data", "--threads", "4",
        "--runtime", "6s", "--size", "64m", "--rw", "randwrite", *words, "--json", path,
        timeout=240)
    ended, after = monotonic_ns(), [disk_stat(disk) for disk in disks]
    with open(path) as file:
        workload = json.load(file)["workload"]
    growth = {key: sum(now[key] - old[key] for now, old in zip(after, before))
              for key in after[0]}
    return workload, growth, (started, ended)


def judge_stripe(words, workload, growth, logs, window):
    print(words or ("psync",), workload["verdict"], flush=True)
    by_disk = [[one for one in log if window[0] < one.start < one.end < window[1]]
               for log in logs]
    inside = [one for log in by_disk for one in log]
    flushes = sum(1 for one in inside if one.op == "flush")
    written = sum(one.bytes for one in inside if one.op == "write")
    near("flushes, by diskstats", workload["flushes"]["executed"], growth["flushes"])
    near("flushes, by the disks' logs", workload["flushes"]["executed"], flushes)
    near("bytes written, by diskstats", workload["bytes_written"], growth["bytes"])
    near("bytes written, by the disks' logs", workload["bytes_written"], written)
    near("MB/s", workload["mb_per_s"], written / workload["elapsed_s"] / 1e6)
    near("writes per flush", workload["flushes"]["writers_per_flush"],
         workload["writes"] / flushes)
    # A block goes to one of the disks, with a flush behind it. A thread that waits for its write
    # then asks for an empty one, which goes to all of them.
    empty = 0 if words else len(logs) * workload["writes"]
    near("empty flushes", workload["flushes"]["empty"], empty)
    near("flushes for data", workload["flushes"]["after_writes"], workload["writes"])
    for log in by_disk:
        here = sum(one.bytes for one in log if one.op == "write")
        check(abs(here / written - 1 / len(logs)) < 0.1, f"a disk got {here} of {written} bytes")
    roots = {}  # of both disks
    for root in workload["writers"]["roots"]:
        roots[root["cause"]] = roots.get(root["cause"], 0) + root["share"]
    print(f"  states {workload['states']}\n  roots {roots}", flush=True)
    check(abs(sum(workload["states"].values()) - 1) < 1e-6, f"states: {workload['states']}")
    check(roots.get("device.flush", 0) > (0.5 if EMULATED else 0.85), f"roots: {roots}")
    check(workload["states"]["lock"] < 0.05, f"in locks: {workload['states']}")


def guard_of_lvm(guard, folder, disks):
    """Returns what `run osync` said on the stripe."""
    group = f"kt{os.getpid()}"
    names = [disk.device for disk in disks]
    for device in names:
        lvm("pvcreate", "-qq", "-y", "-ff", device)
    lvm("vgcreate", "-qq", group, *names)
    runs = []
    try:
        lvm("lvcreate", "-qq", "-y", "-Wn", "-Zn", "--stripes", len(disks), "--stripesize", "64k",
            "-l", "100%FREE", "-n", "stripe", group)
        device = dm_node(f"{group}-stripe")
        for disk in disks:
            guard.refuses(disk.device, "is part of " + os.path.basename(device))
        guard.refuses_while_mounted(device, disks[0].mountpoint, disks,
                                    "is part of " + os.path.basename(device))
        for words in ((), ("--engine", "libaio", "--iodepth", "2")):
            runs.append((words, *osync_on(folder, device, disks, *words)))
        lvm("vgchange", "-qq", "-an", group)
        for disk in disks:
            guard.refuses(disk.device, "LVM2_member", "not active")
    finally:
        lvm("vgchange", "-qq", "-an", group)
        lvm("vgremove", "-qq", "-y", "-ff", group)
        for device in names:
            lvm("pvremove", "-qq", "-y", "-ff", device)
    return runs


def assembled_devices():
    """dm, md and LVM as their own tools assemble them: nothing is written to what they stand on; a
    logical volume that nobody uses may be written to, and both its disks' flushes are counted."""
    load_module("dm_mod")
    load_module("raid1")
    if not os.path.exists("/sys/class/misc/device-mapper"):
        raise Skip("this kernel has no dm: scripts/soak runs this case on 6.1 and 6.12")
    for program in ("dmsetup", "mdadm", "lvm"):
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
    with Folder() as folder:
        with Disk(folder, "one", flush="10ms", size="128m", mount=False) as one, \
                Disk(folder, "two", flush="10ms", size="128m", mount=False) as two:
            disks = [one, two]
            guard = Guard(disks)
            guard_of_dm(guard, one)
            guard_of_md(guard, disks)
            runs = guard_of_lvm(guard, folder, disks)
            # Let go of, it is a disk like any other.
            run(tool(), "run", "osync", "--device", one.device, "--destroy-data", "--runtime",
                "1s", "--threads", "1", "--quiet", timeout=120)
        logs = [disk.truth() for disk in disks]
    for words, workload, growth, window in runs:
        judge_stripe(words, workload, growth, logs, window)


CASES = [assembled_devices]

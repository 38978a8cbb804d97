"""Devices that only map onto emulated disks: dm by dmsetup, md by its own ioctls (as `mdadm
--build` makes them: without metadata). They need modules: kernels of scripts/vm have them."""

import fcntl
import glob
import os
import shutil
import struct

from lab import Failure, Skip, kdev, run, wait_until

MD = 9  # the major number, and the letter of its ioctls


def load_module(name):
    """If there is one, and it is not built in."""
    if shutil.which("modprobe"):
        run("modprobe", name, ok=False)


def sectors_of(device):
    with open(f"/sys/block/{os.path.basename(device)}/size") as file:
        return int(file.read())


def linear(disks):
    return f"0 {sectors_of(disks[0].device)} linear {disks[0].device} 0"


def stripe(disks):
    """64 KiB on each in turn."""
    each = sectors_of(disks[0].device) // 128 * 128
    parts = " ".join(f"{disk.device} 0" for disk in disks)
    return f"0 {each * len(disks)} striped {len(disks)} 128 {parts}"


def delay(ms):
    """Writes and flushes are held back in dm."""
    def table(disks):
        device = disks[0].device
        return f"0 {sectors_of(device)} delay {device} 0 0 {device} 0 {ms} {device} 0 {ms}"

    return table


def crypt(disks):
    device = disks[0].device
    return f"0 {sectors_of(device)} crypt aes-xts-plain64 {'5a' * 32} 0 {device} 0"


class Mapped:
    """What Disk is to the rows, for the device that is mapped onto `disks`."""

    def __init__(self, folder, disks, options=""):
        self.disks, self.options = disks, options
        self.mountpoint = folder.file(f"mnt-{type(self).__name__}")
        self.mounted = False

    def open(self):
        with open(f"/sys/block/{self.short}/dev") as file:
            self.kdev = kdev(file.read().strip())
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.device,
            timeout=300)
        os.makedirs(self.mountpoint, exist_ok=True)
        run("mount", *(["-o", self.options] if self.options else []), self.device,
            self.mountpoint)
        self.mounted = True

    def truth(self):
        return []  # it serves nothing itself

    def __enter__(self):
        try:
            self.make()
            self.open()
        except BaseException:
            try:
                self.__exit__()
            except Failure as failure:
                print(failure)
            raise
        return self

    def __exit__(self, *_):
        if self.mounted:
            run("umount", self.mountpoint, timeout=120)
        self.remove()


class Dm(Mapped):
    def __init__(self, folder, disks, table, **more):
        super().__init__(folder, disks, **more)
        self.table, self.name = table, f"kt-{os.getpid()}"

    def dmsetup(self, *words):
        return run("dmsetup", "--noudevsync", "--noudevrules", *words)

    def make(self):
        if not shutil.which("dmsetup"):
            raise Skip("dmsetup is not installed")
        table = self.table(self.disks)
        load_module(f"dm_{table.split()[2]}")  # linear and striped are built in
        self.dmsetup("create", self.name, "--table", table)
        # Not by /dev/mapper: in a guest without udev nobody makes that name.
        for path in glob.glob("/sys/block/dm-*/dm/name"):
            with open(path) as file:
                if file.read().strip() == self.name:
                    self.short = path.split("/")[3]
        self.device = f"/dev/{self.short}"

    def remove(self):
        self.dmsetup("remove", "--retry", self.name)


class Mirror(Mapped):
    """md raid1."""

    short, device = "md77", "/dev/md77"

    def make(self):
        load_module("raid1")
        with open("/proc/mdstat" if os.path.exists("/proc/mdstat") else os.devnull) as file:
            if "raid1" not in file.read():
                raise Skip("the kernel has no md raid1")
        if not os.path.exists(self.device):
            os.mknod(self.device, 0o600 | 0o060000, os.makedev(MD, 77))
        size = sectors_of(self.disks[0].device)
        with open(self.device, "rb") as array:
            def call(number, *values):
                data = struct.pack(f"{len(values)}i", *values)
                fcntl.ioctl(array, 1 << 30 | len(data) << 16 | MD << 8 | number, data)

            count = len(self.disks)
            # mdu_array_info_t: version 0.90.0, level 1, not persistent, clean (nothing to resync)
            call(0x23, 0, 90, 0, 0, 1, size // 2, count, count, 77, 1, 0, 1, count, count, 0, 0,
                 0, 0)
            for number, disk in enumerate(self.disks):
                rdev = os.stat(disk.device).st_rdev
                call(0x21, number, os.major(rdev), os.minor(rdev), number, 6)  # active, in sync
            call(0x30, 0, 0, 0)

    def remove(self):
        def stop():
            try:
                with open(self.device, "rb") as array:
                    fcntl.ioctl(array, MD << 8 | 0x32)
                return True
            except OSError:
                return False

        wait_until(stop, 20, f"{self.device} does not stop")
        os.unlink(self.device)

"""fio jobs on a block device: what is read and written by diskstats and by the device's contents,
and the guard of devices that hold something."""

import contextlib
import json
import os

from case_errors import expect
from lab import Folder, check, run, tool

MIB = 1 << 20
SIZE = 64 * MIB
READ = "[r]\nfilename={}\nioengine=libaio\nrw=randread\nbs=4k\niodepth=8\ndirect=1\n"
WRITE = ("[w]\nfilename={}\nioengine=io_uring\nrw=randwrite\nbs=4k\niodepth=8\ndirect=1\n"
         "offset=16m\nsize=8m\nfsync=64\n")


@contextlib.contextmanager
def loop(folder):
    """(its node, the file below it), full of random bytes."""
    path = folder.file("image")
    with open(path, "wb") as file:
        for _ in range(SIZE // MIB):
            file.write(os.urandom(MIB))
    device = run("losetup", "--find", "--show", path).stdout.strip()
    try:
        yield device, path
    finally:
        run("losetup", "--detach", device)


def contents(path):
    run("sync", path)
    with open(path, "rb") as file:
        return file.read()


def bytes_done(device):
    """(read, written), as diskstats counts them."""
    with open(f"/sys/block/{os.path.basename(device)}/stat") as file:
        words = [int(word) for word in file.read().split()]
    return words[2] * 512, words[6] * 512


def job(folder, device, text, *words):
    """The load's own figures of bytes read and written, and those of diskstats."""
    path, out = folder.file("device.fio"), folder.file("fio.json")
    with open(path, "w") as file:
        file.write(text.format(device))
    before = bytes_done(device)
    run(tool(), "run", "job", path, "--quiet", "--fio-json", out, *words)
    after = bytes_done(device)
    with open(out) as file:
        report = json.load(file)
    figures, = report["jobs"]
    name = os.path.basename(device)
    used = [disk["name"] for disk in report["disk_util"]]
    check(used == [name], f"disk_util is of {used}, not of {name}")
    return (tuple(figures[side]["io_bytes"] for side in ("read", "write")),
            tuple(b - a for a, b in zip(before, after)))


def fio_jobs_device():
    with Folder() as folder, loop(folder) as (device, image):
        full = contents(image)

        # Without a size all of it is read, once, as fio has it; and nothing is written.
        ours, disk = job(folder, device, READ, "--no-trace")
        print(f"  read: ours {ours}, diskstats {disk}")
        check(ours == (SIZE, 0), f"{ours} of {SIZE} bytes read")
        check(disk == ours, f"diskstats says {disk}, we {ours}")
        link = folder.file("by-name")
        os.symlink(device, link)
        out = folder.file("linked.json")
        path = folder.file("linked.fio")
        with open(path, "w") as file:
            file.write(READ.format(link) + "size=1m\n")
        run(tool(), "run", "job", path, "--quiet", "--no-trace", "--fio-json", out)

        def refused(text, *mentions, words=("--no-trace",)):
            with open(path, "w") as file:
                file.write(text)
            expect(["run", "job", path, *words], {2}, *mentions)
            check(contents(image) == full, f"the device was written to: {mentions}")

        refused(WRITE.format(device), "--destroy-data")
        refused(READ.format(device) + "size=1g\n", "64")
        lost = ("--no-trace", "--destroy-data")
        refused(WRITE.format(device).replace("8m", "1g"), "64", words=lost)
        refused(WRITE.format(device) + "create_on_open=1\n", "block device", words=lost)

        # What the job says is written, and nothing beside it; traced.
        ours, disk = job(folder, device, WRITE, "--destroy-data", "--json", folder.file("r.json"))
        print(f"  written: ours {ours}, diskstats {disk}")
        check(ours == (0, 8 * MIB), f"{ours} of 8 MiB written")
        check(disk[1] == 8 * MIB, f"diskstats says {disk}, we {ours}")
        now = contents(image)
        check(now[:16 * MIB] == full[:16 * MIB] and now[24 * MIB:] == full[24 * MIB:],
              "bytes outside of the job's region were written")
        same = sum(now[at:at + 4096] == full[at:at + 4096]
                   for at in range(16 * MIB, 24 * MIB, 4096))
        check(same == 0, f"{same} blocks of the region were not written")

        # A device in use is never written to, and may be read.
        run("mkfs.ext4", "-q", device)
        mounted = folder.file("mounted")
        os.mkdir(mounted)
        run("mount", device, mounted)
        try:
            with open(path, "w") as file:
                file.write(WRITE.format(device))
            expect(["run", "job", path, *lost], {2}, f"is mounted on {mounted}")
            ours, _ = job(folder, device, READ, "--no-trace")
            check(ours == (SIZE, 0), f"{ours} of {SIZE} bytes of a mounted device read")
        finally:
            run("umount", mounted)


CASES = [fio_jobs_device]

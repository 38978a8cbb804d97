"""ext4 on devices that only map (dm, md): the lowest device that was slow (VM: it has them)."""

import os
from dataclasses import dataclass

from fault_loads import Named, appender, overwriter, resyncer, written_file
from faults import (PYTHON, Expect, Limits, Root, Watch, chains, kdev, measure, row_verdict,
                    subtract, union)
from intervals import dilate
from lab import MS, Disk, Folder, Skip, seed
from mapped import Dm, Mirror, crypt, delay, linear, load_module, stripe

DEVICE = ("device.write", "device.flush", "device.read", "device.queue")
# Between the driver, where a request begins, and the disk's server; an emulated guest takes 10 ms (median).
SERVER_EDGE = (20 if os.environ.get("KT_EMULATED") else 5) * MS


@dataclass
class Kind:
    name: str
    make: object  # (folder, disks) -> Mapped
    disks: int = 1
    in_dm: bool = False  # the mapped device is what is slow


def kinds(rng):
    held = rng.randint(150, 300)
    return [Kind("linear", lambda folder, disks: Dm(folder, disks, linear)),
            Kind("stripe", lambda folder, disks: Dm(folder, disks, stripe), 2),
            Kind("mirror", Mirror, 2),
            Kind("crypt", lambda folder, disks: Dm(folder, disks, crypt)),
            Kind("delay", lambda folder, disks: Dm(folder, disks, delay(held)), in_dm=True)]


def mapped_devices():
    """dm-linear, dm-stripe and md raid1 of a slow and a fast disk, dm-crypt, dm-delay (KT_MAPPED:
    some of them)."""
    load_module("dm_mod")
    if not os.path.exists("/sys/class/misc/device-mapper"):
        raise Skip("this kernel has no dm: scripts/accuracy --vm runs this row on 6.1 and 6.12")
    rng = seed()
    every = kinds(rng)
    wanted = os.environ.get("KT_MAPPED", " ".join(kind.name for kind in every)).split()
    for kind in every:
        if kind.name in wanted:
            mapped_row(kind, rng)


def mapped_row(kind, rng):
    slow = {} if kind.in_dm else {"write": f"{rng.randint(60, 120)}ms",
                                  "flush": f"{rng.randint(200, 400)}ms"}
    with Folder() as folder:
        with Disk(folder, "slow", size="256m", mount=False) as first, \
                Disk(folder, "fast", size="256m", mount=False) as second:
            disks = [first, second][:kind.disks]
            with kind.make(folder, disks) as mapped:
                paths = [written_file(mapped.mountpoint, f"w{number}", 262144)
                         for number in range(3)]
                with Watch(folder, [mapped, *disks]) as watch:
                    watch.follow_comm("md", "kworker", "dm", "kdelayd")
                    victims = [watch.worker(resyncer, paths[0], 0.05),
                               watch.worker(overwriter, paths[1], 0.05),
                               watch.worker(appender, f"{mapped.mountpoint}/a", 0.1, 16384)]
                    watch.trace(devices=[mapped])
                    first.plan([(0, 600, op, time) for op, time in slow.items()])
                    watch.go(12)
                kdevs = [disk.kdev for disk in disks]

        window = [(watch.began, watch.ended)]
        busy = dilate(union([(one.start, one.end) for one in first.truth()]), SERVER_EDGE)
        wanted = mapped.kdev if kind.in_dm else first.kdev
        evidence = watch.evidence()
        expect, when = [], None
        if kind.in_dm:
            # While the disk's driver had nothing, it is dm that lets them wait.
            when = subtract(window, union([(one.start, one.end)
                                           for one in evidence.trace.requests[first.kdev]]))
            expect = [Expect(start, end, (*(Root(cause, dev=mapped.kdev) for cause in DEVICE),
                                          Root("task.cpu"), Root("task.runnable")))
                      for start, end in when]

        def named(report, _):
            named = Named(report, victims)
            named.share("the slow device", lambda part, path: leaf(part, path)[0] in DEVICE,
                        lambda part, path: leaf(part, path)[1] == wanted, 0.95, when, 2)
            blamed = union([report.span(path[-1])
                            for _, part, path, _ in chains(report, named.victims)
                            if path and leaf(part, path)[0] in DEVICE
                            and leaf(part, path)[1] == first.kdev])
            outside = measure(subtract(blamed, busy))
            if not kind.in_dm and outside > 0.03 * measure(blamed):
                named.failures.append(f"the slow disk is blamed for {outside / 1e9:.3f} s in which "
                                      f"its own log has nothing, of {measure(blamed) / 1e9:.3f}")
            return named.result()

        stall_dev = first.kdev if kind.disks == 1 else mapped.kdev
        row_verdict(f"mapped_devices {kind.name}", watch, victims, named=named, expect=expect,
                    evidence=evidence, related={stall_dev: {*kdevs, mapped.kdev}}, journals={stall_dev: mapped.kdev},
                    tolerance=PYTHON, limits=Limits(right=0.95, stalls=5, seconds=3))


def leaf(part, path):
    """(cause, kdev) of a chain's root."""
    root = (path[-1] if path else part).get("root") or {}
    return root.get("cause"), kdev(root["dev"]) if root.get("dev") else None


CASES = [mapped_devices]

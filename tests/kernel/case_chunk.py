"""The chunk server on emulated disks: slow flushes, no fault at all, and a busy innocent disk."""

from lab import (Disk, Failure, Folder, Recording, check, finish, interrupt, judged, report_of,
                 seed, tool, wait_attached)
from check_calls import Tolerance
from sources import kdev, read_ops

OVER = 2.5  # a report may come this many seconds after the runtime, and then some


def faults(rng, seconds, delay="1.5s"):
    """Windows in which a flush takes `delay`: some catch one flush, some several in a row."""
    windows, at = [], 3.0
    while at < seconds - 1:
        length = rng.choice((0.2, 0.7, 2.2))
        windows.append((at, at + length, "flush", delay))
        at += length + 1.5 + rng.uniform(0.3, 2.5)
    print("faults:", ", ".join(f"{begin:.2f}-{end:.2f} s" for begin, end, _, _ in windows))
    return windows


def chunk_server(folder, disk, recording, runtime, *more, probe="1s", jobs=8, size="128m"):
    """Starts it; the report and the op log have names of the folder."""
    return recording.spawn(
        tool(), "run", "chunk-server", "--dir", disk.mountpoint, "--jobs", jobs, "--size",
        size, "--runtime", f"{runtime}s", "--probe-interval", probe, "--json",
        folder.file("report.json"), "--ops-log", folder.file("ops.csv"), *more)


def slow_flushes(runtime, *options, flush="20ms", least=20):
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "slow", flush=flush) as disk:
            with Recording(folder, [disk]) as recording:
                disk.plan(faults(rng, runtime))
                load = chunk_server(folder, disk, recording, runtime, *options)
                out, _ = finish(load, runtime * OVER + 30)
        check("device.flush" in out, "the text report does not name device.flush")
        report = report_of(folder)
        ops = read_ops(folder.file("ops.csv"))
        check(ops, "the op log is empty")
        judged(report, disk, recording.path, ops, stalls=least)
        check("probe" in report.json, "the report has no probe")


def chunk_server_flush():
    slow_flushes(20)


def chunk_server_uring():
    slow_flushes(10, "--engine", "io_uring")


def chunk_server_sync_threads():
    slow_flushes(10, "--sync-threads", "2", least=5)


def quiet():
    """A disk without delays: no device is at fault, whatever the machine does meanwhile."""
    with Folder() as folder:
        with Disk(folder, "fast") as disk:
            with Recording(folder, [disk]) as recording:
                finish(chunk_server(folder, disk, recording, 6, jobs=2), 60)
        report = report_of(folder)
        # Stalls that a noisy machine makes are all awake time, which the edges do not bound.
        judged(report, disk, recording.path, read_ops(folder.file("ops.csv")),
               checks=("sources", "completeness", "sums", "attribution", "counts", "loss"),
               right=0.0, wrong=0.5, cpu_claims=1.01, quiet=True,
               # All that is slow here is the machine's noise, which strikes outside of calls, too.
               tolerance=Tolerance(noisy_calls=10))


def decoy():
    """Two disks are traced; the busy one is fast and has nothing to do with the stalls."""
    rng = seed()
    with Folder() as folder:
        with Disk(folder, "slow", flush="20ms") as slow, Disk(folder, "decoy") as other:
            with Recording(folder, [slow, other]) as recording:
                tracers = [recording.spawn(tool(), "trace", *words, follow=False) for words in (
                    ("--dev", slow.device, "--dev", other.device, "--json",
                     folder.file("both.json")),
                    ("--dev", slow.device, "--json", folder.file("only.json")))]
                for tracer in tracers:
                    wait_attached(tracer)
                slow.plan(faults(rng, 8))
                loads = [recording.spawn("fio", *fio_words(disk, jobs)) for disk, jobs in
                         ((slow, 4), (other, 1))]
                for load in loads:
                    finish(load, 60)
                for tracer in tracers:
                    interrupt(tracer)
        both = report_of(folder, "both.json")
        judged(both, slow, recording.path, innocent=[other], stalls=10,
               checks=("sources", "sums", "attribution", "flushes", "counts", "loss"))
        only_report = report_of(folder, "only.json")
        judged(only_report, slow, recording.path, innocent=[other], stalls=10,
               checks=("sources", "sums", "attribution", "flushes", "counts", "loss"))
        check_devices(both.json, {slow.kdev, other.kdev})
        check_devices(only_report.json, {slow.kdev})


def check_devices(report, wanted):
    named = {kdev(device["dev"]) for device in report["devices"]}
    if named != wanted:
        raise Failure(f"the report is about {named}, asked for was {wanted}")
    for table in ("ops", "stalls", "flushes", "commits"):
        for row in report[table]:
            check(not row.get("dev") or kdev(row["dev"]) in wanted,
                  f"{table}: a row of {row.get('dev')}, which was not asked for")


def fio_words(disk, jobs):
    return ["--name=load", f"--directory={disk.mountpoint}", "--size=32m", "--bs=64k",
            "--rw=randwrite", "--direct=1", "--fdatasync=32", "--ioengine=libaio", "--iodepth=16",
            "--time_based", "--runtime=8", f"--numjobs={jobs}", "--output=/dev/null"]


CASES = [chunk_server_flush, chunk_server_uring, chunk_server_sync_threads, quiet, decoy]

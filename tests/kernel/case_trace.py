"""`stalltrace trace` on programs that are not ours."""

import glob
import os
import re
import time

from case_chunk import faults
from lab import (HERE, MS, SECOND, Counters, Disk, Folder, Recording, check, finish,
                 interrupt, judged, monotonic_ns, report_of, run, seed, tool, wait_attached)
from recorder import SYSCALLS
from sources import Op, read_ops, read_trace

UNITS = {"ns": 1, "us": 1000, "ms": MS, "s": SECOND, "min": 60 * SECOND}


def trace(recording, *words):
    """A tracer that has attached, beside what it traces."""
    tracer = recording.spawn(tool(), "trace", *words, follow=False)
    wait_attached(tracer)
    return tracer


def calls_of(trace_path, least=MS):
    """What the kernel's own syscall tracepoints say of the followed programs."""
    names = {number: name for name, number in SYSCALLS.items()}
    return [Op(index, names[number], tid, start, end, result, end)
            for index, (number, tid, start, end, result) in enumerate(read_trace(trace_path).calls)
            if end - start >= least]


def job_file(folder, disk, jobs, runtime):
    with open(os.path.join(HERE, "chunk-server.fio")) as file:
        text = file.read()
    for key, value in (("directory", disk.mountpoint), ("numjobs", jobs), ("runtime", runtime)):
        text, count = re.subn(rf"(?m)^{key}=.*$", f"{key}={value}", text)
        check(count == 1, f"the job file has {count} lines with {key}")
    path = folder.file("job.fio")
    with open(path, "w") as file:
        file.write(text)
    return path


def foreign():
    """The real fio and the real ioping: their stalls by the kernel, by fio's log, by ioping."""
    rng = seed()
    runtime = 15
    with Folder() as folder:
        log = folder.file("fio")
        with Disk(folder, "slow", flush="20ms") as disk:
            with Recording(folder, [disk], calls=("io_submit", "fdatasync")) as recording:
                tracer = trace(recording, "--dev", disk.device, "--json",
                               folder.file("report.json"))
                disk.plan(faults(rng, runtime))
                to_unix = time.time_ns() - monotonic_ns()
                fio = recording.spawn("fio", f"--write_lat_log={log}", "--log_unix_epoch=1",
                                      "--output=/dev/null",
                                      job_file(folder, disk, 8, runtime))
                ioping = recording.spawn("ioping", "-A", "-C", "-D", "-WWW", "-i", "1", "-w",
                                         str(runtime), disk.mountpoint)
                finish(fio, runtime * 4)
                pings, _ = finish(ioping, runtime * 4)
                interrupt(tracer)
        report = report_of(folder)
        judged(report, disk, recording.path, calls_of(recording.path), stalls=20)
        compare_fio_log(report, log, to_unix)
        compare_ioping(report, pings)


def compare_fio_log(report, log, to_unix):
    """Each submission that fio saw blocked, by its own log with a millisecond's resolution."""
    ends = sorted(report.span(stall, "duration_us")[1] for stall in report.stalls
                  if stall["kind"] == "io_submit" and stall["comm"] == "fio")
    slow, missing = 0, []
    for path in glob.glob(f"{log}_slat.*.log"):
        with open(path) as file:
            for line in file:
                when, ns = map(int, line.split(",")[:2])
                end = when * MS - to_unix
                if ns < 20 * MS or end - ns < report.start or end + 20 * MS > report.end:
                    continue
                slow += 1
                if not any(abs(end - other) < 20 * MS for other in ends):
                    missing.append(f"{ns / 1e6:.1f} ms until {(end - report.start) / 1e9:.3f} s")
    print(f"fio's log: {slow} submissions over 20 ms, {len(missing)} not reported")
    check(slow, "fio saw no slow submission: the load is too weak")
    # fio's clock starts before its system call, and a job that just started may lose its CPU in
    # between; the kernel's own times of all calls are compared one by one elsewhere.
    check(len(missing) <= max(3, slow // 20),
          f"submissions in fio's log that are not reported: {missing[:5]}")


def compare_ioping(report, pings):
    """Each request that ioping saw slow, by its own clock."""
    times = [float(number) * UNITS[unit]
             for number, unit in re.findall(r"request=\d+ time=([\d.]+) (\w+)", pings)]
    check(times, f"ioping printed no request: {pings[-500:]}")
    slow = sorted((ns for ns in times if ns > 12 * MS), reverse=True)
    print(f"ioping: {len(times)} requests, {len(slow)} over 12 ms")
    check(slow, "ioping saw no slow request: the load is too weak")
    reported = [one["duration_us"] * 1000 for entry in report.json["async"]
                for one in entry["slow"] if one["comm"] == "ioping"]
    for ns in slow:
        near = min(reported, key=lambda other: abs(other - ns), default=0)
        check(abs(near - ns) <= max(3 * MS, 0.02 * ns),
              f"ioping saw {ns / 1e6:.1f} ms, the nearest reported is {near / 1e6:.1f} ms")
        reported.remove(near)


def writer(folder, disk, *options):
    return ["python3", os.path.join(HERE, "writer.py"), disk.mountpoint, "--ops",
            folder.file("ops.csv"), *options]


def trace_command():
    """trace -- CMD: its status, its stalls, and 125 for failures of the tool itself."""
    with Folder() as folder:
        with Disk(folder, "slow", flush="20ms") as disk:
            with Recording(folder, [disk]) as recording:
                command = recording.spawn(
                    tool(), "trace", "--json", folder.file("report.json"), "--",
                    *writer(folder, disk, "--threads", "3", "--loops", "20", "--status", "7"))
                finish(command, 60, status=7)
            report = report_of(folder)
            for words, status in ((["--json", folder.file("none/r.json"), "--", "true"], 125),
                                  (["--threshold", "fast", "--", "true"], 125),
                                  (["--", "true"], 0), (["--", "sh", "-c", "exit 3"], 3),
                                  (["--", folder.file("no-such-program")], 125)):
                done = run(tool(), "trace", *words, ok=False)
                check(done.returncode == status, f"trace {' '.join(words)}: exit "
                      f"{done.returncode}, not {status}: {done.stderr.strip()[-500:]}")
        ops = read_ops(folder.file("ops.csv"))
        judged(report, disk, recording.path, ops, stalls=20,
               checks=("sources", "completeness", "sums", "attribution", "flushes", "loss"))


def counts():
    """Commits and flushes by the kernel's own counters, around a window in which all happened."""
    with Folder() as folder:
        with Disk(folder, "slow", flush="3ms", options="data=ordered") as disk:
            with Recording(folder, [disk]) as recording:
                run("sync", "-f", disk.mountpoint)
                counters = Counters(disk)
                tracer = trace(recording, "--dev", disk.device, "--json",
                               folder.file("report.json"))
                for options in (["--loops", "150"], ["--loops", "80", "--overwrite"]):
                    finish(recording.spawn(*writer(folder, disk, "--threads", "3", *options)), 60)
                run("sync", "-f", disk.mountpoint)
                interrupt(tracer)
                growth = counters.growth()
        report = report_of(folder)
        print(f"outside: {growth}")
        check(growth["commits"] > 100 and growth["flushes"] > growth["commits"],
              f"too little happened: {growth}")
        judged(report, disk, recording.path, checks=("sources", "sums", "flushes", "counts",
                                                     "loss"), growth=growth)


def cut():
    """Tracing begins, and ends, in the middle of a stall."""
    with Folder() as folder:
        with Disk(folder, "slow", flush="1ms") as disk:
            with Recording(folder, [disk]) as recording:
                disk.plan([(0, 1.5, "flush", "6s")])
                began = monotonic_ns()
                load = recording.spawn(*writer(folder, disk, "--loops", "3", "--pause", "0.7"))
                time.sleep(0.5)
                inside = recording.spawn(tool(), "trace", "--dev", disk.device, "-d", "1s",
                                         "--json", folder.file("inside.json"), follow=False)
                after = recording.spawn(tool(), "trace", "--dev", disk.device, "-d", "8s",
                                        "--json", folder.file("after.json"), follow=False)
                finish(inside, 60)
                finish(after, 60)
                finish(load, 60)
        for name, expected in (("after", {"cut": "start"}),
                               ("inside", {"unfinished": True})):
            report = report_of(folder, f"{name}.json")
            stalls = [stall for stall in report.stalls if stall["kind"] == "fsync"]
            check(stalls, f"{name}: the stall under way is not reported")
            first = stalls[0]
            print(f"{name}: window from {(report.start - began) / 1e9:.2f} s on, stall of "
                  f"{first['duration_us'] / 1e6:.3f} s, cut {first.get('cut')}, unfinished "
                  f"{first.get('unfinished', False)}")
            for key, value in expected.items():
                check(first.get(key) == value, f"{name}: {key} is {first.get(key)}, not {value}")
            check(first["start_us"] < 0.2e6, f"{name}: it begins at {first['start_us']} us")
            if name == "inside":
                # No event of the flush falls into the window: it cannot be known, so nothing
                # else may be blamed for it.
                blamed = sum(root["us"] for root in first["roots"] if root["cause"] not in
                             ("device.flush", "unexplained"))
                check(blamed < 0.01 * first["duration_us"],
                      f"{name}: its roots are {first['roots']}")
                continue
            check(any(root["cause"] == "device.flush" and root["us"] > 0.9 * first["duration_us"]
                      for root in first["roots"]), f"{name}: its roots are {first['roots']}")
            judged(report, disk, recording.path, read_ops(folder.file("ops.csv")), stalls=1,
                   checks=("sources", "completeness", "sums", "attribution", "loss"))


CASES = [foreign, trace_command, counts, cut]

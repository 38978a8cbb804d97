"""Whose stalls are told: filters, and what containers call their processes and files."""

import os
import subprocess
import time

from case_trace import trace, writer
from lab import (HERE, Disk, Folder, Recording, Skip, check, finish, interrupt, report_of,
                 run, seed, tool)
from sources import read_ops

# A shell that makes its own world, puts itself into a cgroup and says what it is called there.
INSIDE = r"""
set -e
echo $$ > "$CGROUP/cgroup.procs"
mkdir -p "$MOUNT/sub" "$FOLDER/data"
exec unshare --mount --pid --fork --mount-proc sh -c '
  mount --bind "$MOUNT/sub" "$FOLDER/data"
  exec python3 -B "$WRITER" "$FOLDER/data" --ops "$FOLDER/ops.csv" --threads 2 --loops 6'
"""


def cgroup2():
    with open("/proc/mounts") as file:
        found = next((line.split()[1] for line in file if line.split()[2] == "cgroup2"), None)
    if not found:
        raise Skip("no cgroup2 hierarchy is mounted")
    return found


def container():
    """A process in its own mount, pid and cgroup world: its own path, pid and cgroup."""
    seed()
    with Folder() as folder:
        group = os.path.join(cgroup2(), f"kt-{os.getpid()}")
        os.mkdir(group)
        try:
            with Disk(folder, "slow", flush="30ms") as disk:
                with Recording(folder, [disk]) as recording:
                    tracer = trace(recording, "--dev", disk.device, "--cgroup", group, "--json",
                                   folder.file("report.json"))
                    words = os.environ | {"CGROUP": group, "MOUNT": disk.mountpoint,
                                          "FOLDER": folder.path,
                                          "WRITER": os.path.join(HERE, "writer.py")}
                    load = subprocess.Popen(["sh", "-c", INSIDE], env=words)
                    # Outside of the cgroup, not to be told.
                    other = recording.spawn(*writer(folder, disk, "--threads", "1", "--loops", "6",
                                                    "--ops", folder.file("other.csv")))
                    check(load.wait(60) == 0, "the container failed")
                    finish(other, 60)
                    interrupt(tracer)
            check_container(report_of(folder), folder, group)
        finally:
            wait_empty(group)
            os.rmdir(group)


def wait_empty(group):
    for _ in range(100):
        with open(f"{group}/cgroup.procs") as file:
            if not file.read().strip():
                return
        time.sleep(0.05)


def check_container(report, folder, group):
    # The threads' numbers by their own gettid, inside.
    ops = read_ops(folder.file("ops.csv"))
    slow = [op for op in ops if op.end - op.start > 20_000_000]
    inside = {op.tid for op in slow}
    check(slow, "the container saw no slow call: the load is too weak")
    told = {stall.get("inner_tid") for stall in report.stalls}
    print(f"{len(slow)} slow calls of threads {sorted(inside)} inside, {len(report.stalls)} told")
    check(told == inside, f"threads {sorted(inside)} were slow inside, told are {told}")
    for op in slow:
        check(any(abs(report.span(stall, "duration_us")[0] - op.start) < 5_000_000
                  and stall["inner_tid"] == op.tid and stall["kind"] == op.kind
                  for stall in report.stalls),
              f"{op.kind} of thread {op.tid} inside is not told")
    for stall in report.stalls:
        check(stall["inner_pid"] == 1, f"its first process is {stall['inner_pid']}, not 1")
        check(stall.get("cgroup") == f"/{os.path.basename(group)}", f"cgroup {stall.get('cgroup')}")
        name = os.path.basename(stall["path"])
        check(stall["path"].endswith(f"/mnt-slow/sub/{name}"), f"path {stall['path']}")
        check(stall.get("inner_path") == f"{folder.path}/data/{name}",
              f"inside it is {stall.get('inner_path')}")


def filters():
    """Each filter tells all of its own slow calls, by their own clocks, and no others."""
    seed()
    with Folder() as folder:
        with Disk(folder, "slow", flush="25ms") as disk:
            with Recording(folder, [disk]) as recording:
                # A parent whose children are born while tracing goes on.
                parent = recording.spawn("sh", "-c", 'until [ -e "$0" ]; do sleep 0.1; done; '
                                         '"$@" & "$@" & wait', folder.file("go"),
                                         *writer(folder, disk, "--threads", "1", "--loops", "15",
                                                 "--ops", "/dev/null"))
                tracers = {name: trace(recording, "--dev", disk.device, "--no-live", "--json",
                                       folder.file(f"{name}.json"), *words)
                           for name, words in (
                               ("all", []), ("pid", ["-p", parent.pid]),
                               ("kind", ["--kind", "fsync"]), ("comm", ["--comm", "pyth*"]),
                               ("none", ["--comm", "nobody"]),
                               ("path", ["--path", disk.mountpoint]))}
                open(folder.file("go"), "w").close()
                other = recording.spawn(*writer(folder, disk, "--threads", "1", "--loops", "15"))
                finish(parent, 60)
                finish(other, 60)
                finish(tracers.pop("pid"), 30)  # it ends with its process
                for tracer in tracers.values():
                    interrupt(tracer)
        seen = {name: report_of(folder, f"{name}.json").stalls for name in (*tracers, "pid")}
        everything = seen["all"]
        own = {op.tid for op in read_ops(folder.file("ops.csv"))}
        check(everything and own, "nothing was slow: the load is too weak")
        theirs = sum(1 for stall in everything if stall["tid"] not in own
                     and stall["comm"] == "python3")
        print({name: len(stalls) for name, stalls in seen.items()}, f"of the children: {theirs}")
        check(theirs > 10, "the children had no stalls")
        near(len(seen["pid"]), theirs, "-p")
        check(not any(stall["tid"] in own for stall in seen["pid"]), "-p tells others' stalls")
        near(len(seen["kind"]), sum(stall["kind"] == "fsync" for stall in everything), "--kind")
        check(all(stall["kind"] == "fsync" for stall in seen["kind"]), "--kind tells other calls")
        near(len(seen["comm"]), sum(stall["comm"].startswith("pyth") for stall in everything),
             "--comm")
        check(not seen["none"], "--comm nobody tells something")
        near(len(seen["path"]), sum(stall.get("path", "").startswith(disk.mountpoint)
                                    for stall in everything), "--path")
        for words in (["--kind", "fsink"], ["--cgroup", "/no/such"], ["--path", "/no/such"],
                      ["-p", "4194303"], ["--stop-on", "fsync > 1s"], ["--flight", "60s"],
                      ["--flight", "60s", "--stop-on", "fsync"],
                      ["--flight", "60s", "--stop-on", "fsync > 1ms"]):
            done = run(tool(), "trace", *words, ok=False)
            lines = done.stderr.strip().splitlines()
            check(done.returncode == 2 and len(lines) == 1,
                  f"trace {' '.join(words)}: exit {done.returncode}: {done.stderr}")


def near(count, expected, name):
    """Tracers beside each other open and close their windows a moment apart."""
    check(abs(count - expected) <= max(2, expected // 10), f"{name}: {count} stalls, not {expected}")


CASES = [container, filters]

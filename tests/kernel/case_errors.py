"""Bad input, refused privileges, signals and kills: exit codes, one line, nothing left behind."""

import json
import os
import shutil
import signal
import time

from case_chunk import chunk_server
from lab import Disk, Folder, Recording, check, finish, judged, report_of, run, tool, wait_until
from sources import read_ops


def expect(words, statuses, *mentions, program=None, timeout=60, before=()):
    """Runs the tool; its status, and exactly one line of error that says what is wrong."""
    done = run(*before, program or tool(), *words, ok=False, timeout=timeout)
    name = "stalltrace " + " ".join(map(str, words))
    check(done.returncode in statuses,
          f"{name}: exit {done.returncode}, not {statuses}: {done.stderr.strip()[-500:]}")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        check(len(lines) == 1, f"{name}: {len(lines)} lines of error: {done.stderr[-800:]!r}")
    text = done.stderr.lower()
    check(not mentions or any(mention.lower() in text for mention in mentions),
          f"{name}: no word of {mentions}: {done.stderr.strip()!r}")
    return done


def bad_input():
    with Folder() as folder, Disk(folder, "disk") as disk:
        chunk = ["run", "chunk-server", "--dir", disk.mountpoint, "--jobs", "1", "--size", "4m",
                 "--runtime", "1s"]
        expect(["run", "chunk-server", "--dir", folder.file("none")], {2}, "none")
        expect(["run", "chunk-server", "--dir", "/proc"], {2}, "/proc")
        expect(["run", "chunk-server", "--dir", folder.path, "--runtime", "1s"], {2}, folder.path)
        expect(["run", "no-such-scenario"], {2}, "no-such-scenario")
        expect(["run", "job", folder.file("none.fio")], {2}, "none.fio")
        expect(["trace", "--dev", "/dev/no-such", "-d", "1s"], {2}, "/dev/no-such")
        expect(["trace", "-p", "999999999", "-d", "1s"], {2}, "999999999")
        expect(["--no-such-option"], {2}, "no-such-option")
        expect(chunk + ["--no-such-option"], {2}, "no-such-option")
        for option, value in (("--size", "12x"), ("--size", "-4m"), ("--bs", "0"),
                              ("--runtime", "soon"), ("--jobs", "many"), ("--threshold", "10"),
                              ("--engine", "magic"), ("--iodepth", "0")):
            expect(chunk + [option, value], {2}, option, value)
        started = time.monotonic()
        expect(chunk + ["--runtime", "20s", "--json", folder.file("none/r.json")], {2}, "none/r")
        check(time.monotonic() - started < 10, "an unwritable --json is noticed after the run only")
        for words in (["create", "bad/name"], ["create", disk.name], ["destroy", "kt-none"],
                      ["create", "kt-new", "--size", "5"], ["create", "kt-new", "--flush", "x"],
                      ["destroy"]):
            expect(["disk", *words], {2})
        listed = json.loads(run(tool(), "disk", "list", "--json").stdout)["disks"]
        check(not [one for one in listed if one["name"] == "kt-new"], "a refused disk was made")


def not_root():
    with Folder() as folder, Disk(folder, "disk") as disk:
        program = folder.file("stalltrace")  # where nobody can read it
        shutil.copy2(tool(), program)
        os.chmod(program, 0o755)
        os.chmod(disk.mountpoint, 0o777)
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        for words in (["run", "chunk-server", "--dir", disk.mountpoint, "--jobs", "1", "--size",
                       "4m", "--runtime", "1s"],
                      ["trace", "-d", "1s"],
                      ["disk", "create", "kt-nobody"]):
            expect(words, {3}, "root", "cap_", "privilege", program=program, before=nobody)
        expect(["trace", "--", "true"], {125}, "root", "cap_", "privilege", program=program,
               before=nobody)
        done = run(*nobody, program, "doctor", ok=False)
        check(done.returncode == 3, f"doctor without root: exit {done.returncode}")


def full_disk():
    """The load cannot go on, and what was gathered until then is reported."""
    with Folder() as folder, Disk(folder, "small", size="64m") as disk:
        done = expect(["run", "chunk-server", "--dir", disk.mountpoint, "--jobs", "4", "--size",
                       "64m", "--runtime", "3s", "--json", folder.file("r.json")], {1, 2},
                      "space", timeout=60)
        check(disk.mountpoint in done.stderr or "chunk" in done.stderr,
              f"it does not say where: {done.stderr.strip()!r}")
        print(done.stderr.strip())
        # Either the load ran, then there is a report, or it did not, then there is none.
        if os.path.exists(folder.file("r.json")):
            report_of(folder, "r.json")
        left = os.listdir(disk.mountpoint)
        check(left in ([], ["lost+found"]), f"left on the full disk: {left}")


def no_journal():
    """ext4 without a journal: said once, and the rest is explained."""
    with Folder() as folder:
        with Disk(folder, "plain", flush="20ms", mkfs=("-O", "^has_journal")) as disk:
            with Recording(folder, [disk]) as recording:
                load = chunk_server(folder, disk, recording, 4, jobs=2, size="16m")
                out, err = finish(load, 60)
        check("journal" in out + err, "nobody says that there is no journal")
        report = report_of(folder)
        check(not any(entry["count"] for entry in report.json["commits"]), "commits of no journal")
        judged(report, disk, recording.path, read_ops(folder.file("ops.csv")), stalls=5)


def descendants(pid):
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def programs():
    """BPF programs: id -> pids that hold it."""
    done = run("bpftool", "-j", "prog", "show", ok=False)
    found = json.loads(done.stdout or "[]")
    return {one["id"]: {user["pid"] for user in one.get("pids", [])} for one in found}


class Footprint:
    """What a run may not leave: processes, BPF programs, pinned objects, mounts, loops."""

    def __init__(self):
        self.programs = set(programs())
        self.pins = set(os.listdir("/sys/fs/bpf"))

    def check(self, ours):
        wait_until(lambda: not any(map(alive, ours)), 15,
                   lambda: f"still alive: {[pid for pid in ours if alive(pid)]}")

        def ownerless():
            # Programs of somebody else's tracer that began meanwhile have a living owner.
            return [number for number, pids in programs().items()
                    if number not in self.programs and not pids - set(ours)]

        wait_until(lambda: not ownerless(), 10, 
                   lambda: f"BPF programs are left: {ownerless()}")
        check(set(os.listdir("/sys/fs/bpf")) <= self.pins, "objects are pinned in /sys/fs/bpf")


def spawn_run(folder, disk, recording):
    """A run of a minute; returns once its load is under way."""
    load = chunk_server(folder, disk, recording, 60, jobs=2, size="16m")

    def writing():
        return os.path.exists(disk.mountpoint + "/chunk-000") and len(descendants(load.pid)) > 0

    wait_until(lambda: writing() or load.poll() is not None, 30, "the load does not begin")
    check(load.poll() is None, "the run ended at once")
    time.sleep(3)
    return load


def interrupted():
    """Ctrl-C and SIGTERM end the window; the report follows, the exit status is 0."""
    for number in (signal.SIGINT, signal.SIGTERM):
        footprint = Footprint()
        with Folder() as folder:
            with Disk(folder, "slow", flush="20ms") as disk:
                with Recording(folder, [disk]) as recording:
                    load = spawn_run(folder, disk, recording)
                    ours = [load.pid, *descendants(load.pid)]
                    load.send_signal(number)
                    started = time.monotonic()
                    out, _ = finish(load, 30)
                    print(f"signal {number}: ended after {time.monotonic() - started:.2f} s")
                    footprint.check(ours)
                    check("device.flush" in out, "no text report")
            judged(report_of(folder), disk, recording.path,
                   read_ops(folder.file("ops.csv")), stalls=5)


def killed_tool():
    footprint = Footprint()
    with Folder() as folder, Disk(folder, "slow", flush="20ms") as disk:
        with Recording(folder, [disk]) as recording:
            load = spawn_run(folder, disk, recording)
            ours = [load.pid, *descendants(load.pid)]
            load.kill()
            load.communicate(timeout=20)
            footprint.check(ours)


def killed_load():
    """What was gathered is reported with exit status 1, and one line says what happened."""
    footprint = Footprint()
    with Folder() as folder, Disk(folder, "slow", flush="20ms") as disk:
        with Recording(folder, [disk]) as recording:
            load = spawn_run(folder, disk, recording)
            children = descendants(load.pid)
            for child in children:
                os.kill(child, signal.SIGKILL)
            _, err = finish(load, 30, status=1)
            lines = err.strip().splitlines()
            check(len(lines) == 1, f"{len(lines)} lines of error: {err[-800:]!r}")
            footprint.check([load.pid, *children])
        report = report_of(folder)
        check(report.stalls, "the stalls until then are not reported")
        print(f"{len(report.stalls)} stalls reported, {lines[0]!r}")


def killed_server():
    """The disk dies under a run: the run ends by itself, and `disk destroy` cleans up."""
    footprint = Footprint()
    with Folder() as folder:
        with Disk(folder, "slow", flush="20ms") as disk:
            with Recording(folder, [disk]) as recording:
                load = spawn_run(folder, disk, recording)
                ours = [load.pid, *descendants(load.pid)]
                os.kill(disk.daemon_pid, signal.SIGKILL)
                _, err = finish(load, 30, status=1)
                footprint.check(ours)
                print(f"the run says: {err.strip()!r}")
            check(disk.info()["state"] == "dead", "a disk without its server is not called dead")
            short, state = disk.short, disk.info()["state_folder"]
        check(not os.path.exists(state), f"{state} is left")
        check(not os.path.exists(f"/sys/block/{short}/loop"), f"{short} is left")
        with open("/proc/self/mountinfo") as file:
            left = [line for line in file if folder.path in line or state in line]
        check(not left, f"mounts are left: {left}")


CASES = [bad_input, not_root, full_disk, no_journal, interrupted, killed_tool,
         killed_load, killed_server]

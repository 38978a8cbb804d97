"""Power cuts: nothing that was synced is lost, and what cheats is caught."""

import json
import os
import signal
import subprocess
import time

from lab import Folder, check, run, seed, tool, wait_until

CUTS = 20


def powercut(folder, *words, status, cuts=CUTS, timeout=80):
    report = folder.file("powercut.json")
    if os.path.exists(report):
        os.unlink(report)
    started = time.monotonic()
    done = run(tool(), "run", "powercut", "--cuts", str(cuts), "--json", report, *words, ok=False,
               timeout=timeout)
    name = " ".join(map(str, words))
    check(done.returncode == status, f"{name}: exit {done.returncode}, not {status}: "
          f"{done.stdout.strip()} {done.stderr.strip()}")
    with open(report) as file:
        found = json.load(file)
    check(found["schema"] == "stalltrace.powercut/1", f"schema {found['schema']}")
    print(f"{name}: {len(found['cuts'])} cuts in {time.monotonic() - started:.1f} s, "
          f"{found['promised']} promised, {found['lost']} lost, {found['torn']} torn, "
          f"dropped {found['writes_dropped']}, syncs in flight {found['syncs_in_flight']}, "
          f"{found['bad_cuts']} bad cuts, {found['idle_cuts']} idle", flush=True)
    return found, done.stdout


def nothing_left(before):
    """Mounts, loop devices, FUSE, folders and processes of a run."""
    disks = json.loads(run(tool(), "disk", "list", "--json").stdout)["disks"]
    left = [disk["name"] for disk in disks if disk["name"].startswith("powercut-")]
    check(not left, f"disks are left: {left}")
    with open("/proc/self/mountinfo") as file:
        mounts = [line for line in file if "powercut-" in line]
    check(not mounts, f"mounts are left: {mounts}")
    check(set(loops()) <= before, f"loop devices are left: {set(loops()) - before}")
    folders = "/run/stalltrace/mounts"
    check(not os.path.exists(folders) or
          not [name for name in os.listdir(folders) if name.startswith("powercut-")],
          f"folders are left in {folders}")


def loops():
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file") as file:
                if "powercut-" in file.read():
                    yield name
        except OSError:
            pass


def ourselves():
    """This process and those above it, whose command lines may name the case."""
    pids, pid = set(), os.getpid()
    while pid > 1:
        pids.add(pid)
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    return pids


def ours():
    """Processes of runs and their disks."""
    found, above = [], ourselves()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"powercut" in file.read() and int(pid) not in above:
                    found.append(int(pid))
        except OSError:
            pass
    return found


def powercut_loses_nothing():
    before = set(loops())
    with Folder() as folder:
        found, text = powercut(folder, "--seed", str(seed().randrange(1 << 30)), status=0)
    cuts = found["cuts"]
    check(len(cuts) == CUTS, f"{len(cuts)} cuts, not {CUTS}")
    check(found["lost"] == found["torn"] == found["bad_cuts"] == 0, f"lost: {found}")
    check(found["verdict"] == "nothing lost" and "nothing lost" in text, text)
    for cut in cuts:
        check(cut["writes_dropped"] >= 1, f"cut {cut['number']} dropped nothing: {cut}")
        check(cut["syncs_in_flight"] >= 1, f"no sync in flight at cut {cut['number']}: {cut}")
        check(cut["promised"] >= 1, f"nothing was promised at cut {cut['number']}: {cut}")
        check(cut["mounted"] and cut["clean"], f"cut {cut['number']}: {cut}")
    nothing_left(before)


def powercut_catches_cheats():
    """A disk that lies, always or one time in fifty, and a file system told not to flush."""
    before = set(loops())
    number = seed().randrange(1 << 30)
    with Folder() as folder:
        for words in (["--lie", "always"], ["--lie", "50"], ["--mount-options", "nobarrier"]):
            found, text = powercut(folder, *words, "--until-lost", "--seed", str(number), status=1)
            last = found["cuts"][-1]
            check(last["faults"], f"{words}: nothing is named: {last}")
            check("LOST" in text and last["faults"][0] in text, text)
    nothing_left(before)


CHECKER = """#!/bin/sh
lost=0
while read -r token; do
  found=
  [ -e "$1/$token" ] && read -r found < "$1/$token"
  [ "$found" = "$token" ] || { echo "$token"; lost=1; }
done
exit $lost
"""
# A file is there for sure once it and its directory are synced.
WRITER = """i=0
while :; do
  i=$((i + 1))
  echo $i > "$STALLTRACE_DIR/$i" && sync "$STALLTRACE_DIR/$i" {more} && echo "promised $i"
done
"""


def powercut_of_a_program():
    before = set(loops())
    with Folder() as folder:
        checker = folder.file("check")
        with open(checker, "w") as file:
            file.write(CHECKER)
        os.chmod(checker, 0o755)
        command = ["--check", checker, "--", "sh", "-c"]
        honest = WRITER.replace("{more}", '"$STALLTRACE_DIR"')
        found, _ = powercut(folder, *command, honest, status=0, cuts=3)
        check(found["promised"] >= 3, f"{found['promised']} promised")
        # One that does not sync what it promises.
        hasty = WRITER.replace('&& sync "$STALLTRACE_DIR/$i" {more}', "")
        found, text = powercut(folder, "--until-lost", *command, hasty, status=1, cuts=3)
        check(found["lost"] > 0, text)
    nothing_left(before)


def powercut_interrupted():
    """Ctrl-C: what was found so far. Killed: its disk goes, too."""
    before = set(loops())
    for number in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen([tool(), "run", "powercut", "--cuts", "1000"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: set(loops()) - before, 20, "no disk")
        time.sleep(4)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        if number == signal.SIGINT:
            check(process.returncode == 0, f"exit {process.returncode}: {err}")
            check("stopped" in out and "nothing lost" in out, out)
        else:
            wait_until(lambda: not ours(), 60, lambda: f"processes are left: {ours()}")
        nothing_left(before)
        wait_until(lambda: not ours(), 10, lambda: f"processes are left: {ours()}")


CASES = [powercut_loses_nothing, powercut_catches_cheats, powercut_of_a_program,
         powercut_interrupted]

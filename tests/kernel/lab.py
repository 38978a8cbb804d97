"""What the kernel tests share: emulated disks, loads under the recorder, outside counters.

Everything made here has a name that begins with `kt-` and is gone when its `with` block ends.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "oracle"))

import judge  # noqa: E402
from recorder import Recorder, monotonic_ns  # noqa: E402
from sources import kdev, read_report, read_trace, read_truth  # noqa: E402

SKIPPED = 77
MS = 1_000_000
SECOND = 1000 * MS
ATTACH_S = 120  # an emulated CPU takes its time to check the BPF programs


class Skip(Exception):
    """The machine cannot run this case; the text says why."""


class Failure(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


def tool():
    path = os.environ.get("STALLTRACE")
    if not path or not os.access(path, os.X_OK):
        raise Skip(f"STALLTRACE names no program: {path!r}")
    return path


def seed():
    value = int(os.environ.get("KT_SEED", time.time_ns() // SECOND))
    print(f"seed: KT_SEED={value}", flush=True)
    return random.Random(value)


def run(*command, timeout=60, ok=True, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=timeout, stdin=subprocess.DEVNULL, **more)
    if ok and done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: exit {done.returncode}: "
                      f"{done.stderr.strip() or done.stdout.strip()}")
    return done


def require(*programs):
    if os.geteuid() != 0:
        raise Skip("needs root")
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        raise Skip("the kernel has no BTF")
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
    doctor = run(tool(), "doctor", ok=False)
    if doctor.returncode == 3:
        lines = (doctor.stderr.strip() or doctor.stdout.strip()).splitlines()
        raise Skip(f"stalltrace doctor: {lines[-1] if lines else 'refused'}")
    check(doctor.returncode == 0, f"doctor: exit {doctor.returncode}: {doctor.stderr.strip()}")


class Folder:
    """A folder in memory for logs and reports; kept where KT_KEEP says so."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="kt-", dir="/dev/shm")
        os.chmod(self.path, 0o755)
        return self

    def file(self, name):
        return os.path.join(self.path, name)

    def __exit__(self, *_):
        if os.environ.get("KT_KEEP"):
            target = os.path.join(os.environ["KT_KEEP"], os.path.basename(self.path))
            shutil.copytree(self.path, target, dirs_exist_ok=True,
                            ignore=lambda _, names: [n for n in names if n.startswith("mnt-")])
            print(f"kept: {target}")
        shutil.rmtree(self.path, ignore_errors=True)


class Disk:
    """An emulated disk, formatted and mounted."""

    def __init__(self, folder, name, flush="0", write="0", read="0", size="2g", fs="ext4",
                 mkfs=(), options="", mount=True):
        self.folder, self.fs, self.mkfs, self.options = folder, fs, mkfs, options
        self.name = f"kt-{os.getpid()}-{name}"
        self.delays = {"flush": flush, "write": write, "read": read}
        self.size, self.want_mount = size, mount
        self.truth_path = folder.file(f"truth-{name}.csv")
        self.schedule = folder.file(f"schedule-{name}")
        self.mountpoint = folder.file(f"mnt-{name}")

    def __enter__(self):
        open(self.schedule, "w").close()
        words = [word for op, delay in self.delays.items() for word in (f"--{op}", delay)]
        done = run(tool(), "disk", "create", self.name, "--size", self.size, *words, "--schedule",
                   self.schedule, "--truth", self.truth_path)
        self.device = done.stdout.strip()
        try:
            self.short = os.path.basename(self.device)
            with open(f"/sys/block/{self.short}/dev") as file:
                self.dev = file.read().strip()
            self.kdev = kdev(self.dev)
            info = self.info()
            self.created_ns = info["created_monotonic_ns"]
            self.daemon_pid = info["daemon_pid"]
            os.mkdir(self.mountpoint)
            if self.want_mount:
                self.format_and_mount()
        except BaseException:
            self.destroy()
            raise
        return self

    def info(self):
        disks = json.loads(run(tool(), "disk", "list", "--json").stdout)["disks"]
        return next((disk for disk in disks if disk["name"] == self.name), None)

    def format_and_mount(self):
        extra = ["-E", "lazy_itable_init=0,lazy_journal_init=0"] if self.fs == "ext4" else []
        run(f"mkfs.{self.fs}", "-q", *extra, *self.mkfs, self.device)
        words = ["-o", self.options] if self.options else []
        run("mount", *words, self.device, self.mountpoint)

    def plan(self, windows):
        """Faults as (from, to, op, delay): seconds from now."""
        now = (monotonic_ns() - self.created_ns) / SECOND
        with open(self.schedule, "w") as file:
            for begin, end, op, delay in windows:
                file.write(f"{now + begin:.6f}s {now + end:.6f}s {op} {delay}\n")
        run(tool(), "disk", "reload", self.name)

    def destroy(self):
        run(tool(), "disk", "destroy", self.name, timeout=120)

    def truth(self):
        """Complete once the disk is destroyed."""
        return read_truth(self.truth_path)

    def __exit__(self, kind, *_):
        try:
            self.destroy()
        except Failure as failure:
            if kind is None:
                raise
            print(failure)


def report_of(folder, name="report.json"):
    path = folder.file(name)
    try:
        return read_report(path)
    except (OSError, ValueError, KeyError) as error:
        raise Failure(f"no report in {name} ({os.path.exists(path) and os.path.getsize(path)} "
                      f"bytes): {error}") from None


class Counters:
    """The kernel's own counts of a disk with a journal."""

    def __init__(self, disk):
        self.disk = disk
        self.before = self.now()

    def now(self):
        counts = {}
        with open(f"/sys/block/{self.disk.short}/stat") as file:
            counts["flushes"] = int(file.read().split()[15])
        try:
            with open(f"/proc/fs/jbd2/{self.disk.short}-8/info") as file:
                counts["commits"] = int(file.readline().split()[0])
        except FileNotFoundError:
            pass
        return counts

    def growth(self):
        now = self.now()
        return {key: now[key] - self.before[key] for key in now if key in self.before}


class Recording:
    """The recorder around one or more programs, which begin only once they are followed."""

    def __init__(self, folder, disks, calls=(), name="t", **recorder):
        self.path = folder.file(f"trace-{name}.txt")
        self.recorder = Recorder(f"kt-{os.getpid()}-{name}", self.path,
                                 [disk.kdev for disk in disks], calls, **recorder)
        for disk in disks:
            self.recorder.follow_helpers(disk.short)
        self.processes = []

    def __enter__(self):
        return self

    def spawn(self, *command, follow=True, **more):
        """Starts `command`; its stdout and stderr are pipes unless said otherwise."""
        holder = ["sh", "-c", 'read -r _; exec "$@" </dev/null', "sh"]
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen(holder + [str(word) for word in command],
                                   stdin=subprocess.PIPE, text=True, **more)
        self.processes.append(process)
        if follow:
            self.recorder.follow(process.pid)
        process.stdin.write("\n")
        process.stdin.close()
        process.stdin = None
        return process

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self.recorder.stop()


def finish(process, timeout, status=0):
    """Waits for a spawned program and returns what it printed."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failure(f"{process.args[4:]} did not end within {timeout} s") from None
    command = " ".join(process.args[4:])
    check(process.returncode == status, f"{command}: exit {process.returncode}, not {status}: "
          f"{err.strip()[-2000:]}")
    return out, err


def wait_attached(process):
    """Returns once a tracer's window is open: the thread that reads its events is there."""
    deadline = time.monotonic() + ATTACH_S
    while True:
        check(process.poll() is None, f"the tracer ended at once: {process.args[4:]}")
        check(time.monotonic() < deadline,
              f"the tracer does not open its window within {ATTACH_S} s")
        try:
            if len(os.listdir(f"/proc/{process.pid}/task")) > 1:
                break
        except OSError:
            pass
        time.sleep(0.02)
    time.sleep(0.1)


def interrupt(process, timeout=30):
    """Ctrl-C: the report follows."""
    process.send_signal(signal.SIGINT)
    return finish(process, timeout)


def judged(report, disk, trace_path, ops=None, checks=judge.CHECKS, growth=None, innocent=(),
           tolerance=None, **limits):
    """The judge's verdict, printed; a Failure where it is not ok. The disk must be destroyed."""
    inputs = judge.Inputs(report=report, disk=disk.kdev, truth=disk.truth(),
                          trace=read_trace(trace_path), ops=ops, growth=growth,
                          innocent=[other.kdev for other in innocent])
    verdict = judge.judge(inputs, checks, judge.Limits(**limits), tolerance)
    print(verdict.text(), flush=True)
    check(verdict.ok, "the judge found faults: " + "; ".join(verdict.failures[:3]))
    return inputs


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline,
              f"after {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.05)

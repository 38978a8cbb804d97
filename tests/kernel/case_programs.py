"""Programs that are not ours and sync: fs_mark, SQLite, PostgreSQL under `stalltrace trace`, their
batching section against the kernel's own events, strace, the programs' own counts and the disk."""

import glob
import json
import os
import pwd
import re
import shutil
import statistics

from kernel_events import ALL, KernelEvents, Seen, near
from lab import Counters, Disk, Folder, Skip, check, run, seed, tool

SYNC_CALLS = "fsync,fdatasync,sync,syncfs,msync,sync_file_range"


def traced(folder, disk, name, command, timeout=120):
    """Under the tracer: what it printed, the report, and the kernel's view of its window."""
    path = folder.file(f"{name}.json")
    before = Counters(disk)
    with KernelEvents(*ALL, woken=f"jbd2/{disk.short}-8") as kernel:
        kernel.only(disk)
        done = run(tool(), "trace", "--dev", disk.device, "--json", path, "--", *command,
                   timeout=timeout, cwd=folder.path)
        with open(path) as file:
            report = json.load(file)
        start = report["window"]["start_monotonic_ns"]
        seen = Seen(kernel, disk.dev, start, start + round(report["window"]["duration_s"] * 1e9))
        growth = before.growth()
        whole = Seen(kernel, disk.dev, 0, 1 << 63)
    # The kernel's counters say that ftrace missed nothing.
    check(growth == {"flushes": len(whole.flushes), "commits": len(whole.commits)},
          f"/proc and diskstats: {growth}, ftrace: {len(whole.flushes)} flushes, "
          f"{len(whole.commits)} commits")
    check(report["loss"]["events"] == 0, f"events were lost: {report['loss']}")
    check("fsync batching" in done.stdout, f"the report has no such section: {done.stdout[-2000:]}")
    return done.stdout, report, seen


def mean_us(all_spans):
    return statistics.mean(end - begin for begin, end, _ in all_spans) / 1000


def compare(report, seen, seconds):
    """The section's counts, factors and costs with what the kernel and the disk saw."""
    check(len(report["batching"]) == 1, f"not one file system: {report['batching']}")
    ours = report["batching"][0]
    syncs, flushes = sum(ours["syncs"].values()), sum(ours["flushes"].values())
    more = seen.whole_syncs
    check(0 <= syncs - len(seen.syncs) <= more,
          f"{syncs} syncs, the kernel saw {len(seen.syncs)} and {more} of the whole")
    commits = ours["commits"] + ours["timer_commits"]
    check(commits == len(seen.commits), f"{commits} commits, the kernel saw {len(seen.commits)}")
    check(flushes == len(seen.flushes), f"{flushes} flushes, the kernel saw {len(seen.flushes)}")
    own = ours["syncs"]["flush_only"] + ours["own_flush"]
    check(0 <= own - len(seen.asked_for_a_flush) <= more,
          f"{own} syncs flushed themselves, the kernel saw {len(seen.asked_for_a_flush)}")
    print(f"  commits: {ours['commits']} for syncs, {ours['timer_commits']} for none, "
          f"from outside {len(seen.wanted_commits)} of {len(seen.commits)} for syncs")
    check(0 <= ours["commits"] - len(seen.wanted_commits) <= more,
          f"{ours['commits']} commits for syncs, from outside {len(seen.wanted_commits)}")
    requests = len(seen.wanted_commits) + len(seen.flush_only)
    others = flushes - ours["flushes"]["commit"] - ours["flushes"]["sync"]
    check(others <= 0.1 * flushes, f"flushes for neither commits nor syncs: {ours['flushes']}")
    near("syncs per commit or flush asked for", ours["syncs_per_commit"], syncs / requests)
    near("those per flush", ours["commits_per_flush"], requests / (flushes - others))
    near("flushes/s", ours["flushes_per_s"], (flushes - others) / seconds)
    near("a sync, us", ours["fsync_us"]["mean"], mean_us(seen.syncs))
    near("a flush, us", ours["flush_us"]["mean"], mean_us(seen.flushes))
    if seen.commits:
        near("a commit, us", ours["commit_us"]["mean"], mean_us(seen.commits))
    return ours


def strace(folder, *command):
    return ["strace", "-f", "--seccomp-bpf", "-c", "-o", folder.file("strace.txt"), "-e",
            f"trace={SYNC_CALLS}", "--", *command]


def calls_by_strace(folder):
    """Sync calls by name."""
    with open(folder.file("strace.txt")) as file:
        rows = [line.split() for line in file]
    return {row[-1]: int(row[3]) for row in rows if row and row[-1] in SYNC_CALLS.split(",")}


def sqlite_files(folder, disk, writers, inserts):
    """A database and its work for each writer: every insert is a transaction."""
    words = []
    for i in range(writers):
        database, work = f"{disk.mountpoint}/{i}.db", folder.file(f"{i}.sql")
        run("sqlite3", database, "PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, "
            "text TEXT);")
        with open(work, "w") as file:
            file.write("PRAGMA synchronous=FULL;\n")
            file.writelines(f"INSERT INTO t(text) VALUES('{'x' * 300}');\n"
                            for _ in range(inserts))
        words.append(f"sqlite3 {database} <{work} &")
    return " ".join(words) + " wait"


def batch_programs():
    """fs_mark and SQLite: syncs per commit, per flush, their cost, each from outside."""
    for program in ("fs_mark", "sqlite3", "strace"):
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
    flush = f"{seed().uniform(5, 9):.2f}ms"
    with Folder() as folder, Disk(folder, "slow", flush=flush) as disk:
        files = f"{disk.mountpoint}/fs_mark"
        os.mkdir(files)
        print(f"fs_mark, 4 threads, flush {flush}")
        command = strace(folder, "fs_mark", "-s", "20480", "-n", "60", "-L", "1", "-t", "4", "-d",
                         files)
        _, report, seen = traced(folder, disk, "fs_mark", command)
        ours = compare(report, seen, report["window"]["duration_s"])
        calls = calls_by_strace(folder)
        print(f"  strace: {calls}; ours: {ours['syncs']}")
        check(calls == {"fsync": 240} and sum(ours["syncs"].values()) == 240, f"{calls}")
        check(ours["syncs"]["with_commit"] >= 236, f"a new file needs a commit: {ours['syncs']}")
        check(ours["syncs_per_commit"] > 1.5, "4 threads share commits")

        writers, inserts = 4, 50
        print(f"SQLite in WAL mode, {writers} writers with a database each, flush {flush}")
        script = sqlite_files(folder, disk, writers, inserts)
        run("sync", "-f", disk.mountpoint)
        _, report, seen = traced(folder, disk, "sqlite",
                                 strace(folder, "sh", "-c", script))
        ours = compare(report, seen, report["window"]["duration_s"])
        calls = calls_by_strace(folder)
        print(f"  strace: {calls}; ours: {ours['syncs']}")
        made = sum(calls.values())
        check(made == sum(ours["syncs"].values()), f"strace saw {calls}")
        check(made >= writers * inserts, f"{made} syncs for {writers * inserts} transactions")
        for i in range(writers):
            rows = run("sqlite3", f"{disk.mountpoint}/{i}.db", "SELECT count(*) FROM t").stdout
            check(int(rows) == inserts, f"database {i} has {rows.strip()} rows")


class Postgres:
    """A cluster of its own on the disk, reachable through a socket only."""

    def __init__(self, folder, disk):
        programs = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if not programs or not shutil.which("pgbench") or not shutil.which("setpriv"):
            raise Skip("PostgreSQL is not installed (package postgresql)")
        try:
            self.user = pwd.getpwnam("postgres")
        except KeyError:
            raise Skip("there is no user postgres (package postgresql makes it)") from None
        self.programs = os.path.dirname(programs[-1])
        self.data = f"{disk.mountpoint}/pg"
        self.socket = folder.file("socket")
        self.log = folder.file("postgres.log")

    def as_user(self, program, *words, timeout=120):
        return run("setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}",
                   "--init-groups", f"{self.programs}/{program}", *words, timeout=timeout, cwd="/")

    def __enter__(self):
        for path in (self.data, self.socket):
            os.mkdir(path, 0o700)
            os.chown(path, self.user.pw_uid, self.user.pw_gid)
        open(self.log, "w").close()
        os.chown(self.log, self.user.pw_uid, self.user.pw_gid)
        self.as_user("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync")
        with open(f"{self.data}/postgresql.conf", "a") as file:
            # Its checkpoints are not what is measured; all else is as it comes.
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.socket}'\n"
                       "checkpoint_timeout = 1h\nmax_wal_size = 4GB\n")
        try:
            self.as_user("pg_ctl", "-D", self.data, "-l", self.log, "-w", "-t", "60", "start")
        except BaseException:
            with open(self.log) as file:
                print(file.read()[-1000:])
            self.stop()
            raise
        return self

    def stop(self):
        if os.path.exists(f"{self.data}/postmaster.pid"):
            self.as_user("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")

    def __exit__(self, *_):
        self.stop()

    def query(self, text):
        return run("psql", "-h", self.socket, "-U", "postgres", "-Atqc", text, "postgres").stdout

    def numbers(self, text):
        return [int(word) for word in self.query(text).strip().split("|")]

    def bench(self, *words):
        return ["pgbench", "-h", self.socket, "-U", "postgres", *map(str, words), "postgres"]


def batch_postgres():
    """PostgreSQL: the commits of 1, 4 and 16 clients of pgbench."""
    rates = {}
    flush = f"{seed().uniform(5, 9):.2f}ms"
    with Folder() as folder, Disk(folder, "slow", flush=flush) as disk, \
            Postgres(folder, disk) as server:
        run(*server.bench("-i", "-q", "-s", "2"), timeout=120)
        server.query("CHECKPOINT")
        for clients in (1, 4, 16):
            before = server.numbers("SELECT wal_sync FROM pg_stat_wal")
            out, report, seen = traced(
                folder, disk, f"pgbench-{clients}",
                server.bench("-n", "-N", "-c", clients, "-j", min(clients, 2), "-T", "8"))
            logged = server.numbers("SELECT wal_sync FROM pg_stat_wal")[0] - before[0]
            done = int(re.search(r"actually processed: (\d+)", out)[1])
            print(f"pgbench, {clients} clients, flush {flush}: {done} transactions, "
                  f"{logged} syncs of the log by pg_stat_wal")
            ours = compare(report, seen, report["window"]["duration_s"])
            syncs = sum(ours["syncs"].values())
            near("syncs, by PostgreSQL's count", syncs, logged)
            rates[clients] = done / report["window"]["duration_s"]
            print(f"  {rates[clients]:.1f} transactions/s, {done / syncs:.2f} per sync, "
                  f"{ours['syncs']}, {ours['flushes']}, parts {ours['sync_parts_us']}, "
                  f"no flush runs {100 * ours['idle_share']:.1f} %")
    check(rates[16] > 1.5 * rates[1], f"more clients commit no more: {rates}")


CASES = [batch_programs, batch_postgres]

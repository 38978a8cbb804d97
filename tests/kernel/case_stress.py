"""Everything that stress-ng does to a file system: whatever it waits for has a cause."""

import shutil

from case_trace import calls_of, trace
from lab import Disk, Folder, Recording, Skip, finish, interrupt, judged, report_of, seed

# Each in a few tasks of its own. None of them calls sync(2), which waits for file systems that are
# not traced as well.
STRESSORS = ("sync-file", "aio", "msync", "fallocate", "xattr", "copy-file", "rename",
             "chmod", "hdd", "symlink", "dir")
OPTIONS = (("", "defaults"), ("", "data=journal"), ("-O ^extents,^64bit", "nodelalloc"))
CALLS = ("fsync", "fdatasync", "io_submit")  # judged one by one


def stress():
    """Six of stress-ng's loads on file systems made and mounted in three ways."""
    if not shutil.which("stress-ng"):
        raise Skip("stress-ng is not installed")
    rng = seed()
    for features, options in OPTIONS:
        for stressor in rng.sample(STRESSORS, 2):
            one_stressor(rng, stressor, features, options)


def one_stressor(rng, stressor, features, options):
    print(f"== {stressor}, mkfs {features or 'as usual'}, {options}", flush=True)
    with Folder() as folder:
        with Disk(folder, "slow", flush=f"{rng.randint(20, 40)}ms", write=f"{rng.randint(5, 15)}ms",
                  read=f"{rng.randint(5, 15)}ms", size="3g", mkfs=features.split(),
                  options=options) as disk:
            with Recording(folder, [disk], calls=CALLS) as recording:
                tracer = trace(recording, "--dev", disk.device, "--json",
                               folder.file("report.json"))
                load = recording.spawn("stress-ng", f"--{stressor}", "3", "-t", "4", "--seed",
                                       rng.randint(1, 10**6), "--temp-path", disk.mountpoint)
                finish(load, 120)
                interrupt(tracer)
        report = report_of(folder)
        judged(report, disk, recording.path, calls_of(recording.path),
               checks=("sources", "completeness", "sums", "attribution", "flushes", "loss"),
               unexplained=0.01, cpu_claims=0.3)  # they keep the CPUs busy


CASES = [stress]

#!/usr/bin/env python3
"""Runs cases of the kernel tests: run.py CASE [CASE ...]. --list names them all, --rows the fault
rows (scripts/accuracy runs those), --short-rows the ones of them that scripts/test runs, --vm-rows
those that run on another kernel, with the kernels to run them on (scripts/accuracy --vm),
--vm-cases these and the other cases that do (scripts/soak), --vm-packages CASE the Debian packages
that one needs in the guest.

STALLTRACE names the tool's binary. KT_SEED repeats a run's faults, KT_KEEP is a folder in which
traces, logs and reports are kept. Exit status: 0 passed, 1 failed, 77 skipped.
"""

import os
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import case_assembled  # noqa: E402
import case_batch  # noqa: E402
import case_chunk  # noqa: E402
import case_dio  # noqa: E402
import case_errors  # noqa: E402
import case_fault_blocks  # noqa: E402
import case_fault_journal  # noqa: E402
import case_fault_mapped  # noqa: E402
import case_fault_modes  # noqa: E402
import case_fio  # noqa: E402
import case_fio_device  # noqa: E402
import case_knobs  # noqa: E402
import case_live  # noqa: E402
import case_metadata  # noqa: E402
import case_nowait  # noqa: E402
import case_osync  # noqa: E402
import case_powercut  # noqa: E402
import case_programs  # noqa: E402
import case_stress  # noqa: E402
import case_trace  # noqa: E402
import case_whose  # noqa: E402
from lab import SKIPPED, Failure, Skip, require  # noqa: E402

ROWS = {case.__name__: case for module in (case_fault_journal, case_fault_modes, case_fault_blocks,
                                               case_fault_mapped)
        for case in module.CASES}
CASES = {case.__name__: case for module in (case_chunk, case_trace, case_errors, case_batch,
                                            case_fio, case_fio_device, case_knobs, case_metadata,
                                            case_powercut, case_osync, case_assembled, case_dio,
                                            case_nowait, case_programs, case_stress, case_live,
                                            case_whose)
         for case in module.CASES} | ROWS
# One row for each kind of chain: scripts/test has no time for all of them.
SHORT = ("held_handle_read", "shared_buffer", "log_space", "two_faults", "hung", "begun_before",
         "extending_aio", "fs_frozen_before", "queue_depth", "blkio_limit")
# Rows for kernels of scripts/vm: what does not happen on 6.18, what needs modules, and locks that
# are rt_mutexes.
VM_ONLY = {"held_handle_quota": ("6.1", "6.12"), "mapped_devices": ("6.1", "6.12")}
VM_ROWS = VM_ONLY | {"extending_aio": ("6.12-rt",)}
VM_CASES = VM_ROWS | {"assembled_devices": ("6.1", "6.12")}
VM_PACKAGES = {"assembled_devices": ("lvm2", "libdevmapper-event1.02.1", "mdadm")}
NEEDS = {"foreign": ("fio", "ioping")} | dict.fromkeys(
    ("decoy", "nowait_reasons", "dio_fio", "dio_fio_full", "fio_jobs_quick", "fio_jobs_all",
     "flight"), ("fio",))


def run_case(name):
    started = time.monotonic()
    try:
        require(*NEEDS.get(name, ()))
        CASES[name]()
    except Skip as skip:
        print(f"skipped: {name}: {skip}")
        return SKIPPED
    except Failure as failure:
        print(f"FAILED: {name}: {failure}")
        return 1
    except Exception:
        traceback.print_exc()
        print(f"FAILED: {name}: the test itself broke")
        return 1
    print(f"passed: {name} in {time.monotonic() - started:.1f} s", flush=True)
    return 0


def main(arguments):
    def on_kernels(cases):
        return [f"{name} {kernel}" for name, kernels in cases.items() for kernel in kernels]

    lists = {"--list": CASES, "--rows": [name for name in ROWS if name not in VM_ONLY],
             "--short-rows": SHORT,
             "--vm-rows": on_kernels(VM_ROWS), "--vm-cases": on_kernels(VM_CASES)}
    if len(arguments) == 1 and arguments[0] in lists:
        print("\n".join(lists[arguments[0]]))
        return 0
    if len(arguments) == 2 and arguments[0] == "--vm-packages":
        print("\n".join(VM_PACKAGES.get(arguments[1], ())))
        return 0
    unknown = [name for name in arguments if name not in CASES]
    if unknown or not arguments:
        print(__doc__, file=sys.stderr)
        print(f"no such case: {', '.join(unknown)}" if unknown else "no case named",
              file=sys.stderr)
        return 2
    results = [run_case(name) for name in arguments]
    return next((result for result in (1, SKIPPED) if result in results), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

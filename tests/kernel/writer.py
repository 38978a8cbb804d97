#!/usr/bin/env python3
"""A program that stalls: appends and syncs files, and logs its own calls.

writer.py DIR --ops FILE [--threads N] [--loops N] [--overwrite] [--pause S] [--status N]
"""

import argparse
import os
import sys
import threading
import time


def clock():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def work(number, options, ops):
    path = os.path.join(options.folder, f"w{number}")
    block = os.urandom(8192)
    tid = threading.get_native_id()
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    if options.overwrite:
        os.pwrite(file, block, 0)
        os.fsync(file)
    for turn in range(options.loops):
        start = clock()
        os.pwrite(file, block, 0 if options.overwrite else turn * len(block))
        middle = clock()
        sync = os.fdatasync if options.overwrite else os.fsync
        sync(file)
        end = clock()
        ops.append((turn, "write", tid, start, middle))
        ops.append((turn, sync.__name__, tid, middle, end))
        time.sleep(options.pause)
    os.close(file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--ops", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--loops", type=int, default=1)
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--status", type=int, default=0)
    options = parser.parse_args()
    ops = []
    threads = [threading.Thread(target=work, args=(number, options, ops))
               for number in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(options.ops, "w") as file:
        file.write("id,kind,tid,start_ns,end_ns,result,reap_from_ns\n")
        for number, kind, tid, start, end in ops:
            if end - start >= 1_000_000:
                file.write(f"{number},{kind},{tid},{start},{end},0,{end}\n")
    return options.status


if __name__ == "__main__":
    sys.exit(main())

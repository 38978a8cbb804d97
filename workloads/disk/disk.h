// The emulated disk: a FUSE file in memory under a loop device, with chosen service times, faults
// at known times and a log of the truth. Everything here needs root, and throws stalltrace::Error:
// refused where the kernel or the privileges do not allow it, usage for bad input, failed else.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stalltrace::disk {

struct DiskOptions {
  std::string name;                  // [A-Za-z0-9_.-]+, no leading . or -, at most 64 characters
  uint64_t size_bytes = 4ULL << 30;  // a multiple of 4096; memory is used for written pages only
  uint64_t read_ns = 0;              // service times; 0 is answered at once
  uint64_t write_ns = 0;
  uint64_t flush_ns = 0;
  std::string schedule_path;  // empty: none. Re-read on SIGHUP to the daemon
  std::string truth_path;     // empty: none. Created or emptied
  uint32_t block_size = 512;  // logical block size of the loop device, 512 or 4096
  // Queue settings of the loop device. The device is made for this disk and removed with it.
  std::string scheduler = "none";
  uint32_t nr_requests = 128;
  uint64_t wbt_lat_us = 0;  // 0: writeback throttling off
};

enum class DiskState {
  kServing,
  kDead,       // the daemon is gone: every request fails
  kIncomplete  // being created, or its creator was killed: `destroy` cleans it
};

struct DiskInfo {
  std::string name;
  std::string device;  // "/dev/loop3"; empty while there is none
  uint32_t kdev = 0;   // (major << 20) | minor; 0 while there is no device
  uint64_t size_bytes = 0;
  uint64_t read_ns = 0;
  uint64_t write_ns = 0;
  uint64_t flush_ns = 0;
  std::string schedule_path;  // absolute
  std::string truth_path;     // absolute
  std::string state_folder;   // holds state.json, the daemon's log and the FUSE mount
  pid_t daemon_pid = 0;
  uint64_t created_monotonic_ns = 0;  // the schedule's times count from here
  DiskState state = DiskState::kIncomplete;
  std::vector<std::string> mountpoints;
};

const char* to_string(DiskState state);

// One line for a person: what is waited for, who holds the device. May be empty.
using Notice = std::function<void(const std::string&)>;

// Serving and with its queue set when this returns. On failure nothing is left behind.
// SIGINT, SIGTERM and SIGHUP are held back meanwhile (some 50 ms).
DiskInfo create(const DiskOptions& options);

// All disks, by name.
std::vector<DiskInfo> list();

// The disk of that name; a usage Error if there is none.
DiskInfo find(const std::string& name);

// Unmounts what is mounted from it, detaches and removes the loop device, stops the daemon and
// removes the state. Works on whatever a crash left. Requests under way are waited for (30 s), then
// answered at once (30 s), then failed. A failed Error names the processes that hold the device:
// the state stays, and a later destroy goes on.
void destroy(const std::string& name, const Notice& notice = {});

// Destroys every disk, goes on past failures, and throws a failed Error at the end if there was one
// (each has been told to `notice`). Returns the names of the disks destroyed.
std::vector<std::string> destroy_all(const Notice& notice = {});

// Makes the daemon read its schedule file again and waits until it has. A usage Error names the
// file's wrong line; the daemon then keeps the schedule it had.
void reload_schedule(const std::string& name);

// Returns once every request answered so far is in the truth log: a process of its own writes it,
// so that a slow file system under the log cannot slow the disk.
void settle_truth(const std::string& name);

}  // namespace stalltrace::disk

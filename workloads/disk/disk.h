// The emulated disk: a FUSE file in memory under a loop device, with chosen service times, faults
// at known times and a log of the truth. Everything here needs root, and throws stalltrace::Error:
// refused where the kernel or the privileges do not allow it, usage for bad input, failed else.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stalltrace::disk {

// Where a completed write lies until a flush.
enum class Cache {
  kOff,      // stable at once: a power cut loses nothing that was completed
  kVolatile  // in a cache that a flush drains and a power cut may lose
};

struct DiskOptions {
  std::string name;                  // [A-Za-z0-9_.-]+, no leading . or -, at most 64 characters
  uint64_t size_bytes = 4ULL << 30;  // a multiple of 4096; memory is used for written pages only
  std::string profile;               // a kind of disk (see profile.h); empty: the plain times below
  std::optional<uint64_t> read_ns;   // service times instead of the profile's; without a profile
  std::optional<uint64_t> write_ns;  // none is 0: answered at once
  std::optional<uint64_t> flush_ns;
  std::optional<Cache> cache;  // none: the profile's; without one volatile if it lies, else off
  uint64_t lie_one_in = 0;     // one flush in so many is acknowledged and skipped; 1: all, 0: none
  uint64_t seed = 1;           // of the profile's times, the lies and the cuts
  std::string schedule_path;   // empty: none. Re-read on SIGHUP to the daemon
  std::string truth_path;      // empty: none. Created or emptied
  uint32_t block_size = 512;   // logical block size of the loop device, 512 or 4096
  // Queue settings of the loop device. The device is made for this disk and removed with it.
  std::string scheduler = "none";
  uint32_t nr_requests = 128;
  uint64_t wbt_lat_us = 0;  // 0: writeback throttling off
};

enum class DiskState {
  kServing,
  kCut,        // without power: every request fails until power_on()
  kDead,       // the daemon is gone: every request fails
  kIncomplete  // being created, or its creator was killed: `destroy` cleans it
};

struct DiskInfo {
  std::string name;
  std::string device;  // "/dev/loop3"; empty while there is none
  uint32_t kdev = 0;   // (major << 20) | minor; 0 while there is no device
  uint64_t size_bytes = 0;
  std::string profile;   // empty: none
  uint64_t read_ns = 0;  // what a small one takes; on average, with a profile
  uint64_t write_ns = 0;
  uint64_t flush_ns = 0;
  Cache cache = Cache::kOff;
  bool write_through = false;  // no flush reaches it
  uint64_t lie_one_in = 0;
  uint64_t seed = 1;
  std::string schedule_path;  // absolute
  std::string truth_path;     // absolute
  std::string state_folder;   // holds state.json, the daemon's log and the FUSE mount
  pid_t daemon_pid = 0;
  uint64_t created_monotonic_ns = 0;  // the schedule's times count from here
  DiskState state = DiskState::kIncomplete;
  std::vector<std::string> mountpoints;
};

const char* to_string(DiskState state);
const char* to_string(Cache cache);

// What a power cut did. A write counts as dropped if any of its pages lost what it had written.
struct CutOutcome {
  uint64_t seed = 0;
  uint64_t at_ns = 0;           // CLOCK_MONOTONIC: what was answered later failed
  uint64_t writes_dropped = 0;  // of those completed and not drained by a flush
  uint64_t writes_kept = 0;
  uint64_t writes_in_flight = 0;  // failed; what they wrote may be there or not
  uint64_t flushes_in_flight = 0;
  uint64_t pages_dropped = 0;  // of 4 KiB
  uint64_t pages_kept = 0;
};

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

// Cuts the disk's power: from then on every request fails, those under way too, and of the writes
// that no flush has drained any subset survives, page by page, in any of their versions. Without a
// seed one is derived from the disk's. With `wait_ns` it waits so long for a moment at which there
// is something to lose, and cuts then in any case. A usage Error if there is no power.
CutOutcome cut(const std::string& name, std::optional<uint64_t> seed = {}, uint64_t wait_ns = 0);

// Serves again, with what survived. The kernel's cached blocks of the device are dropped first,
// unless it is mounted. A usage Error if there is power.
void power_on(const std::string& name);

// What is in the disk's cache becomes stable, as after a while without requests, whether it lies
// or not.
void drain_cache(const std::string& name);

// A folder for a mount of the disk (made by whoever mounts): `destroy` removes it.
std::string mountpoint_for(const std::string& name);

// Returns once every request answered so far is in the truth log: a process of its own writes it,
// so that a slow file system under the log cannot slow the disk.
void settle_truth(const std::string& name);

}  // namespace stalltrace::disk

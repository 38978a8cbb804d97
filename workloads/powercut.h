// Power cuts of an emulated disk under a file system at work: is what was promised still there?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "workloads/disk/disk.h"

namespace stalltrace::workloads {

struct PowercutOptions {
  unsigned cuts = 20;
  uint64_t seed = 1;
  disk::DiskOptions disk;     // its name and seed are chosen by the run
  std::string mount_options;  // as for mount -o
  unsigned threads = 4;
  unsigned files = 100;  // the cut comes before each thread has made so many, on average
  uint64_t file_bytes = 20480;
  std::vector<std::string> command;  // instead of our own load
  std::string checker;               // with a command
  bool until_lost = false;           // the first cut that loses something is the last
};

struct PowercutCut {
  unsigned number = 0;
  disk::CutOutcome disk;
  std::optional<uint64_t> syncs_in_flight;
  uint64_t promised = 0;
  uint64_t lost = 0;
  uint64_t torn = 0;
  bool mounted = true;              // after the cut: the journal could be replayed
  bool clean = true;                // e2fsck found nothing
  std::vector<std::string> faults;  // what is lost, torn or damaged; at most a hundred
  [[nodiscard]] bool is_good() const { return lost == 0 && torn == 0 && mounted && clean; }
};

struct PowercutResult {
  std::vector<PowercutCut> cuts;
  unsigned idle_cuts = 0;  // not counted: no sync was in flight, or nothing was there to lose
  bool stopped = false;
};

struct PowercutHooks {
  std::function<bool()> stop;  // asked often; true ends the run
  std::function<void(const PowercutCut&)> done;
};

// Makes its own disk, and removes it with all that hangs on it, also when it throws; what was
// found until then is in `result`. Needs root and one thread. Errors: usage (options, a checker
// that cannot be run), refused (no FUSE, loop devices or privileges), failed (the load ended by
// itself, no room, mkfs, mount of a fresh file system).
void run_powercut(const PowercutOptions& options, const PowercutHooks& hooks,
                  PowercutResult& result);

}  // namespace stalltrace::workloads

// What `--try` turns: mount options of a file system and settings of its disk's queue. Each is put
// back whatever happens: what was there before is kept in a file until it has been.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/fd.h"
#include "userspace/kernel/devices.h"
#include "userspace/kernel/mounts.h"

namespace stalltrace::kernel {

// Mount options by remounting: max_batch_time, min_batch_time, barrier, lazytime, commit,
// dioread_nolock. By unmounting and mounting: data, fast_commit. Of the queue: write_cache,
// scheduler, wbt_lat_usec.
const std::vector<std::string>& knob_names();

// "max_batch_time=0,15000" -> its name and values. Throws a usage Error for what there is not.
struct KnobTrial {
  std::string name;
  std::vector<std::string> values;
};
KnobTrial parse_knob_trial(const std::string& text);

// The bounds of jbd2's batching sleep as the options of a mount have them, in us.
struct BatchBounds {
  uint64_t min_us = 0;
  uint64_t max_us = 15000;  // JBD2_DEFAULT_MAX_BATCH_TIME of ext4
};
BatchBounds batch_bounds(const std::string& mount_options);

// The knobs of one mounted device. Root only.
class Knobs {
 public:
  explicit Knobs(Device device);
  Knobs(const Knobs&) = delete;
  Knobs& operator=(const Knobs&) = delete;
  // As restore(), without errors.
  ~Knobs();

  // Throws a usage Error for what this device's queue does not have.
  void check(const KnobTrial& trial) const;
  // Throws a failed Error with the kernel's reason. Nothing may be open on the file system where
  // it has to be mounted anew.
  void set(const std::string& name, const std::string& value);
  // Puts back what set() changed. Where that fails an Error says so, and the next start tries
  // again.
  void restore();

 private:
  void remember(const std::string& name);
  void write_state(bool unmounting);
  void turn(const std::string& name, const std::string& value, bool restoring);

  Device device_;
  Mount mount_;  // as it was before the first was turned
  std::vector<std::pair<std::string, std::string>> before_;  // knob, value
  std::string state_path_;
  Fd state_;  // locked while this process lives
  size_t state_bytes_ = 0;
};

// Puts back what runs that were killed have left changed; a line of text for each.
std::vector<std::string> restore_leftover_knobs();

}  // namespace stalltrace::kernel

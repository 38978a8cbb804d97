// The settings of a block device's queue that decide how requests reach an emulated disk. A loop
// device keeps them when it is detached, so they are saved before and restored after.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stalltrace::disk {

struct QueueSettings {
  std::string write_cache;  // "write back" or "write through"
  std::string scheduler;
  uint32_t nr_requests = 0;
  std::optional<uint64_t> wbt_lat_us;  // none: this kernel has no writeback throttling

  bool operator==(const QueueSettings&) const = default;
};

// `disk` is the kernel's name: "loop3". Throws a failed Error.
QueueSettings read_queue_settings(const std::string& disk);

// Sets all and reads them back. An Error names the setting that did not take: a usage Error if the
// kernel does not know the value, else a failed one.
void apply_queue_settings(const std::string& disk, const QueueSettings& wanted);

}  // namespace stalltrace::disk

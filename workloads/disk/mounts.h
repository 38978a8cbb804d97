// Mounts of a block device, and the processes that keep it busy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::disk {

struct Mount {
  int id;
  uint32_t kdev;  // of the file system; anonymous for btrfs
  std::string mountpoint;
  std::string type;
  std::string source;
};

// In the order of mounting, so what lies on top comes later.
std::vector<Mount> parse_mountinfo(std::string_view text);
std::vector<Mount> read_mounts();

// The device numbers of a whole disk ("loop3") and of its partitions.
std::vector<uint32_t> kdevs_of(const std::string& disk);

std::vector<Mount> mounts_of(const std::string& disk);

// What keeps a device busy.
struct Holder {
  std::string text;     // "fio[4242]", "swap on /dev/loop3"
  bool waits_for_disk;  // a process in uninterruptible sleep: it may let go when it is served
};

// Processes that have the device or a file on it open, work there, map a file of it, or see it
// mounted in a mount namespace of their own; also swap areas and devices on top. `mounts` may be
// unmounted (lazily) by now. Makes no request to any file system.
std::vector<Holder> holders_of(const std::string& disk, const std::vector<Mount>& mounts);

// "fio[4242], sleep[17]"
std::string describe(const std::vector<Holder>& holders);

}  // namespace stalltrace::disk

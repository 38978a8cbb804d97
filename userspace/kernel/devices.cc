#include "userspace/kernel/devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/kernel/mounts.h"
#include "userspace/kernel/tasks.h"

namespace stalltrace::kernel {
namespace {

namespace fs = std::filesystem;

// First line of a small file of sysfs or proc; empty when there is none.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<uint32_t> parse_kdev(std::string_view text) {
  uint32_t major = 0;
  uint32_t minor = 0;
  const char* end = text.data() + text.size();
  auto [colon, error] = std::from_chars(text.data(), end, major);
  if (error != std::errc() || colon == end || *colon != ':') return std::nullopt;
  if (std::from_chars(colon + 1, end, minor).ec != std::errc()) return std::nullopt;
  return make_kdev(major, minor);
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// sysfs and jbd2 write the '/' of names like "cciss/c0d0" as '!'.
std::string with_slashes(std::string name) {
  std::replace(name.begin(), name.end(), '!', '/');
  return name;
}
std::string without_slashes(std::string name) {
  std::replace(name.begin(), name.end(), '/', '!');
  return name;
}

std::optional<uint32_t> kdev_of_name(const std::string& name) {
  return parse_kdev(first_line(fs::path("/sys/class/block") / without_slashes(name) / "dev"));
}

std::optional<uint32_t> kdev_of_node(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISBLK(info.st_mode)) return std::nullopt;
  return kdev_of_stat(info.st_rdev);
}

// The block device under a mount. btrfs (and others) give an anonymous number; their source names
// one of their devices.
std::optional<uint32_t> block_device_of(const Mount& mount) {
  if (kdev_major(mount.st_dev) != 0) return mount.st_dev;
  if (!mount.source.starts_with("/dev/")) return std::nullopt;
  return kdev_of_node(mount.source);
}

std::vector<std::string> journal_folders() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/fs/jbd2", error)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

void fill_journal(Device& device) {
  if (device.fs == "xfs") {
    // "logdev=/dev/..." is shown only where the log is on a device of its own.
    size_t at = device.options.find("logdev=");
    if (at == std::string::npos) return;
    std::string node = device.options.substr(at + std::strlen("logdev="));
    device.journal = kdev_of_node(node.substr(0, node.find(',')));
    return;
  }
  std::string comm;
  std::string pid =
      first_line(fs::path("/sys/fs") / device.fs / without_slashes(device.name) / "journal_task");
  if (all_digits(pid)) comm = comm_of(static_cast<pid_t>(std::stol(pid))).value_or("");
  device.journal_name = pick_journal_folder(device.name, comm, journal_folders());
  device.has_journal = !device.journal_name.empty();
  if (!device.has_journal) return;
  auto owner = kdev_of_name(with_slashes(device.journal_name));
  if (owner && *owner != device.kdev) device.journal = owner;
}

void fill_queue(Device& device) {
  fs::path queue = fs::path("/sys/class/block") / without_slashes(device.disk_name) / "queue";
  device.write_cache = first_line(queue / "write_cache");
  device.scheduler = parse_scheduler(first_line(queue / "scheduler"));
  std::string depth = first_line(queue / "nr_requests");
  std::from_chars(depth.data(), depth.data() + depth.size(), device.nr_requests);
}

// The disks that execute what is sent to the device of a sysfs folder: itself or its whole disk; of
// a device that only maps (dm, md), those below it, and into `mapped` it and those between.
void add_lowest(const fs::path& folder, std::map<uint32_t, std::string>& disks,
                std::vector<uint32_t>& mapped) {
  std::error_code error;
  fs::path disk = fs::exists(folder / "partition", error) ? folder.parent_path() : folder;
  bool maps = false;
  for (const auto& slave : fs::directory_iterator(disk / "slaves", error)) {
    fs::path below = fs::canonical(slave.path(), error);
    if (error) continue;
    maps = true;
    add_lowest(below, disks, mapped);
  }
  auto kdev = parse_kdev(first_line(disk / "dev"));
  if (!kdev) return;
  if (!maps) {
    disks[*kdev] = with_slashes(disk.filename().string());
  } else if (std::find(mapped.begin(), mapped.end(), *kdev) == mapped.end()) {
    mapped.push_back(*kdev);
  }
}

std::optional<Device> find_device(uint32_t kdev) {
  std::error_code error;
  fs::path link = fs::path("/sys/dev/block") / kdev_text(kdev);
  fs::path folder = fs::canonical(link, error);
  if (error) return std::nullopt;
  Device device;
  device.kdev = kdev;
  device.st_dev = kdev;
  device.disk = kdev;
  device.name = with_slashes(folder.filename().string());
  device.disk_name = device.name;
  std::map<uint32_t, std::string> lowest;
  add_lowest(folder, lowest, device.maps);
  if (lowest.size() == 1) {
    device.disk = lowest.begin()->first;
    device.disk_name = lowest.begin()->second;
  }
  if (!device.maps.empty()) {
    for (const auto& [disk, name] : lowest) device.disks_below.push_back(disk);
  }
  fill_queue(device);
  return device;
}

void fill_mount(Device& device, const Mount& mount) {
  device.st_dev = mount.st_dev;
  device.fs = mount.fs;
  device.mountpoint = mount.mountpoint;
  device.root = mount.root;
  device.options = mount.options;
  fill_journal(device);
}

std::optional<Device> device_of_mount(const Mount& mount) {
  auto kdev = block_device_of(mount);
  if (!kdev) return std::nullopt;
  auto device = find_device(*kdev);
  if (device) fill_mount(*device, mount);
  return device;
}

// Of several mounts of one file system the one that shows most of it: "/" is the shortest root.
const Mount* best_mount(const std::vector<Mount>& mounts, uint32_t kdev) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    if (block_device_of(mount) != kdev) continue;
    if (best == nullptr || mount.root.size() < best->root.size()) best = &mount;
  }
  return best;
}

}  // namespace

std::string kdev_text(uint32_t kdev) {
  return fmt::format("{}:{}", kdev_major(kdev), kdev_minor(kdev));
}

uint32_t kdev_of_stat(uint64_t st_dev) {
  return make_kdev(major(st_dev), minor(st_dev));
}

std::vector<Device> mounted_block_devices() {
  std::vector<Mount> mounts = current_mounts();
  std::vector<Device> devices;
  for (const Mount& mount : mounts) {
    auto kdev = block_device_of(mount);
    if (!kdev) continue;
    bool known = std::any_of(devices.begin(), devices.end(),
                             [&](const Device& device) { return device.kdev == *kdev; });
    if (known) continue;
    if (auto device = device_of_mount(*best_mount(mounts, *kdev))) {
      devices.push_back(std::move(*device));
    }
  }
  return devices;
}

Device device_of_kdev(uint32_t kdev) {
  auto device = find_device(kdev);
  if (!device) {
    throw usage_error("no block device has the number {}; lsblk lists those there are",
                      kdev_text(kdev));
  }
  std::vector<Mount> mounts = current_mounts();
  if (const Mount* mount = best_mount(mounts, kdev)) fill_mount(*device, *mount);
  return *device;
}

std::optional<Device> device_of_path(const std::string& path) {
  struct statx info {};
  // statx names the mount itself, so that btrfs subvolumes and stacked mounts are told apart.
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS | STATX_MNT_ID, &info) != 0) {
    throw usage_error("{}: {}; give an existing file, folder or block device", path,
                      std::strerror(errno));
  }
  if (S_ISBLK(info.stx_mode)) {
    return device_of_kdev(make_kdev(info.stx_rdev_major, info.stx_rdev_minor));
  }
  uint32_t st_dev = make_kdev(info.stx_dev_major, info.stx_dev_minor);
  std::vector<Mount> mounts = current_mounts();
  bool has_id = (info.stx_mask & STATX_MNT_ID) != 0;  // since Linux 5.8
  auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const Mount& candidate) {
    return has_id ? candidate.id == static_cast<int>(info.stx_mnt_id) : candidate.st_dev == st_dev;
  });
  if (mount == mounts.end()) {
    // The mount is hidden from this namespace; the device may still be known by its number.
    auto device = find_device(st_dev);
    if (const Mount* other = best_mount(mounts, st_dev); device && other) {
      fill_mount(*device, *other);
    }
    return device;
  }
  auto device = device_of_mount(*mount);
  if (device) device->st_dev = st_dev;
  return device;
}

std::string path_under(const Device& device, const std::vector<std::string>& components) {
  std::string inside;
  for (const std::string& component : components) inside += "/" + component;
  std::string mountpoint = device.mountpoint == "/" ? "" : device.mountpoint;
  if (!device.root.empty() && device.root != "/") {
    bool shown = inside == device.root || inside.starts_with(device.root + "/");
    if (!shown) return device.mountpoint + ":" + inside;
    inside.erase(0, device.root.size());
  }
  std::string path = mountpoint + inside;
  return path.empty() ? "/" : path;
}

std::string parse_scheduler(const std::string& text) {
  size_t open = text.find('[');
  size_t close = text.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return text;
  return text.substr(open + 1, close - open - 1);
}

std::string pick_journal_folder(const std::string& name, const std::string& thread_comm,
                                const std::vector<std::string>& folders) {
  // Inside the file system: its device, '-', the journal's inode. "sda1-8" is not "sda-8".
  std::string prefix = without_slashes(name) + "-";
  for (const std::string& folder : folders) {
    if (folder.starts_with(prefix) && all_digits(folder.substr(prefix.size()))) return folder;
  }
  // On a device of its own: that device's name, which only the journal's thread tells.
  constexpr std::string_view kThread = "jbd2/";
  constexpr size_t kCommLength = 15;
  if (!thread_comm.starts_with(kThread)) return "";
  std::string shown = thread_comm.substr(kThread.size());
  bool cut = thread_comm.size() == kCommLength;
  for (const std::string& folder : folders) {
    if (folder == shown) return folder;
  }
  for (const std::string& folder : folders) {
    if (cut && folder.starts_with(shown)) return folder;
  }
  return "";
}

std::string wbt_limit(const std::string& name) {
  fs::path wbt = fs::path("/sys/kernel/debug/block") / without_slashes(name) / "rqos/wbt";
  std::string writes = first_line(wbt / "wb_normal");
  if (writes.empty() || writes == "0") return {};
  std::string latency =
      first_line(fs::path("/sys/class/block") / without_slashes(name) / "queue/wbt_lat_usec");
  if (!all_digits(latency)) return fmt::format("{} writes", writes);
  return fmt::format("{} writes, for a latency of {}", writes,
                     format_time(std::stoull(latency) * 1000));
}

}  // namespace stalltrace::kernel

#include "workloads/device_guard.h"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "userspace/base/error.h"
#include "workloads/disk/mounts.h"

namespace stalltrace::workloads {
namespace {

namespace fs = std::filesystem;

uint32_t number_of(dev_t dev) {
  return major(dev) << 20 | minor(dev);
}

// 0: it is no block device.
uint32_t number_at(const std::string& path) {
  struct stat node {};
  if (stat(path.c_str(), &node) != 0 || !S_ISBLK(node.st_mode)) return 0;
  return number_of(node.st_rdev);
}

std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint32_t number_in(const fs::path& folder) {
  const std::string text = line_of(folder / "dev");
  const char* end = text.data() + text.size();
  uint32_t major = 0;
  uint32_t minor = 0;
  auto [colon, error] = std::from_chars(text.data(), end, major);
  if (error != std::errc() || colon == end) return 0;
  if (std::from_chars(colon + 1, end, minor).ec != std::errc()) return 0;
  return major << 20 | minor;
}

// The device itself, its partitions, and the disk that it is a partition of: folders of sysfs.
std::vector<fs::path> relatives_of(uint32_t kdev, const SystemFolders& folders) {
  std::error_code error;
  const fs::path link =
      fs::path(folders.sys) / "dev/block" / fmt::format("{}:{}", kdev >> 20, kdev & 0xfffff);
  const fs::path self = fs::canonical(link, error);
  if (error) return {};
  std::vector<fs::path> relatives{self};
  for (const auto& entry : fs::directory_iterator(self, error)) {
    if (fs::exists(entry.path() / "partition", error)) relatives.push_back(entry.path());
  }
  if (fs::exists(self / "partition", error)) relatives.push_back(self.parent_path());
  return relatives;
}

std::string mounted_where(uint32_t kdev, const SystemFolders& folders) {
  std::ifstream file(fs::path(folders.proc) / "self/mountinfo");
  std::ostringstream text;
  text << file.rdbuf();
  for (const disk::Mount& mount : disk::parse_mountinfo(text.str())) {
    // btrfs has a device number of its own: its source tells.
    if (mount.kdev == kdev || number_at(mount.source) == kdev) return mount.mountpoint;
  }
  return {};
}

bool is_swap(uint32_t kdev, const std::string& name, const SystemFolders& folders) {
  std::ifstream swaps(fs::path(folders.proc) / "swaps");
  for (std::string line; std::getline(swaps, line);) {
    const std::string area = line.substr(0, line.find_first_of(" \t"));
    if (area == "/dev/" + name || number_at(area) == kdev) return true;
  }
  return false;
}

std::string holder_of(const fs::path& folder) {
  std::error_code error;
  for (const auto& holder : fs::directory_iterator(folder / "holders", error)) {
    return holder.path().filename();
  }
  return {};
}

std::string loop_on(uint32_t kdev, const std::string& name, const SystemFolders& folders) {
  std::error_code error;
  for (const auto& loop : fs::directory_iterator(fs::path(folders.sys) / "block", error)) {
    const std::string backing = line_of(loop.path() / "loop/backing_file");
    if (backing.empty()) continue;
    if (backing == "/dev/" + name || number_at(backing) == kdev) return loop.path().filename();
  }
  return {};
}

std::string own_use(const fs::path& folder, const SystemFolders& folders) {
  const uint32_t kdev = number_in(folder);
  const std::string name = folder.filename();
  if (kdev == 0) return {};
  if (std::string at = mounted_where(kdev, folders); !at.empty()) return "is mounted on " + at;
  if (is_swap(kdev, name, folders)) return "is swap";
  if (std::string holder = holder_of(folder); !holder.empty()) return "is part of " + holder;
  if (std::string loop = loop_on(kdev, name, folders); !loop.empty()) {
    return "is the backing device of " + loop;
  }
  return {};
}

struct FreeProbe {
  void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};

// What array or volume group it is a member of by what is written on it; such a member may be
// needed though nothing has assembled the rest just now.
std::string membership(const File& device) {
  std::unique_ptr<std::remove_pointer_t<blkid_probe>, FreeProbe> probe(blkid_new_probe());
  if (!probe || blkid_probe_set_device(probe.get(), device.get(), 0, 0) != 0) return {};
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE);
  blkid_probe_filter_superblocks_usage(probe.get(), BLKID_FLTR_ONLYIN, BLKID_USAGE_RAID);
  if (blkid_do_safeprobe(probe.get()) != 0) return {};
  const char* type = nullptr;
  if (blkid_probe_lookup_value(probe.get(), "TYPE", &type, nullptr) != 0) return {};
  return type;
}

}  // namespace

uint32_t block_device_number(const std::string& path) {
  if (path.empty()) throw usage_error("a device is missing: name one, such as /dev/sdb");
  struct stat node {};
  if (stat(path.c_str(), &node) != 0) {
    throw usage_error("there is no device {} ({}): name its node, such as /dev/sdb", path,
                      std::strerror(errno));
  }
  if (!S_ISBLK(node.st_mode)) {
    throw usage_error("{} is not a block device: name its node, such as /dev/sdb", path);
  }
  return number_of(node.st_rdev);
}

std::string use_of_device(uint32_t kdev, const SystemFolders& folders) {
  const std::vector<fs::path> relatives = relatives_of(kdev, folders);
  for (const fs::path& folder : relatives) {
    std::string use = own_use(folder, folders);
    if (use.empty()) continue;
    if (folder == relatives.front()) return use;
    return fmt::format("has {}, which {}", folder.filename().string(), use);
  }
  return {};
}

File claim_device(const std::string& path, bool destroy_data) {
  const uint32_t kdev = block_device_number(path);
  constexpr std::string_view kNever = "a device in use is never written to; name another";
  if (std::string use = use_of_device(kdev); !use.empty()) {
    throw usage_error("{} {}: {}", path, use, kNever);
  }
  File device(open(path.c_str(), O_RDWR | O_EXCL | O_CLOEXEC));
  if (device.get() < 0) {
    if (errno == EBUSY) {
      throw usage_error(
          "{} is in use (mounted in another namespace, or held by a program or driver): {}", path,
          kNever);
    }
    if (errno == EACCES || errno == EPERM) {
      throw refused_error("no permission to write to {}: run as root", path);
    }
    throw usage_error("{} cannot be opened for writing: {}", path, std::strerror(errno));
  }
  int read_only = 0;
  if (ioctl(device.get(), BLKROGET, &read_only) == 0 && read_only != 0) {
    throw usage_error("{} is read-only: name another, or see `blockdev --setrw {}`", path, path);
  }
  if (std::string type = membership(device); !type.empty()) {
    throw usage_error(
        "{} is part of an array or volume group ({}), though it is not active: name another, or "
        "take it out of there first",
        path, type);
  }
  if (!destroy_data) {
    throw usage_error("all data on {} would be overwritten: say --destroy-data if it may be lost",
                      path);
  }
  return device;
}

uint64_t device_bytes(const File& device, const std::string& path) {
  uint64_t bytes = 0;
  if (ioctl(device.get(), BLKGETSIZE64, &bytes) != 0) {
    throw failed_error("the size of {} cannot be read: {}", path, std::strerror(errno));
  }
  return bytes;
}

}  // namespace stalltrace::workloads

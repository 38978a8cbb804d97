#include "workloads/job_devices.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/device_guard.h"

namespace stalltrace::workloads {
namespace {

File opened_to_read(const std::string& path) {
  File device(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (device.get() >= 0) return device;
  if (errno == EACCES || errno == EPERM) {
    throw refused_error("no permission to read {}: run as root", path);
  }
  throw usage_error("{} cannot be opened: {}", path, std::strerror(errno));
}

}  // namespace

bool is_block_device(const std::string& path) {
  struct stat node {};
  return stat(path.c_str(), &node) == 0 && S_ISBLK(node.st_mode);
}

std::optional<uint64_t> size_of_devices(const std::vector<std::string>& paths) {
  std::optional<uint64_t> least;
  for (const std::string& path : paths) {
    if (!is_block_device(path)) return std::nullopt;
    const uint64_t bytes = device_bytes(opened_to_read(path), path);
    least = std::min(least.value_or(bytes), bytes);
  }
  return least;
}

void JobDevices::take_from(std::vector<FileSpec>& specs, bool destroy_data) {
  struct Use {
    uint64_t bytes = 0;
    bool written = false;
  };
  std::map<std::string, Use> devices;
  std::erase_if(specs, [&](const FileSpec& spec) {
    if (!is_block_device(spec.path)) return false;
    if (spec.made_later || spec.append) {
      throw usage_error("{} is a block device: drop create_on_open and file_append", spec.path);
    }
    Use& use = devices[spec.path];
    use.bytes = std::max(use.bytes, spec.bytes);
    use.written = use.written || !spec.only_read;
    return true;
  });
  for (const auto& [path, use] : devices) {
    File device = use.written ? claim_device(path, destroy_data) : opened_to_read(path);
    const uint64_t bytes = device_bytes(device, path);
    if (bytes < use.bytes) {
      throw usage_error("{} has {}, but {} are needed: lower size or offset", path,
                        format_size(bytes), format_size(use.bytes));
    }
    if (use.written) claims_.push_back(std::move(device));
  }
}

}  // namespace stalltrace::workloads

// Which devices a command is about.

#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "userspace/base/error.h"
#include "userspace/cli/tracing.h"

namespace stalltrace::cli {
namespace {

using kernel::Device;

bool is_listed(const std::vector<Device>& devices, uint32_t kdev) {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const Device& device) { return device.kdev == kdev; });
}

// What a mapped device stands on has names, queues and flushes of its own.
void add_with_below(std::vector<Device>& devices, const Device& device) {
  if (is_listed(devices, device.kdev)) return;
  devices.push_back(device);
  for (const std::vector<uint32_t>& below : {device.maps, device.disks_below}) {
    for (uint32_t kdev : below) {
      if (!is_listed(devices, kdev)) devices.push_back(kernel::device_of_kdev(kdev));
    }
  }
}

void add_with_journal(std::vector<Device>& devices, const Device& device) {
  add_with_below(devices, device);
  if (device.journal && !is_listed(devices, *device.journal)) {
    add_with_below(devices, kernel::device_of_kdev(*device.journal));
  }
}

std::optional<uint32_t> parse_numbers(const std::string& name) {
  size_t colon = name.find(':');
  if (colon == std::string::npos) return std::nullopt;
  uint32_t numbers[2] = {};
  const char* from[2] = {name.data(), name.data() + colon + 1};
  const char* to[2] = {name.data() + colon, name.data() + name.size()};
  for (int i = 0; i < 2; ++i) {
    auto [end, error] = std::from_chars(from[i], to[i], numbers[i]);
    if (error != std::errc() || end != to[i]) return std::nullopt;
  }
  return kernel::make_kdev(numbers[0], numbers[1]);
}

uint32_t kdev_of_name(const std::string& name) {
  if (name.empty()) throw usage_error("--dev: name a device (/dev/NAME, NAME or MAJOR:MINOR)");
  if (auto numbers = parse_numbers(name)) return *numbers;
  std::string path = name.find('/') == std::string::npos ? "/dev/" + name : name;
  struct stat node {};
  if (stat(path.c_str(), &node) != 0) {
    throw usage_error("--dev: there is no device {} (give /dev/NAME, NAME or MAJOR:MINOR)", name);
  }
  if (!S_ISBLK(node.st_mode)) throw usage_error("--dev: {} is not a block device", name);
  return kernel::kdev_of_stat(node.st_rdev);
}

}  // namespace

std::vector<Device> devices_for_path(const std::string& path) {
  std::optional<Device> device = kernel::device_of_path(path);
  if (!device) {
    throw usage_error(
        "{} is on a file system without a block device (tmpfs, overlay, network): "
        "there is nothing to trace below it",
        path);
  }
  std::vector<Device> devices;
  add_with_journal(devices, *device);
  return devices;
}

std::vector<Device> devices_for_name(const std::string& name) {
  Device named = kernel::device_of_kdev(kdev_of_name(name));
  std::vector<Device> devices;
  bool whole_disk = named.kdev == named.disk;
  for (const Device& mounted : kernel::mounted_block_devices()) {
    if (mounted.kdev == named.kdev || (whole_disk && mounted.disk == named.disk)) {
      add_with_journal(devices, mounted);
    }
  }
  add_with_journal(devices, named);
  return devices;
}

std::vector<Device> all_devices() {
  std::vector<Device> devices;
  for (const Device& mounted : kernel::mounted_block_devices()) add_with_journal(devices, mounted);
  if (devices.empty()) {
    throw usage_error("no file system on a block device is mounted: name a device with --dev");
  }
  return devices;
}

}  // namespace stalltrace::cli

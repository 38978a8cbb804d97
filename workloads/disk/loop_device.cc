#include "workloads/disk/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "userspace/base/error.h"
#include "workloads/disk/mounts.h"
#include "workloads/disk/process.h"
#include "workloads/disk/state.h"

namespace stalltrace::disk {
namespace {

int open_control() {
  const int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    throw refused_error("no loop devices here: /dev/loop-control: {} (is the module 'loop' there?)",
                        std::strerror(errno));
  }
  return fd;
}

}  // namespace

std::string loop_name(int number) {
  return fmt::format("loop{}", number);
}
std::string loop_device(int number) {
  return fmt::format("/dev/loop{}", number);
}

int free_loop_number(int from) {
  while (std::filesystem::exists("/sys/block/" + loop_name(from))) ++from;
  return from;
}

bool add_loop(int number) {
  const int control = open_control();
  const int result = ioctl(control, LOOP_CTL_ADD, number);
  const int error = errno;
  close(control);
  if (result >= 0) return true;
  if (error == EEXIST) return false;
  throw refused_error("cannot make {}: {}", loop_device(number), std::strerror(error));
}

bool remove_loop(int number) {
  const int control = open_control();
  const int result = ioctl(control, LOOP_CTL_REMOVE, number);
  const int error = errno;
  close(control);
  return result >= 0 || error == ENODEV;
}

std::string loop_backing_file(int number) {
  std::string path =
      read_file(fmt::format("/sys/block/{}/loop/backing_file", loop_name(number))).value_or("");
  if (!path.empty() && path.back() == '\n') path.pop_back();
  return path;
}

uint32_t loop_kdev(int number) {
  const auto kdevs = kdevs_of(loop_name(number));
  return kdevs.empty() ? 0 : kdevs.front();
}

bool attach_loop(int number, const std::string& backing_file, uint32_t block_size) {
  const std::string device = loop_device(number);
  const int device_fd = open(device.c_str(), O_RDWR | O_CLOEXEC);
  const int open_error = errno;
  const int file_fd = open(backing_file.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  const int file_error = errno;
  loop_config config{};
  config.fd = static_cast<__u32>(file_fd);
  config.block_size = block_size;
  config.info.lo_flags = LO_FLAGS_DIRECT_IO;
  // Only for `losetup` on kernels that do not show the backing file; it may be cut.
  std::copy_n(backing_file.begin(), std::min<size_t>(backing_file.size(), LO_NAME_SIZE - 1),
              config.info.lo_file_name);
  int error = 0;
  if (device_fd >= 0 && file_fd >= 0) {
    error = ioctl(device_fd, LOOP_CONFIGURE, &config) == 0 ? 0 : errno;
  }
  loop_info64 info{};
  const bool direct = device_fd >= 0 && ioctl(device_fd, LOOP_GET_STATUS64, &info) == 0 &&
                      (info.lo_flags & LO_FLAGS_DIRECT_IO) != 0;
  if (device_fd >= 0) close(device_fd);
  if (file_fd >= 0) close(file_fd);

  if (file_fd < 0) {
    throw failed_error("cannot open {}: {}", backing_file, std::strerror(file_error));
  }
  // Removed by the destruction of a disk that had planned the same number and never made it.
  if (device_fd < 0 && (open_error == ENXIO || open_error == ENOENT)) return false;
  if (device_fd < 0) throw failed_error("cannot open {}: {}", device, std::strerror(open_error));
  if (error == EBUSY) return false;
  if (error != 0) {
    throw failed_error("cannot attach {} to {}: {}", device, backing_file, std::strerror(error));
  }
  if (!direct) {
    throw failed_error("{} did not take direct I/O, which the disk's model needs", device);
  }
  return true;
}

int detach_loop_raw(const char* device) {
  const int fd = open(device, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENXIO || errno == ENOENT ? 0 : errno;
  const int error = ioctl(fd, LOOP_CLR_FD, 0) == 0 || errno == ENXIO ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace stalltrace::disk

#include "workloads/own_disk.h"

#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "userspace/base/command.h"
#include "userspace/base/error.h"
#include "workloads/disk/process.h"

namespace stalltrace::workloads {
namespace {

constexpr uint64_t kUnmount_ns = 5'000'000'000;
constexpr uint64_t kUnmountPause_ns = 10'000'000;

}  // namespace

OwnDisk::OwnDisk(const disk::DiskOptions& options)
    : keeper_(options.name), info_(disk::create(options)) {}

OwnDisk::~OwnDisk() {
  try {
    if (!gone_) disk::destroy(info_.name);
  } catch (const Error&) {
    // Another error is on its way; `disk list` shows what is left.
  }
}

void OwnDisk::destroy() {
  gone_ = true;
  disk::destroy(info_.name);
}

OwnFileSystem::OwnFileSystem(const disk::DiskInfo& disk, std::string options)
    : device_(disk.device), options_(std::move(options)), folder_(disk::mountpoint_for(disk.name)) {
  std::filesystem::create_directories(folder_);
}

void OwnFileSystem::make() const {
  // The kernel's threads would initialize the rest at any time later.
  need_command({"mkfs.ext4", "-q", "-F", "-b", "4096", "-E",
                "lazy_itable_init=0,lazy_journal_init=0", device_});
}

std::string OwnFileSystem::try_mount() const {
  std::vector<std::string> words{"mount", "-t", "ext4"};
  if (!options_.empty()) words.insert(words.end(), {"-o", options_});
  words.insert(words.end(), {device_, folder_});
  const CommandEnd end = run_command(words);
  if (end.status == 0) return {};
  return fmt::format("mount: exit {}: {}", end.status, end.output.substr(0, end.output.find('\n')));
}

void OwnFileSystem::mount() const {
  const std::string error = try_mount();
  if (!error.empty()) throw failed_error("{}", error);
}

void OwnFileSystem::unmount() const {
  const uint64_t deadline_ns = monotonic_ns() + kUnmount_ns;
  while (umount2(folder_.c_str(), UMOUNT_NOFOLLOW) != 0) {
    if (errno != EBUSY) throw failed_error("umount {}: {}", folder_, std::strerror(errno));
    if (monotonic_ns() > deadline_ns) {
      umount2(folder_.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
      throw failed_error("{} is kept busy by a process of the load", folder_);
    }
    disk::sleep_ns(kUnmountPause_ns);
  }
}

std::string OwnFileSystem::check() const {
  const CommandEnd end = run_command({"e2fsck", "-fn", device_});
  if (end.status == 0) return {};
  std::string line = end.output;
  for (size_t at = 0; (at = line.find('\n', at)) != std::string::npos;) line.replace(at, 1, "; ");
  return fmt::format("e2fsck: exit {}: {}", end.status, line.substr(0, 200));
}

}  // namespace stalltrace::workloads

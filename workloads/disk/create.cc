#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/disk/daemon.h"
#include "workloads/disk/disk.h"
#include "workloads/disk/loop_device.h"
#include "workloads/disk/profile.h"
#include "workloads/disk/queue_settings.h"
#include "workloads/disk/state.h"
#include "workloads/disk/teardown.h"
#include "workloads/disk/truth_log.h"

namespace stalltrace::disk {
namespace {

constexpr uint64_t kAlignment = 4096;
constexpr uint64_t kMinSize = 1ULL << 20;
constexpr uint64_t kMaxSize = 64ULL << 40;
constexpr int kAttachTries = 100;

// A creation interrupted half way would leave work for `destroy`, and a daemon that no terminal
// can reach; it is too short to be worth interrupting.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

void check_options(const DiskOptions& options) {
  check_name(options.name);
  if (options.size_bytes < kMinSize || options.size_bytes > kMaxSize ||
      options.size_bytes % kAlignment != 0) {
    throw usage_error("disk size {}: must be a multiple of {} between {} and {}",
                      options.size_bytes, kAlignment, format_size(kMinSize), format_size(kMaxSize));
  }
  if (options.block_size != 512 && options.block_size != 4096) {
    throw usage_error("block size {}: must be 512 or 4096", options.block_size);
  }
  // The kernel refuses no number, but makes 4 of fewer (BLKDEV_MIN_RQ).
  if (options.nr_requests < 4) {
    throw usage_error("a queue of {} requests: the kernel allows no fewer than 4",
                      options.nr_requests);
  }
  resolve(options);
}

// Root in a container may lack it, and libfuse would then name a reason that has nothing to do
// with it.
bool may_mount() {
  constexpr uint64_t kSysAdmin = 1ULL << 21;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, 7, "CapEff:") == 0) {
      return (std::strtoull(line.c_str() + 7, nullptr, 16) & kSysAdmin) != 0;
    }
  }
  return true;
}

void check_machine() {
  if (geteuid() != 0) throw refused_error("an emulated disk needs root (try sudo)");
  if (!may_mount()) throw refused_error("an emulated disk needs CAP_SYS_ADMIN, to mount");
  const int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    throw refused_error("no FUSE here: /dev/fuse: {} (is the module 'fuse' there?)",
                        std::strerror(errno));
  }
  close(fd);
  if (access("/dev/loop-control", R_OK | W_OK) != 0) {
    throw refused_error("no loop devices here: /dev/loop-control: {} (is the module 'loop' there?)",
                        std::strerror(errno));
  }
}

// Opened here, not in the daemon, so that a wrong path is told before anything is made.
int open_truth(const std::string& path) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    throw usage_error("truth log {}: {}", path, std::strerror(errno));
  }
  const size_t length = std::strlen(kTruthHeader);
  if (!S_ISREG(status.st_mode) || write(fd, kTruthHeader, length) != static_cast<ssize_t>(length)) {
    const int error = S_ISREG(status.st_mode) ? errno : EINVAL;
    close(fd);
    throw usage_error("truth log {}: {}", path,
                      error == EINVAL ? "not a regular file" : std::strerror(error));
  }
  return fd;
}

class Creation {
 public:
  Creation(const DiskOptions& options, const StateFolder& folder, const FolderLock& lock)
      : folder_(folder), lock_(lock) {
    record_.options = options;
    record_.boot_id = current_boot_id();
  }
  Creation(const Creation&) = delete;
  Creation& operator=(const Creation&) = delete;
  ~Creation() {
    if (truth_fd_ >= 0) close(truth_fd_);
  }

  void run(Schedule schedule) {
    folder_.write(record_);
    const DiskOptions& options = record_.options;
    if (!options.truth_path.empty()) truth_fd_ = open_truth(options.truth_path);
    if (mkdir(folder_.mount_folder().c_str(), 0700) != 0) {
      throw failed_error("cannot make {}: {}", folder_.mount_folder(), std::strerror(errno));
    }
    start_daemon({options, folder_, std::move(schedule), truth_fd_, lock_.fd()});
    attach();
    const char* write_cache = resolve(options).write_through ? "write through" : "write back";
    QueueSettings wanted{write_cache, options.scheduler, options.nr_requests, std::nullopt};
    const std::string disk = loop_name(record_.loop);
    if (read_queue_settings(disk).wbt_lat_us) wanted.wbt_lat_us = options.wbt_lat_us;
    apply_queue_settings(disk, wanted);
    record_.ready = true;
    folder_.write(record_);
  }

 private:
  // Not LOOP_CTL_GET_FREE: settings that an earlier user left on a free device would be ours, and
  // ours a later user's. A device of our own goes away with all of them.
  void attach() {
    int number = 0;
    for (int tries = 0; tries < kAttachTries; ++tries, ++number) {
      number = free_loop_number(number);
      record_.loop = number;
      record_.node_made = false;
      record_.old_settings.reset();
      folder_.write(record_);
      if (!add_loop(number)) continue;
      make_node();
      // Its kernel defaults, since it is new.
      record_.old_settings = read_queue_settings(loop_name(number));
      folder_.write(record_);
      // Somebody who looks for a free loop device may have found ours.
      if (attach_loop(number, folder_.backing_file(), record_.options.block_size)) return;
    }
    throw failed_error("found no free loop device in {} tries", kAttachTries);
  }

  // In a container /dev need not be the kernel's devtmpfs.
  void make_node() {
    const std::string device = loop_device(record_.loop);
    if (std::filesystem::exists(device)) return;
    record_.node_made = true;
    folder_.write(record_);
    const uint32_t kdev = loop_kdev(record_.loop);
    if (mknod(device.c_str(), S_IFBLK | 0600, makedev(kdev >> 20, kdev & 0xfffff)) != 0) {
      throw refused_error("cannot make {}: {}", device, std::strerror(errno));
    }
  }

  const StateFolder& folder_;
  const FolderLock& lock_;
  DiskRecord record_;
  int truth_fd_ = -1;
};

FolderLock lock_new_folder(const std::string& name, const StateFolder& folder) {
  while (true) {
    FolderLock lock = FolderLock::make(kDefaultStateRoot, name, kLockTimeoutNs);
    const auto existing = folder.read_disk();
    if (!existing) return lock;
    if (existing->boot_id == current_boot_id()) {
      throw usage_error("there is a disk '{}' already; 'stalltrace disk destroy {}' removes it",
                        name, name);
    }
    // From before a reboot, on a /run that survives one. The lock goes with the folder.
    tear_down(name, folder, {});
  }
}

}  // namespace

DiskInfo create(const DiskOptions& requested) {
  DiskOptions options = requested;
  check_options(options);
  // The daemon works in /.
  for (std::string* path : {&options.schedule_path, &options.truth_path}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path);
  }
  Schedule schedule;
  if (!options.schedule_path.empty()) schedule = Schedule::load(options.schedule_path);
  check_machine();

  const HeldSignals held;
  const StateFolder folder(kDefaultStateRoot, options.name);
  const FolderLock lock = lock_new_folder(options.name, folder);
  try {
    Creation(options, folder, lock).run(std::move(schedule));
  } catch (...) {
    try {
      tear_down(options.name, folder, {});
    } catch (const Error&) {
      // What stopped the creation is what the user must know; `disk list` shows the rest.
    }
    throw;
  }
  return find(options.name);
}

}  // namespace stalltrace::disk

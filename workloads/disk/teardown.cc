#include "workloads/disk/teardown.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/disk/loop_device.h"
#include "workloads/disk/mounts.h"
#include "workloads/disk/patience.h"
#include "workloads/disk/process.h"
#include "workloads/disk/truth_log.h"

namespace stalltrace::disk {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kPatienceNs = 30 * kSecond;  // then the disk is hurried, then killed
constexpr uint64_t kBusyNs = 2 * kSecond;       // for users that are just leaving
constexpr uint64_t kEndNs = 5 * kSecond;
constexpr uint64_t kLoggerNs = 10 * kSecond;

class Teardown {
 public:
  Teardown(std::string name, const StateFolder& folder, const Notice& notice)
      : name_(std::move(name)),
        folder_(folder),
        notice_(notice),
        record_(folder.read_disk().value_or(DiskRecord{})),
        daemon_(folder.read_daemon().value_or(DaemonRecord{})) {}

  void run() {
    if (record_.boot_id == current_boot_id()) {
      // A server that somebody stopped, to play a device that hangs, must answer again.
      send_signal(daemon_.daemon, SIGCONT);
      const int loop = attached_loop(folder_, record_);
      if (loop >= 0) {
        unmount_file_systems(loop);
        detach(loop);
      }
      if (record_.loop >= 0) remove_device();
      unmount_fuse();
      stop_processes();
      tell_of_truth();
    }
    folder_.remove();
  }

 private:
  void say(const std::string& text) const {
    if (notice_) notice_(fmt::format("disk '{}': {}", name_, text));
  }

  // errno of a step that waits for the disk. It ends in any case where the kernel lets it: first
  // the disk works as it was told to, then without delays, then every request fails.
  [[nodiscard]] int patiently(const std::string& what, const std::function<int()>& step) const {
    BlockingStep blocking(step);
    if (auto result = blocking.wait(2 * kSecond)) return *result;
    say(fmt::format("waiting for {}", what));
    if (auto result = blocking.wait(kPatienceNs)) return *result;
    hurry(what);
    if (auto result = blocking.wait(kPatienceNs)) return *result;
    say(fmt::format("{} does not end: killing the server, what was not written is lost", what));
    send_signal(daemon_.daemon, SIGKILL);
    if (auto result = blocking.wait(kPatienceNs)) return *result;
    throw failed_error("disk '{}': {} does not end; the state stays in {}", name_, what,
                       folder_.path());
  }

  [[nodiscard]] int try_unmount(const std::string& mountpoint, int flags) const {
    return patiently("umount " + mountpoint, [&] {
      return umount2(mountpoint.c_str(), flags | UMOUNT_NOFOLLOW) == 0 ? 0 : errno;
    });
  }

  // Repeats `step` until it is true, and gives holders that are just leaving `idle_ns` for that.
  // Holders that wait for the disk are waited for as long as the disk is slow; then it is hurried.
  // False if it came to nothing.
  bool wait_for_holders(const std::string& disk, const std::string& what, uint64_t idle_ns,
                        const std::function<bool()>& step) const {
    const uint64_t start = monotonic_ns();
    uint64_t idle_since = start;
    bool told = false;
    bool hurried = false;
    while (!step()) {
      const uint64_t now = monotonic_ns();
      const auto holders = holders_of(disk, mounts_);
      const bool waits =
          holders.empty() || std::any_of(holders.begin(), holders.end(),
                                         [](const Holder& h) { return h.waits_for_disk; });
      if (waits && now - start < kPatienceNs) {
        idle_since = now;
      } else if (waits && !hurried) {
        hurried = true;
        idle_since = now;
        hurry(what);
      }
      if (now - idle_since >= idle_ns) return false;
      if (now - start >= kBusyNs && !told) {
        told = true;
        say(fmt::format("waiting for {}, held by {}", what, describe(holders)));
      }
      sleep_ns(kSecond / 20);
    }
    return true;
  }

  void hurry(const std::string& what) const {
    say(fmt::format("{} takes longer than {}: the disk goes on without delays", what,
                    format_time(kPatienceNs)));
    send_signal(daemon_.daemon, SIGUSR1);
  }

  void unmount(const Mount& mount, const std::string& disk) const {
    const auto mounts = read_mounts();
    const auto top = std::find_if(mounts.rbegin(), mounts.rend(), [&](const Mount& other) {
      return other.mountpoint == mount.mountpoint;
    });
    if (top != mounts.rend() && top->id != mount.id) {
      throw failed_error("disk '{}': {} ({}) is mounted over its mount on {}; unmount that first",
                         name_, top->source, top->type, mount.mountpoint);
    }
    int error = try_unmount(mount.mountpoint, 0);
    wait_for_holders(disk, "umount " + mount.mountpoint, kBusyNs, [&] {
      if (error == EBUSY) error = try_unmount(mount.mountpoint, 0);
      return error != EBUSY;
    });
    if (error == EBUSY) {
      say(fmt::format("{} is busy ({}); unmounting it lazily", mount.mountpoint,
                      describe(holders_of(disk, {mount}))));
      error = try_unmount(mount.mountpoint, MNT_DETACH);
    }
    if (error != 0 && error != EINVAL && error != ENOENT) {
      throw failed_error("disk '{}': cannot unmount {}: {}", name_, mount.mountpoint,
                         std::strerror(error));
    }
  }

  void unmount_file_systems(int loop) {
    mounts_ = mounts_of(loop_name(loop));
    std::for_each(mounts_.rbegin(), mounts_.rend(),
                  [&](const Mount& mount) { unmount(mount, loop_name(loop)); });
  }

  void detach(int loop) const {
    const std::string device = loop_device(loop);
    const int error =
        patiently("the detaching of " + device, [&] { return detach_loop_raw(device.c_str()); });
    if (error != 0) {
      throw failed_error("disk '{}': cannot detach {}: {}", name_, device, std::strerror(error));
    }
    // It comes with the last close, which may be somebody else's.
    if (!wait_for_holders(loop_name(loop), "the detaching of " + device, kBusyNs,
                          [&] { return attached_loop(folder_, record_) != loop; })) {
      throw still_held(loop);
    }
  }

  [[nodiscard]] Error still_held(int loop) const {
    return failed_error(
        "disk '{}': {} is still held by {}; end that, then 'stalltrace disk destroy {}' again",
        name_, loop_device(loop), describe(holders_of(loop_name(loop), mounts_)), name_);
  }

  // Somebody who attached the device after us keeps it, with the settings it would have without us.
  void remove_device() const {
    const std::string disk = loop_name(record_.loop);
    if (!std::filesystem::exists("/sys/block/" + disk)) return remove_node();
    if (record_.old_settings) {
      const QueueSettings& old = *record_.old_settings;
      QueueSettings wanted = read_queue_settings(disk);
      if (wanted.scheduler == record_.options.scheduler) wanted.scheduler = old.scheduler;
      if (wanted.nr_requests == record_.options.nr_requests) wanted.nr_requests = old.nr_requests;
      if (wanted.wbt_lat_us == record_.options.wbt_lat_us) wanted.wbt_lat_us = old.wbt_lat_us;
      // What every attached loop device has.
      if (!loop_backing_file(record_.loop).empty()) wanted.write_cache = "write back";
      apply_queue_settings(disk, wanted);
    }
    const uint64_t deadline = monotonic_ns() + kEndNs;
    while (!remove_loop(record_.loop)) {
      if (!loop_backing_file(record_.loop).empty()) return;
      if (monotonic_ns() >= deadline) throw still_held(record_.loop);
      sleep_ns(kSecond / 100);
    }
    remove_node();
  }

  void remove_node() const {
    if (record_.node_made) unlink(loop_device(record_.loop).c_str());
  }

  void unmount_fuse() const {
    for (const Mount& mount : read_mounts()) {
      if (mount.mountpoint != folder_.mount_folder()) continue;
      int error = try_unmount(mount.mountpoint, 0);
      if (error == EBUSY) error = try_unmount(mount.mountpoint, MNT_DETACH);
      if (error != 0) {
        throw failed_error("disk '{}': cannot unmount {}: {}", name_, mount.mountpoint,
                           std::strerror(error));
      }
    }
  }

  void stop_processes() const {
    // Unmounted, it ends by itself.
    if (!wait_gone(daemon_.daemon, 2 * kSecond)) {
      send_signal(daemon_.daemon, SIGTERM);
      if (!wait_gone(daemon_.daemon, 3 * kSecond)) send_signal(daemon_.daemon, SIGKILL);
      if (!wait_gone(daemon_.daemon, kEndNs)) {
        throw failed_error("disk '{}': its server (process {}) does not end", name_,
                           daemon_.daemon.pid);
      }
    }
    send_signal(daemon_.logger, SIGCONT);
    if (!wait_gone(daemon_.logger, kLoggerNs)) {
      say("the truth log's writer does not end: killed, the log is incomplete");
      send_signal(daemon_.logger, SIGKILL);
      wait_gone(daemon_.logger, kEndNs);
    }
  }

  // The log goes with the folder, but whoever uses the truth log must know that it has a gap.
  void tell_of_truth() const {
    std::istringstream log(read_file(folder_.log_file()).value_or(""));
    for (std::string line; std::getline(log, line);) {
      if (line.compare(0, std::strlen(kTruthFailure), kTruthFailure) == 0) say(line);
    }
  }

  std::string name_;
  const StateFolder& folder_;
  const Notice& notice_;
  DiskRecord record_;
  DaemonRecord daemon_;
  std::vector<Mount> mounts_;
};

}  // namespace

int attached_loop(const StateFolder& folder, const DiskRecord& record) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/sys/block", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string disk = entry->path().filename();
    if (disk.compare(0, 4, "loop") != 0 || !std::filesystem::exists(entry->path() / "loop")) {
      continue;
    }
    const int number = std::stoi(disk.substr(4));
    const std::string file = loop_backing_file(number);
    // Somebody may have unmounted the FUSE file system lazily: its path then begins at its root.
    if (file == folder.backing_file() || (number == record.loop && file == "/disk")) return number;
  }
  return -1;
}

void tear_down(const std::string& name, const StateFolder& folder, const Notice& notice) {
  Teardown(name, folder, notice).run();
}

}  // namespace stalltrace::disk

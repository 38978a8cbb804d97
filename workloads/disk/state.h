// What is known of each disk, in a folder of its own below /run/stalltrace/disks, written before
// each step that a killed creator could not take back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/disk/disk.h"
#include "workloads/disk/process.h"
#include "workloads/disk/queue_settings.h"

namespace stalltrace::disk {

inline constexpr const char* kDefaultStateRoot = "/run/stalltrace/disks";

// Throws a usage Error.
void check_name(const std::string& name);

// state.json: the creator's part.
struct DiskRecord {
  DiskOptions options;
  std::string boot_id;  // a folder from before a reboot describes nothing that still exists
  bool ready = false;
  int loop = -1;           // the loop device's number, chosen before it is made; -1: none yet
  bool node_made = false;  // /dev/loopN was made by us: /dev is not the kernel's devtmpfs
  std::optional<QueueSettings> old_settings;
};

// daemon.json: the daemon's part.
struct DaemonRecord {
  ProcessId daemon;
  ProcessId logger;  // pid 0: no truth log
  uint64_t created_monotonic_ns = 0;
  bool has_power = true;
};

std::string current_boot_id();

// JSON text and back; the readers throw nlohmann's exceptions.
std::string to_json(const DiskRecord& record);
std::string to_json(const DaemonRecord& record);
DiskRecord disk_record_from_json(const std::string& text);
DaemonRecord daemon_record_from_json(const std::string& text);

// Writes beside and renames: a reader sees the old or the new text, never a part. Mode 0600.
void write_atomically(const std::string& path, const std::string& text);
std::optional<std::string> read_file(const std::string& path);

class StateFolder {
 public:
  StateFolder(const std::string& root, const std::string& name);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string mount_folder() const { return path_ + "/mnt"; }
  [[nodiscard]] std::string backing_file() const { return path_ + "/mnt/disk"; }
  [[nodiscard]] std::string log_file() const { return path_ + "/log"; }
  // The outcome of the last reading of the schedule, written by the daemon.
  [[nodiscard]] std::string schedule_file() const { return path_ + "/schedule.json"; }

  // What the daemon is asked to do, and its answer (control.h).
  [[nodiscard]] std::string order_file() const { return path_ + "/order.json"; }
  [[nodiscard]] std::string answer_file() const { return path_ + "/answer.json"; }
  // Outside the folder, which is for root only.
  [[nodiscard]] std::string fs_folder() const { return mounts_root_ + "/" + name_; }

  // None if the file is missing; a failed Error if it is not ours to read.
  [[nodiscard]] std::optional<DiskRecord> read_disk() const;
  [[nodiscard]] std::optional<DaemonRecord> read_daemon() const;
  void write(const DiskRecord& record) const;
  void write(const DaemonRecord& record) const;

  // Removes the files and the folder; the FUSE file system must be unmounted. state.json goes
  // last, so that what a kill leaves can be destroyed again.
  void remove() const;

 private:
  std::string root_;
  std::string name_;
  std::string path_;
  std::string mounts_root_;
};

// The folder's lock, so that one command at a time works on a disk. It lies on the folder itself
// and so leaves no file behind.
class FolderLock {
 public:
  FolderLock(FolderLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

  // Makes the folder if need be. A failed Error after `timeout_ns`.
  static FolderLock make(const std::string& root, const std::string& name, uint64_t timeout_ns);
  // None if there is no such folder.
  static std::optional<FolderLock> take(const std::string& root, const std::string& name,
                                        uint64_t timeout_ns);
  // A daemon that inherits it keeps the lock until it closes its copy.
  [[nodiscard]] int fd() const { return fd_; }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// The names of all folders, sorted.
std::vector<std::string> list_names(const std::string& root);

}  // namespace stalltrace::disk

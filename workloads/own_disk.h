// An emulated disk, and an ext4 on it, for as long as these objects live; no longer than this
// process, even if it is killed.
#pragma once

#include <string>

#include "workloads/disk/disk.h"
#include "workloads/disk_keeper.h"

namespace stalltrace::workloads {

class OwnDisk {
 public:
  // Throws as disk::create does.
  explicit OwnDisk(const disk::DiskOptions& options);
  OwnDisk(const OwnDisk&) = delete;
  OwnDisk& operator=(const OwnDisk&) = delete;
  // As destroy(), without errors.
  ~OwnDisk();

  // Unmounts what is mounted from it. Throws as disk::destroy does.
  void destroy();
  [[nodiscard]] const disk::DiskInfo& info() const { return info_; }

 private:
  DiskKeeper keeper_;
  disk::DiskInfo info_;
  bool gone_ = false;
};

// At a place that `disk destroy` cleans as well. What fails throws a failed Error.
class OwnFileSystem {
 public:
  // `options`: as for mount -o; may be empty.
  OwnFileSystem(const disk::DiskInfo& disk, std::string options);

  [[nodiscard]] const std::string& folder() const { return folder_; }

  void make() const;
  void mount() const;
  // The error's line; empty if it is mounted.
  [[nodiscard]] std::string try_mount() const;
  // Processes that are just ending are waited for; others keep a mount that nobody sees any more.
  void unmount() const;
  // What e2fsck found wrong, empty if nothing.
  [[nodiscard]] std::string check() const;

 private:
  std::string device_;
  std::string options_;
  std::string folder_;
};

}  // namespace stalltrace::workloads

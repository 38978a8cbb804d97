#include "workloads/disk_use.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "userspace/base/clock.h"

namespace stalltrace::workloads {

DiskUse::DiskUse(std::string folder)
    : folder_(std::move(folder)), begin_(read()), end_(begin_), begin_ns_(monotonic_ns()) {}

void DiskUse::finish() {
  if (end_ns_ != 0) return;
  end_ = read();
  end_ns_ = monotonic_ns();
}

std::string DiskUse::name() const {
  return std::filesystem::path(folder_).filename();
}

DiskUse::Counters DiskUse::read() const {
  Counters counters{};
  std::ifstream file(folder_ + "/stat");
  for (uint64_t& counter : counters) file >> counter;
  return counters;
}

std::vector<DiskUse> disks_of(const std::vector<std::string>& paths) {
  std::set<std::string> folders;
  for (const std::string& path : paths) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) continue;
    std::error_code missing;
    const dev_t dev = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
    std::filesystem::path folder = std::filesystem::canonical(
        fmt::format("/sys/dev/block/{}:{}", major(dev), minor(dev)), missing);
    if (missing) continue;
    // A partition lies in its disk's folder.
    if (std::filesystem::exists(folder / "partition", missing)) folder = folder.parent_path();
    folders.insert(folder);
  }
  return {folders.begin(), folders.end()};
}

}  // namespace stalltrace::workloads

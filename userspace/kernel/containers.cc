#include "userspace/kernel/containers.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "userspace/base/error.h"

namespace stalltrace::kernel {
namespace {

constexpr int kKernfsHandle = 0xfe;  // include/linux/exportfs.h, FILEID_KERNFS: 64 bits of id

std::string cgroup2_mountpoint() {
  try {
    for (const Mount& mount : current_mounts()) {
      if (mount.fs == "cgroup2") return mount.mountpoint;
    }
  } catch (const Error&) {
    // Without it cgroups have no names here.
  }
  return {};
}

uint32_t namespace_of_self() {
  struct stat found {};
  return stat("/proc/self/ns/mnt", &found) == 0 ? static_cast<uint32_t>(found.st_ino) : 0;
}

std::string path_of_fd(int fd) {
  std::array<char, PATH_MAX> path{};
  ssize_t size = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : std::string();
}

// Needs CAP_DAC_READ_SEARCH, as root has it.
std::string cgroup_by_id(int root, uint64_t id) {
  struct {
    file_handle head;
    unsigned char id[sizeof(uint64_t)];
  } handle{};
  handle.head.handle_bytes = sizeof(id);
  handle.head.handle_type = kKernfsHandle;
  std::memcpy(handle.head.f_handle, &id, sizeof(id));
  Fd folder(open_by_handle_at(root, &handle.head, O_PATH | O_CLOEXEC));
  if (folder.get() < 0) return {};
  std::string whole = path_of_fd(folder.get());
  std::string above = path_of_fd(root);
  if (!whole.starts_with(above)) return {};
  whole.erase(0, above.size());
  return whole.empty() ? "/" : whole;
}

std::vector<Mount> mounts_of(uint32_t tid) {
  std::ifstream file(fmt::format("/proc/{}/mountinfo", tid));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  try {
    return parse_mountinfo(text);
  } catch (const Error&) {
    return {};
  }
}

uint32_t parent_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t name_end = text.rfind(')');  // a name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string state;
  uint32_t parent = 0;
  rest >> state >> parent;
  return parent;
}

}  // namespace

Containers::Containers()
    : own_mnt_ns_(namespace_of_self()),
      cgroup_root_(open(cgroup2_mountpoint().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

void Containers::note(uint64_t cgroup, uint32_t mnt_ns, uint32_t tid) {
  std::lock_guard lock(mutex_);
  if (cgroup != 0 && cgroup_root_.get() >= 0 && !cgroups_.contains(cgroup)) {
    cgroups_[cgroup] = cgroup_by_id(cgroup_root_.get(), cgroup);
  }
  if (mnt_ns == 0 || mnt_ns == own_mnt_ns_ || mounts_.contains(mnt_ns)) return;
  std::vector<Mount> mounts = mounts_of(tid);
  if (!mounts.empty()) mounts_[mnt_ns] = std::move(mounts);
}

std::string Containers::cgroup_path(uint64_t id) const {
  std::lock_guard lock(mutex_);
  auto found = cgroups_.find(id);
  return found != cgroups_.end() ? found->second : std::string();
}

std::string Containers::path_inside(uint32_t mnt_ns, uint32_t st_dev,
                                    const std::string& path_in_fs) const {
  std::lock_guard lock(mutex_);
  auto found = mounts_.find(mnt_ns);
  return found != mounts_.end() ? mounted_path(found->second, st_dev, path_in_fs) : std::string();
}

bool is_below(const std::string& path, const std::string& folder) {
  return folder == "/" || path == folder || path.starts_with(folder + "/");
}

std::string mounted_path(const std::vector<Mount>& mounts, uint32_t st_dev,
                         const std::string& path_in_fs) {
  std::string shortest;
  for (const Mount& mount : mounts) {
    if (mount.st_dev != st_dev || !is_below(path_in_fs, mount.root)) continue;
    std::string path = mount.mountpoint == "/" ? std::string() : mount.mountpoint;
    path += mount.root == "/" ? path_in_fs : path_in_fs.substr(mount.root.size());
    if (shortest.empty() || path.size() < shortest.size()) shortest = path;
  }
  return shortest;
}

uint32_t process_of(uint32_t tid) {
  std::ifstream file(fmt::format("/proc/{}/status", tid));
  std::string word;
  uint32_t number = 0;
  while (file >> word) {
    if (word == "Tgid:" && file >> number) return number;
  }
  return 0;
}

std::vector<uint32_t> descendants_of(uint32_t pid) {
  std::multimap<uint32_t, uint32_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      continue;
    }
    children.emplace(parent_of(name), static_cast<uint32_t>(std::stoul(name)));
  }
  std::vector<uint32_t> found{pid};
  for (size_t i = 0; i < found.size(); ++i) {
    auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  return found;
}

}  // namespace stalltrace::kernel

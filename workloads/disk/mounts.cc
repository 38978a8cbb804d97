#include "workloads/disk/mounts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "workloads/disk/state.h"

namespace stalltrace::disk {
namespace {

namespace fs = std::filesystem;

// mountinfo writes blanks, tabs, newlines and backslashes as \ooo.
std::string unescape(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 4], value, 8).ptr == &text[i + 4]) {
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

uint32_t parse_kdev(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return 0;
  return static_cast<uint32_t>(std::stoul(text.substr(0, colon)) << 20 |
                               std::stoul(text.substr(colon + 1)));
}

std::string read_link(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  target.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return target;
}

bool is_device_of(const std::string& path, const std::string& disk) {
  const std::string device = "/dev/" + disk;
  if (path.compare(0, device.size(), device) != 0) return false;
  const std::string rest = path.substr(device.size());
  return rest.empty() || rest.front() == 'p';
}

class HolderSearch {
 public:
  HolderSearch(std::string disk, const std::vector<Mount>& mounts) : disk_(std::move(disk)) {
    for (const uint32_t kdev : kdevs_of(disk_)) kdevs_.insert(kdev);
    for (const Mount& mount : mounts) {
      ids_.insert(mount.id);
      // Where a file system has a device number of its own (btrfs).
      kdevs_.insert(mount.kdev);
    }
  }

  [[nodiscard]] bool holds(const std::string& process) const {
    return lies_here(process + "/cwd") || lies_here(process + "/root") ||
           opens_something(process) || maps_something(process) || sees_mount(process);
  }

 private:
  // By device, since the path of a file on a lazily unmounted file system says nothing. Without
  // asking the file system: another one, of somebody else, may not answer.
  [[nodiscard]] bool lies_here(const std::string& link) const {
    struct statx status {};
    return statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC, 0, &status) == 0 &&
           kdevs_.count(status.stx_dev_major << 20 | status.stx_dev_minor) != 0;
  }

  [[nodiscard]] bool opens_something(const std::string& process) const {
    std::error_code error;
    for (fs::directory_iterator entry(process + "/fd", error), end; !error && entry != end;
         entry.increment(error)) {
      if (is_device_of(read_link(entry->path()), disk_) || lies_here(entry->path())) return true;
      std::ifstream info(process + "/fdinfo/" + entry->path().filename().string());
      for (std::string key; info >> key;) {
        int id = 0;
        if (key == "mnt_id:" && info >> id && ids_.count(id) != 0) return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool maps_something(const std::string& process) const {
    std::ifstream maps(process + "/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned major = 0;
      unsigned minor = 0;
      if (std::sscanf(line.c_str(), "%*s %*s %*s %x:%x", &major, &minor) == 2 &&
          kdevs_.count(major << 20 | minor) != 0) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool sees_mount(const std::string& process) const {
    const std::string space = read_link(process + "/ns/mnt");
    if (space.empty() || space == read_link("/proc/self/ns/mnt")) return false;
    const auto mounts = parse_mountinfo(read_file(process + "/mountinfo").value_or(""));
    return std::any_of(mounts.begin(), mounts.end(),
                       [&](const Mount& mount) { return kdevs_.count(mount.kdev) != 0; });
  }

  std::string disk_;
  std::set<uint32_t> kdevs_;
  std::set<int> ids_;
};

Holder describe_process(const std::string& pid) {
  std::string comm = read_file("/proc/" + pid + "/comm").value_or("?");
  if (!comm.empty() && comm.back() == '\n') comm.pop_back();
  // Any of its threads may be the one that waits.
  bool waits = false;
  std::error_code error;
  for (fs::directory_iterator task("/proc/" + pid + "/task", error), end; !error && task != end;
       task.increment(error)) {
    const std::string stat = read_file(task->path() / "stat").value_or("");
    const size_t comm_end = stat.rfind(')');
    waits = waits || (comm_end != std::string::npos && stat.compare(comm_end, 3, ") D") == 0);
  }
  return {fmt::format("{}[{}]", comm, pid), waits};
}

}  // namespace

std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Mount mount{};
    std::string parent;
    std::string device;
    std::string root;
    std::string word;
    if (!(fields >> mount.id >> parent >> device >> root >> mount.mountpoint)) continue;
    while (fields >> word && word != "-") {
    }
    if (!(fields >> mount.type >> mount.source)) continue;
    mount.kdev = parse_kdev(device);
    mount.mountpoint = unescape(mount.mountpoint);
    mount.source = unescape(mount.source);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::vector<Mount> read_mounts() {
  return parse_mountinfo(read_file("/proc/self/mountinfo").value_or(""));
}

std::vector<uint32_t> kdevs_of(const std::string& disk) {
  std::vector<uint32_t> kdevs;
  const std::string folder = "/sys/block/" + disk;
  if (const auto dev = read_file(folder + "/dev")) kdevs.push_back(parse_kdev(*dev));
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.compare(0, disk.size(), disk) != 0) continue;
    if (const auto dev = read_file(entry->path() / "dev")) kdevs.push_back(parse_kdev(*dev));
  }
  return kdevs;
}

std::vector<Mount> mounts_of(const std::string& disk) {
  const auto kdevs = kdevs_of(disk);
  std::vector<Mount> mounts = read_mounts();
  std::erase_if(mounts, [&](const Mount& mount) {
    return std::find(kdevs.begin(), kdevs.end(), mount.kdev) == kdevs.end() &&
           !is_device_of(mount.source, disk);
  });
  return mounts;
}

std::vector<Holder> holders_of(const std::string& disk, const std::vector<Mount>& mounts) {
  std::vector<Holder> holders;
  const HolderSearch search(disk, mounts);
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string pid = entry->path().filename();
    if (!std::all_of(pid.begin(), pid.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    if (pid == std::to_string(getpid()) || !search.holds(entry->path())) continue;
    holders.push_back(describe_process(pid));
  }
  std::ifstream swaps("/proc/swaps");
  for (std::string line; std::getline(swaps, line);) {
    const std::string area = line.substr(0, line.find(' '));
    if (is_device_of(area, disk)) holders.push_back({"swap on " + area, false});
  }
  for (fs::directory_iterator entry("/sys/block/" + disk + "/holders", error), end;
       !error && entry != end; entry.increment(error)) {
    holders.push_back({"device " + entry->path().filename().string(), false});
  }
  return holders;
}

std::string describe(const std::vector<Holder>& holders) {
  std::string text;
  for (const Holder& holder : holders) text += (text.empty() ? "" : ", ") + holder.text;
  return text.empty() ? "a process that cannot be seen from here" : text;
}

}  // namespace stalltrace::disk

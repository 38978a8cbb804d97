#include "userspace/cli/profile_disk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "userspace/base/error.h"
#include "workloads/command.h"
#include "workloads/disk/disk.h"
#include "workloads/disk/profile.h"

namespace stalltrace::cli {

std::vector<std::string> profiles_named(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const disk::Profile& profile : disk::profiles()) {
    bool wanted = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word == "all" || word == profile.name;
    });
    if (wanted) names.push_back(profile.name);
  }
  for (const std::string& word : words) {
    if (word != "all" && std::find(names.begin(), names.end(), word) == names.end()) {
      throw usage_error("--profiles: there is no kind '{}': it is one of {}, or all", word,
                        disk::profile_names());
    }
  }
  return names;
}

ProfileDisk::ProfileDisk(const std::string& profile)
    : name_(fmt::format("batch-{}-{}", getpid(), profile)) {
  disk::DiskOptions options;
  options.name = name_;
  options.profile = profile;
  options.size_bytes = uint64_t{2} << 30U;
  disk::DiskInfo info = disk::create(options);
  try {
    // Nothing is left for the kernel to initialize in the background.
    workloads::need_command(
        {"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", info.device});
    directory_ = disk::mountpoint_for(name_);
    std::filesystem::create_directories(directory_);
    workloads::need_command({"mount", info.device, directory_});
  } catch (...) {
    disk::destroy(name_);
    throw;
  }
}

ProfileDisk::~ProfileDisk() {
  try {
    disk::destroy(name_);  // unmounts it
    std::error_code ignored;
    std::filesystem::remove(directory_, ignored);
  } catch (const std::exception&) {
    // `disk destroy --all` goes on.
  }
}

}  // namespace stalltrace::cli

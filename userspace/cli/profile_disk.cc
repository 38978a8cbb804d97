#include "userspace/cli/profile_disk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "userspace/base/error.h"
#include "workloads/disk/profile.h"

namespace stalltrace::cli {
namespace {

disk::DiskOptions options_of(const std::string& profile) {
  disk::DiskOptions options;
  options.name = fmt::format("batch-{}-{}", getpid(), profile);
  options.profile = profile;
  options.size_bytes = uint64_t{2} << 30U;
  return options;
}

}  // namespace

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
    : disk_(options_of(profile)), system_(disk_.info(), "") {
  system_.make();
  system_.mount();
}

}  // namespace stalltrace::cli

#include <unistd.h>

#include "userspace/base/error.h"
#include "workloads/disk/disk.h"
#include "workloads/disk/state.h"
#include "workloads/disk/teardown.h"

namespace stalltrace::disk {
namespace {

void check_root() {
  if (geteuid() != 0) throw refused_error("destroying a disk needs root (try sudo)");
}

bool destroy_if_there(const std::string& name, const Notice& notice) {
  const auto lock = FolderLock::take(kDefaultStateRoot, name, kLockTimeoutNs);
  if (!lock) return false;
  tear_down(name, StateFolder(kDefaultStateRoot, name), notice);
  return true;
}

}  // namespace

void destroy(const std::string& name, const Notice& notice) {
  check_name(name);
  check_root();
  if (!destroy_if_there(name, notice)) {
    throw usage_error("there is no disk '{}' (see 'stalltrace disk list')", name);
  }
}

std::vector<std::string> destroy_all(const Notice& notice) {
  check_root();
  std::vector<std::string> destroyed;
  size_t failures = 0;
  for (const std::string& name : list_names(kDefaultStateRoot)) {
    try {
      if (destroy_if_there(name, notice)) destroyed.push_back(name);
    } catch (const Error& error) {
      ++failures;
      if (notice) notice(error.what());
    }
  }
  if (failures > 0) {
    throw failed_error("{} disk{} could not be destroyed, {} destroyed", failures,
                       failures == 1 ? "" : "s", destroyed.size());
  }
  return destroyed;
}

}  // namespace stalltrace::disk

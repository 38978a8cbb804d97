#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "userspace/base/error.h"
#include "workloads/disk/disk.h"
#include "workloads/disk/loop_device.h"
#include "workloads/disk/mounts.h"
#include "workloads/disk/process.h"
#include "workloads/disk/profile.h"
#include "workloads/disk/state.h"
#include "workloads/disk/teardown.h"
#include "workloads/disk/truth_log.h"

namespace stalltrace::disk {
namespace {

constexpr uint64_t kReloadTimeoutNs = 5'000'000'000;
constexpr uint64_t kSettleTimeoutNs = 10'000'000'000;

DiskInfo describe(const std::string& name) {
  const StateFolder folder(kDefaultStateRoot, name);
  DiskInfo info;
  info.name = name;
  info.state_folder = folder.path();
  const auto record = folder.read_disk();
  if (!record || record->boot_id != current_boot_id()) return info;
  const DiskOptions& options = record->options;
  info.size_bytes = options.size_bytes;
  const Profile profile = resolve(options);
  info.profile = options.profile;
  info.read_ns = typical_ns(profile, Op::kRead);
  info.write_ns = typical_ns(profile, Op::kWrite);
  info.flush_ns = typical_ns(profile, Op::kFlush);
  info.cache = profile.cache;
  info.write_through = profile.write_through;
  info.lie_one_in = options.lie_one_in;
  info.seed = options.seed;
  info.schedule_path = options.schedule_path;
  info.truth_path = options.truth_path;
  const auto daemon = folder.read_daemon();
  if (daemon) {
    info.daemon_pid = daemon->daemon.pid;
    info.created_monotonic_ns = daemon->created_monotonic_ns;
  }
  const int loop = attached_loop(folder, *record);
  if (loop >= 0) {
    info.device = loop_device(loop);
    info.kdev = loop_kdev(loop);
    for (const Mount& mount : mounts_of(loop_name(loop))) {
      info.mountpoints.push_back(mount.mountpoint);
    }
  }
  if (record->ready && loop >= 0) {
    info.state = DiskState::kDead;
    if (daemon && is_alive(daemon->daemon)) {
      info.state = daemon->has_power ? DiskState::kServing : DiskState::kCut;
    }
  }
  return info;
}

DaemonRecord need_daemon(const std::string& name) {
  const auto daemon = StateFolder(kDefaultStateRoot, name).read_daemon();
  if (!daemon || !is_alive(daemon->daemon)) {
    throw failed_error("disk '{}': its server is gone", name);
  }
  return *daemon;
}

}  // namespace

const char* to_string(DiskState state) {
  switch (state) {
    case DiskState::kServing:
      return "serving";
    case DiskState::kCut:
      return "cut";
    case DiskState::kDead:
      return "dead";
    case DiskState::kIncomplete:
      break;
  }
  return "incomplete";
}

const char* to_string(Cache cache) {
  return cache == Cache::kVolatile ? "volatile" : "off";
}

std::vector<DiskInfo> list() {
  if (geteuid() != 0) throw refused_error("the emulated disks are root's to see (try sudo)");
  std::vector<DiskInfo> disks;
  for (const std::string& name : list_names(kDefaultStateRoot)) disks.push_back(describe(name));
  return disks;
}

DiskInfo find(const std::string& name) {
  check_name(name);
  const auto disks = list();
  const auto disk = std::find_if(disks.begin(), disks.end(),
                                 [&](const DiskInfo& info) { return info.name == name; });
  if (disk == disks.end()) {
    throw usage_error("there is no disk '{}' (see 'stalltrace disk list')", name);
  }
  return *disk;
}

void reload_schedule(const std::string& name) {
  const DiskInfo info = find(name);
  if (info.schedule_path.empty()) throw usage_error("disk '{}' was made without a schedule", name);
  const StateFolder folder(kDefaultStateRoot, name);
  const uint64_t asked_ns = monotonic_ns();
  send_signal(need_daemon(name).daemon, SIGHUP);
  while (monotonic_ns() < asked_ns + kReloadTimeoutNs) {
    const auto text = read_file(folder.schedule_file());
    const auto outcome = nlohmann::json::parse(text.value_or("{}"));
    if (outcome.value("read_monotonic_ns", uint64_t{0}) > asked_ns) {
      const auto error = outcome.value("error", std::string());
      if (!error.empty()) throw usage_error("{}; the old schedule stays", error);
      return;
    }
    sleep_ns(1'000'000);
  }
  throw failed_error("disk '{}': its server did not read the schedule again", name);
}

void settle_truth(const std::string& name) {
  const DiskInfo info = find(name);
  if (info.truth_path.empty()) return;
  const auto daemon = StateFolder(kDefaultStateRoot, name).read_daemon();
  if (!daemon || !is_alive(daemon->logger)) return;
  if (!settle_pipe(daemon->logger.pid, info.truth_path, kSettleTimeoutNs)) {
    throw failed_error("disk '{}': its truth log {} is not written", name, info.truth_path);
  }
}

}  // namespace stalltrace::disk

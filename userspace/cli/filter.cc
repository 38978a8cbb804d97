#include "userspace/cli/filter.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "userspace/base/error.h"
#include "userspace/model/call_names.h"
#include "userspace/model/events.h"

namespace stalltrace::cli {
namespace {

namespace fs = std::filesystem;

using kernel::is_below;

// As a folder of any hierarchy, or as /proc/PID/cgroup has it.
std::string cgroup_named(const std::string& text) {
  std::error_code error;
  std::string found;
  for (const kernel::Mount& mount : kernel::current_mounts()) {
    if (mount.fs != "cgroup2") continue;
    std::string path = text;
    if (is_below(path, mount.mountpoint)) path.erase(0, mount.mountpoint.size());
    if (!path.starts_with("/")) path.insert(0, "/");
    while (path.size() > 1 && path.ends_with("/")) path.pop_back();
    if (fs::is_directory(mount.mountpoint + path, error)) return path;
    found = mount.mountpoint;
  }
  if (found.empty()) {
    throw usage_error("--cgroup: no cgroup2 hierarchy is mounted here (mount -t cgroup2)");
  }
  throw usage_error("--cgroup: there is no cgroup {} in {}", text, found);
}

std::string file_named(const std::string& text) {
  std::error_code error;
  fs::path path = fs::canonical(text, error);
  if (error) throw usage_error("--path {}: {}", text, error.message());
  return path.string();
}

}  // namespace

std::string Filter::text() const {
  std::string text;
  auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (pid) add(fmt::format("of process {} and those that it made", *pid));
  if (!comms.empty()) add(fmt::format("of tasks named {}", fmt::join(comms, " or ")));
  if (!kinds.empty()) add(fmt::format("of calls {}", fmt::join(kinds, ", ")));
  if (!cgroup.empty()) add(fmt::format("in cgroup {}", cgroup));
  if (!path.empty()) add(fmt::format("on {}", path));
  return text;
}

void add_filter_options(CLI::App& command, Filter& filter) {
  command
      .add_option("-p,--pid", filter.pid,
                  "tell the stalls of this process and of those it makes, or of one thread, only")
      ->type_name("PID");
  command
      .add_option("--comm", filter.comms, "... of tasks with this name only ('fio*'; repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_option("--kind", filter.kinds, "... of this kind of call only (fsync; repeatable)")
      ->type_name("KIND")
      ->allow_extra_args(false);
  command.add_option("--cgroup", filter.cgroup, "... of tasks in this cgroup, or below it, only")
      ->type_name("PATH");
  command.add_option("--path", filter.path, "... on this file, or below this folder, only")
      ->type_name("PATH");
}

Wanted::Wanted(const Filter& filter) : filter_(filter) {
  if (filter.pid) {
    auto pid = static_cast<pid_t>(*filter.pid);
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) {
      throw usage_error("-p {}: no such process", *filter.pid);
    }
    if (kernel::process_of(*filter.pid) == *filter.pid) {
      followed_ = filter.pid;
    } else {
      thread_ = filter.pid;
    }
  }
  for (const std::string& name : filter.kinds) {
    auto kind = model::call_kind_named(name);
    if (!kind || *kind == wire::CALL_NONE) {
      throw usage_error("--kind: no kind of call is named '{}' (io_submit, write, fsync, ...)",
                        name);
    }
    kinds_.push_back(*kind);
  }
  if (!filter.cgroup.empty()) cgroup_ = cgroup_named(filter.cgroup);
  if (!filter.path.empty()) path_ = file_named(filter.path);
}

bool Wanted::has(const wire::wire_call& call, const std::string& path,
                 const kernel::Containers& containers) const {
  if (thread_ && call.task.tid != *thread_) return false;
  if (followed_ && (call.flags & wire::CALL_FOLLOWED) == 0) return false;
  if (!kinds_.empty() && std::find(kinds_.begin(), kinds_.end(), call.call) == kinds_.end()) {
    return false;
  }
  if (!filter_.comms.empty()) {
    std::string comm(model::comm_of(call.task));
    bool named = std::any_of(
        filter_.comms.begin(), filter_.comms.end(),
        [&](const std::string& glob) { return fnmatch(glob.c_str(), comm.c_str(), 0) == 0; });
    if (!named) return false;
  }
  if (!cgroup_.empty() && !is_below(containers.cgroup_path(call.cgroup), cgroup_)) return false;
  return path_.empty() || is_below(path, path_);
}

}  // namespace stalltrace::cli

#include "workloads/disk/state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "userspace/base/error.h"

namespace stalltrace::disk {
namespace {

using nlohmann::json;

constexpr size_t kMaxName = 64;

json process_json(const ProcessId& process) {
  return {{"pid", process.pid}, {"start_ticks", process.start_ticks}};
}

ProcessId process_from(const json& value) {
  return {value.at("pid").get<pid_t>(), value.at("start_ticks").get<uint64_t>()};
}

json settings_json(const QueueSettings& settings) {
  json value = {{"write_cache", settings.write_cache},
                {"scheduler", settings.scheduler},
                {"nr_requests", settings.nr_requests}};
  if (settings.wbt_lat_us) value["wbt_lat_us"] = *settings.wbt_lat_us;
  return value;
}

QueueSettings settings_from(const json& value) {
  QueueSettings settings;
  value.at("write_cache").get_to(settings.write_cache);
  value.at("scheduler").get_to(settings.scheduler);
  value.at("nr_requests").get_to(settings.nr_requests);
  if (value.contains("wbt_lat_us")) settings.wbt_lat_us = value["wbt_lat_us"].get<uint64_t>();
  return settings;
}

void set_if(json& value, const char* key, const std::optional<uint64_t>& number) {
  if (number) value[key] = *number;
}

std::optional<uint64_t> optional_from(const json& value, const char* key) {
  if (!value.contains(key)) return std::nullopt;
  return value[key].get<uint64_t>();
}

template <typename Record>
std::optional<Record> read_record(const std::string& path,
                                  Record (*from_json)(const std::string&)) {
  const auto text = read_file(path);
  if (!text) return std::nullopt;
  try {
    return from_json(*text);
  } catch (const json::exception& error) {
    throw failed_error("{} is damaged: {}", path, error.what());
  }
}

bool is_same_file(int fd, const std::string& path) {
  struct stat by_fd {};
  struct stat by_path {};
  return fstat(fd, &by_fd) == 0 && stat(path.c_str(), &by_path) == 0 &&
         by_fd.st_dev == by_path.st_dev && by_fd.st_ino == by_path.st_ino;
}

}  // namespace

void check_name(const std::string& name) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  };
  if (name.empty() || name.size() > kMaxName || name.front() == '.' || name.front() == '-' ||
      !std::all_of(name.begin(), name.end(), allowed)) {
    throw usage_error(
        "'{}' is no disk name: 1 to {} of A-Z a-z 0-9 _ . - and no . or - at the beginning", name,
        kMaxName);
  }
}

std::string current_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string to_json(const DiskRecord& record) {
  const DiskOptions& options = record.options;
  json value = {{"name", options.name},
                {"size_bytes", options.size_bytes},
                {"profile", options.profile},
                {"lie_one_in", options.lie_one_in},
                {"seed", options.seed},
                {"schedule", options.schedule_path},
                {"truth", options.truth_path},
                {"block_size", options.block_size},
                {"scheduler", options.scheduler},
                {"nr_requests", options.nr_requests},
                {"wbt_lat_us", options.wbt_lat_us},
                {"boot_id", record.boot_id},
                {"ready", record.ready},
                {"loop", record.loop},
                {"node_made", record.node_made}};
  const std::optional<uint64_t> plain =
      options.profile.empty() ? std::optional<uint64_t>(0) : std::nullopt;
  set_if(value, "read_ns", options.read_ns ? options.read_ns : plain);
  set_if(value, "write_ns", options.write_ns ? options.write_ns : plain);
  set_if(value, "flush_ns", options.flush_ns ? options.flush_ns : plain);
  if (options.cache) value["cache"] = to_string(*options.cache);
  if (record.old_settings) value["old_settings"] = settings_json(*record.old_settings);
  return value.dump(2) + "\n";
}

DiskRecord disk_record_from_json(const std::string& text) {
  const json value = json::parse(text);
  DiskRecord record;
  DiskOptions& options = record.options;
  value.at("name").get_to(options.name);
  value.at("size_bytes").get_to(options.size_bytes);
  // Missing in the state of a disk that an earlier version made.
  options.profile = value.value("profile", std::string());
  options.lie_one_in = value.value("lie_one_in", uint64_t{0});
  options.seed = value.value("seed", uint64_t{1});
  options.read_ns = optional_from(value, "read_ns");
  options.write_ns = optional_from(value, "write_ns");
  options.flush_ns = optional_from(value, "flush_ns");
  if (value.contains("cache")) {
    options.cache = value["cache"] == to_string(Cache::kVolatile) ? Cache::kVolatile : Cache::kOff;
  }
  value.at("schedule").get_to(options.schedule_path);
  value.at("truth").get_to(options.truth_path);
  value.at("block_size").get_to(options.block_size);
  value.at("scheduler").get_to(options.scheduler);
  value.at("nr_requests").get_to(options.nr_requests);
  value.at("wbt_lat_us").get_to(options.wbt_lat_us);
  value.at("boot_id").get_to(record.boot_id);
  value.at("ready").get_to(record.ready);
  value.at("loop").get_to(record.loop);
  value.at("node_made").get_to(record.node_made);
  if (value.contains("old_settings")) record.old_settings = settings_from(value["old_settings"]);
  return record;
}

std::string to_json(const DaemonRecord& record) {
  const json value = {{"daemon", process_json(record.daemon)},
                      {"logger", process_json(record.logger)},
                      {"created_monotonic_ns", record.created_monotonic_ns},
                      {"has_power", record.has_power}};
  return value.dump(2) + "\n";
}

DaemonRecord daemon_record_from_json(const std::string& text) {
  const json value = json::parse(text);
  DaemonRecord record;
  record.daemon = process_from(value.at("daemon"));
  record.logger = process_from(value.at("logger"));
  value.at("created_monotonic_ns").get_to(record.created_monotonic_ns);
  record.has_power = value.value("has_power", true);
  return record;
}

void write_atomically(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written =
      fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!written) throw failed_error("cannot write {}: {}", temporary, std::strerror(error));
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    throw failed_error("cannot rename {}: {}", temporary, std::strerror(errno));
  }
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

StateFolder::StateFolder(const std::string& root, const std::string& name)
    : root_(root),
      name_(name),
      path_(root + "/" + name),
      mounts_root_(std::filesystem::path(root).parent_path() / "mounts") {}

std::optional<DiskRecord> StateFolder::read_disk() const {
  return read_record<DiskRecord>(path_ + "/state.json", disk_record_from_json);
}

std::optional<DaemonRecord> StateFolder::read_daemon() const {
  return read_record<DaemonRecord>(path_ + "/daemon.json", daemon_record_from_json);
}

void StateFolder::write(const DiskRecord& record) const {
  write_atomically(path_ + "/state.json", to_json(record));
}

void StateFolder::write(const DaemonRecord& record) const {
  write_atomically(path_ + "/daemon.json", to_json(record));
}

void StateFolder::remove() const {
  if (rmdir(mount_folder().c_str()) != 0 && errno != ENOENT) {
    throw failed_error("cannot remove {}: {}", mount_folder(), std::strerror(errno));
  }
  for (const char* name :
       {"daemon.json", "schedule.json", "order.json", "answer.json", "log", "daemon.json.new",
        "schedule.json.new", "order.json.new", "answer.json.new", "state.json.new", "state.json"}) {
    unlink((path_ + "/" + name).c_str());
  }
  // Somebody's files may lie in it; then it stays.
  rmdir(fs_folder().c_str());
  rmdir(mounts_root_.c_str());
  if (rmdir(path_.c_str()) != 0 && errno != ENOENT) {
    throw failed_error("cannot remove {}: {}", path_, std::strerror(errno));
  }
  // Fail as long as there are other disks, which is as it should be.
  rmdir(root_.c_str());
  if (root_ == kDefaultStateRoot) rmdir("/run/stalltrace");
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

std::optional<FolderLock> FolderLock::take(const std::string& root, const std::string& name,
                                           uint64_t timeout_ns) {
  const std::string path = root + "/" + name;
  const uint64_t deadline = monotonic_ns() + timeout_ns;
  while (true) {
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return std::nullopt;
    if (fd < 0) throw failed_error("cannot open {}: {}", path, std::strerror(errno));
    FolderLock lock(fd);
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        throw failed_error("cannot lock {}: {}", path, std::strerror(errno));
      }
      if (monotonic_ns() >= deadline) {
        throw failed_error("another command is still working on disk '{}'; try again later", name);
      }
      sleep_ns(10'000'000);
    }
    // A destroy may have removed the folder, and a create made a new one, while we waited.
    if (is_same_file(fd, path)) return lock;
  }
}

FolderLock FolderLock::make(const std::string& root, const std::string& name, uint64_t timeout_ns) {
  const std::string path = root + "/" + name;
  while (true) {
    // A destroy elsewhere may remove an empty parent between the two calls.
    std::error_code ignored;
    std::filesystem::create_directories(root, ignored);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST && errno != ENOENT) {
      throw failed_error("cannot make {}: {}", path, std::strerror(errno));
    }
    if (ignored && !std::filesystem::is_directory(root)) {
      throw failed_error("cannot make {}: {}", root, ignored.message());
    }
    if (auto lock = take(root, name, timeout_ns)) return std::move(*lock);
  }
}

std::vector<std::string> list_names(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace stalltrace::disk

#include "workloads/disk/queue_settings.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "userspace/base/error.h"

namespace stalltrace::disk {
namespace {

std::string queue_file(const std::string& disk, const std::string& name) {
  return fmt::format("/sys/block/{}/queue/{}", disk, name);
}

std::optional<std::string> read_setting(const std::string& disk, const std::string& name) {
  std::ifstream file(queue_file(disk, name));
  std::string value;
  if (!std::getline(file, value)) return std::nullopt;
  return value;
}

std::string need_setting(const std::string& disk, const std::string& name) {
  const auto value = read_setting(disk, name);
  if (!value) throw failed_error("cannot read {}", queue_file(disk, name));
  return *value;
}

// "none [mq-deadline] kyber" -> "mq-deadline"
std::string chosen_scheduler(const std::string& line) {
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return line;
  return line.substr(begin + 1, end - begin - 1);
}

std::string current(const std::string& disk, const std::string& name) {
  const std::string line = need_setting(disk, name);
  return name == "scheduler" ? chosen_scheduler(line) : line;
}

void set(const std::string& disk, const std::string& name, const std::string& value) {
  if (current(disk, name) == value) return;
  std::ofstream file(queue_file(disk, name));
  errno = 0;
  file << value << std::flush;
  const int error = errno;
  const std::string now = current(disk, name);
  if (!file || now != value) {
    const ExitCode code = error == EINVAL ? ExitCode::kUsage : ExitCode::kFailed;
    throw Error(code, fmt::format("cannot set {} to '{}' (it is '{}'): {}", queue_file(disk, name),
                                  value, now, std::strerror(error)));
  }
}

}  // namespace

QueueSettings read_queue_settings(const std::string& disk) {
  QueueSettings settings;
  settings.write_cache = need_setting(disk, "write_cache");
  settings.scheduler = chosen_scheduler(need_setting(disk, "scheduler"));
  settings.nr_requests = static_cast<uint32_t>(std::stoul(need_setting(disk, "nr_requests")));
  // Without CONFIG_BLK_WBT_MQ the file is missing or cannot be read.
  if (const auto wbt = read_setting(disk, "wbt_lat_usec")) settings.wbt_lat_us = std::stoull(*wbt);
  return settings;
}

void apply_queue_settings(const std::string& disk, const QueueSettings& wanted) {
  // The scheduler first: switching it resets nr_requests and may switch wbt on or off.
  set(disk, "scheduler", wanted.scheduler);
  set(disk, "nr_requests", std::to_string(wanted.nr_requests));
  if (wanted.wbt_lat_us) set(disk, "wbt_lat_usec", std::to_string(*wanted.wbt_lat_us));
  set(disk, "write_cache", wanted.write_cache);
}

}  // namespace stalltrace::disk

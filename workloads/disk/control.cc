#include "workloads/disk/control.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>

#include "userspace/base/error.h"
#include "userspace/base/fd.h"
#include "workloads/disk/process.h"

namespace stalltrace::disk {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CutOutcome, seed, at_ns, writes_dropped, writes_kept,
                                   writes_in_flight, flushes_in_flight, pages_dropped, pages_kept)

namespace {

using nlohmann::json;

constexpr uint64_t kAnswerTimeoutNs = 10'000'000'000;
constexpr uint64_t kLockWaitNs = 10'000'000'000;
constexpr uint64_t kPollNs = 20'000;

json cut_now(Server& server, const json& order) {
  const uint64_t deadline_ns = monotonic_ns() + order.at("wait_ns").get<uint64_t>();
  std::optional<uint64_t> seed;
  if (order.contains("seed")) seed = order["seed"].get<uint64_t>();
  while (true) {
    const bool in_time = monotonic_ns() < deadline_ns;
    if (const auto outcome = server.cut(seed, in_time)) return *outcome;
    if (!server.has_power()) return {{"error", "it has no power already"}};
    sleep_ns(kPollNs);
  }
}

json obey(Server& server, const json& order) {
  const std::string what = order.at("order");
  if (what == "cut") return cut_now(server, order);
  if (what == "power-on") {
    if (!server.power_on()) return {{"error", "it has power already"}};
    return json::object();
  }
  if (what == "drain") {
    server.drain();
    return json::object();
  }
  return {{"error", "it does not know '" + what + "'"}};
}

// Under the folder's lock, so that orders do not overtake each other.
json ask(const std::string& name, json order) {
  find(name);
  const auto lock = FolderLock::take(kDefaultStateRoot, name, kLockWaitNs);
  const StateFolder folder(kDefaultStateRoot, name);
  const auto record = lock ? folder.read_daemon() : std::nullopt;
  if (!record || !is_alive(record->daemon)) {
    throw failed_error("disk '{}': its server is gone", name);
  }
  const uint64_t id = monotonic_ns();
  order["id"] = id;
  const uint64_t deadline_ns = id + kAnswerTimeoutNs + order.value("wait_ns", uint64_t{0});
  write_atomically(folder.order_file(), order.dump());
  send_signal(record->daemon, SIGUSR2);
  while (monotonic_ns() < deadline_ns) {
    json answer = json::parse(read_file(folder.answer_file()).value_or("{}"));
    if (answer.value("id", uint64_t{0}) == id) {
      const auto error = answer.value("error", std::string());
      if (!error.empty()) throw usage_error("disk '{}': {}", name, error);
      return answer;
    }
    sleep_ns(10 * kPollNs);
  }
  throw failed_error("disk '{}': its server does not answer", name);
}

// The kernel's copies are of before the cut.
void drop_cached_blocks(const std::string& device) {
  const Fd fd(open(device.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() >= 0) ioctl(fd.get(), BLKFLSBUF, 0);
}

}  // namespace

void obey_order(Server& server, const StateFolder& folder, DaemonRecord& record,
                const std::function<void(const std::string&)>& log) {
  json answer;
  try {
    const json order = json::parse(read_file(folder.order_file()).value_or("{}"));
    try {
      answer = obey(server, order);
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    answer["id"] = order.at("id");
    if (record.has_power != server.has_power()) {
      record.has_power = server.has_power();
      folder.write(record);
    }
    write_atomically(folder.answer_file(), answer.dump());
    log(order.at("order").get<std::string>() + ": " + answer.dump());
  } catch (const std::exception& error) {
    log(error.what());
  }
}

CutOutcome cut(const std::string& name, std::optional<uint64_t> seed, uint64_t wait_ns) {
  json order = {{"order", "cut"}, {"wait_ns", wait_ns}};
  if (seed) order["seed"] = *seed;
  return ask(name, order).get<CutOutcome>();
}

void power_on(const std::string& name) {
  const DiskInfo info = find(name);
  // Now, while what the kernel would still write fails.
  if (info.state == DiskState::kCut && info.mountpoints.empty()) drop_cached_blocks(info.device);
  ask(name, {{"order", "power-on"}});
}

void drain_cache(const std::string& name) {
  ask(name, {{"order", "drain"}});
}

std::string mountpoint_for(const std::string& name) {
  return StateFolder(kDefaultStateRoot, name).fs_folder();
}

}  // namespace stalltrace::disk

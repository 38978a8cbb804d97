#include "userspace/cli/osync_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

#include "userspace/report/json_figures.h"

namespace stalltrace::cli {
namespace {

using nlohmann::json;
using report::number_at;

std::string queue_line(const kernel::Device& device, std::string_view name) {
  std::string disk = device.disk_name;
  std::replace(disk.begin(), disk.end(), '/', '!');
  std::ifstream file(fmt::format("/sys/class/block/{}/queue/{}", disk, name));
  std::string line;
  std::getline(file, line);
  return line;
}

std::string percent_of(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

// "2.31 writers share a flush", or that they do not.
std::string sharing(const json& workload) {
  const json& flushes = workload.at("flushes");
  const double threads = number_at(workload.at("options"), "threads");
  const double executed = number_at(flushes, "executed");
  if (executed == 0) return "no flush was executed";
  const double per_flush = number_at(flushes, "writers_per_flush");
  std::string text = fmt::format("{:.2f} writes per flush", per_flush);
  if (threads > 1) {
    // One after the other, each write alone has at best as many flushes as it asks for.
    const double asked =
        number_at(flushes, "requests") / std::max(1.0, number_at(workload, "writes"));
    const double shared = number_at(flushes, "requests_per_flush");
    text += fmt::format(", each asks for {:.1f}, {:.1f} requests share one", asked, shared);
  }
  return text;
}

std::string main_root(const json& workload) {
  const json& roots = workload.at("writers").at("roots");
  if (roots.empty()) return {};
  return fmt::format("{} {}", roots[0].at("cause").get<std::string>(),
                     roots[0].value("name", std::string()));
}

}  // namespace

json flush_figures(const model::Trace& trace, const kernel::Device& device,
                   const std::vector<uint32_t>& disks, uint64_t writes,
                   std::optional<uint64_t> diskstats) {
  uint64_t executed = 0;
  uint64_t requests = 0;
  uint64_t empty = 0;
  for (uint32_t disk : disks) {
    for (const model::Flush& flush : trace.flushes(disk)) {
      if (flush.unfinished() || !trace.window().holds(flush.device.end_ns)) continue;
      ++executed;
      requests += flush.event.members;
      empty += flush.event.bare;
    }
  }
  auto per_flush = [executed](uint64_t count) {
    return executed == 0 ? 0 : static_cast<double>(count) / static_cast<double>(executed);
  };
  json figures{{"executed", executed},
               {"requests", requests},
               {"empty", empty},
               {"after_writes", requests - std::min(requests, empty)},
               {"writers_per_flush", per_flush(writes)},
               {"requests_per_flush", per_flush(requests)},
               {"fua", queue_line(device, "fua") == "1"},
               {"write_cache", device.write_cache}};
  if (diskstats) figures["diskstats"] = *diskstats;
  return figures;
}

json root_figures(const report::Report& report, const std::set<uint32_t>& tids, double writers_us) {
  std::map<std::pair<blame::RootKind, uint32_t>, uint64_t> sums;
  uint64_t all_ns = 0;
  auto add = [&](const std::vector<blame::Root>& roots) {
    for (const blame::Root& root : roots) {
      sums[{root.kind, root.dev}] += root.ns;
      all_ns += root.ns;
    }
  };
  for (const blame::Stall& stall : report.stalls) {
    if (tids.contains(stall.task.tid)) add(stall.roots);
  }
  // A write that blocks nobody while it is on its way. Its submission is a call, and counted so.
  for (const report::AsyncStats& async : report.async) {
    for (const report::AsyncSlow& slow : async.slow) {
      if (tids.contains(slow.task.tid)) add(slow.roots);
    }
  }
  std::vector<std::pair<std::pair<blame::RootKind, uint32_t>, uint64_t>> sorted(sums.begin(),
                                                                                sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  json roots = json::array();
  for (const auto& [key, ns] : sorted) {
    json root{{"cause", blame::name_of(key.first)},
              {"us", static_cast<double>(ns) / 1e3},
              {"share", writers_us > 0 ? static_cast<double>(ns) / 1e3 / writers_us : 0}};
    if (key.second != 0) {
      root["dev"] = kernel::kdev_text(key.second);
      for (const report::DeviceInfo& device : report.devices) {
        if (device.dev == key.second) root["name"] = device.name;
      }
    }
    roots.push_back(std::move(root));
  }
  return {{"roots", roots},
          {"share", writers_us > 0 ? static_cast<double>(all_ns) / 1e3 / writers_us : 0}};
}

std::string osync_verdict(const json& workload) {
  if (!workload.contains("states") || number_at(workload, "looks") == 0) {
    return "it ran too short to be looked at";
  }
  const json& states = workload.at("states");
  std::vector<std::pair<double, std::string>> by_share;
  for (const auto& [name, share] : states.items()) by_share.emplace_back(share, name);
  std::sort(by_share.rbegin(), by_share.rend());
  const auto& [share, state] = by_share.front();
  const std::string most = percent_of(share) + " of the writers' time";
  const std::string shared = workload.contains("flushes") ? "; " + sharing(workload) : "";
  std::string root;
  if (workload.contains("writers")) {
    root = main_root(workload);
    if (!root.empty()) root = ", root " + root;
  }
  const std::string lock_free =
      states.at("lock").get<double>() < 0.01
          ? "; no lock"
          : "; " + percent_of(states.at("lock").get<double>()) + " in locks";
  constexpr double kMost = 0.5;
  if (share < kMost) {
    return fmt::format("serialized by no single thing: {} {}, {} {}{}", percent_of(share), state,
                       percent_of(by_share[1].first), by_share[1].second, shared);
  }
  if (state == "lock") {
    std::string wait_class = "a lock";
    for (const json& wait : workload.at("waits")) {
      const std::string name = wait.at("class");
      if (!name.starts_with("lock.")) continue;
      wait_class = name;
      break;
    }
    return fmt::format("serialized by a lock ({}): {}{}{}", wait_class, most, root, shared);
  }
  if (state == "flush") {
    return fmt::format("serialized by the device's flush: {}{}{}{}", most, root, shared, lock_free);
  }
  if (state == "device") {
    return fmt::format("serialized by the device's writes: {}{}{}{}", most, root, shared,
                       lock_free);
  }
  if (state == "queue") {
    return fmt::format("serialized in the block layer's queue: {}{}{}{}", most, root, shared,
                       lock_free);
  }
  if (state == "journal") {
    return fmt::format("serialized by the file system's journal: {}{}{}{}", most, root, shared,
                       lock_free);
  }
  if (state == "run") return fmt::format("serialized by the CPU: {}{}{}", most, shared, lock_free);
  return fmt::format("serialized by other waits: {}{}{}", most, root, shared);
}

}  // namespace stalltrace::cli

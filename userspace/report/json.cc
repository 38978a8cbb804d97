#include "userspace/report/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "userspace/kernel/devices.h"
#include "userspace/model/call_names.h"
#include "userspace/report/clean_text.h"

namespace stalltrace::report {
namespace {

using Json = nlohmann::ordered_json;

Json signed_us(int64_t ns) {
  if (ns % 1000 == 0) return ns / 1000;
  return static_cast<double>(ns) / 1000;
}

void put_text(Json& object, const char* key, std::string_view text) {
  if (!text.empty()) object[key] = valid_utf8(text);
}

void put_number(Json& object, const char* key, uint64_t number) {
  if (number != 0) object[key] = number;
}

void put_dev(Json& object, const char* key, uint32_t kdev) {
  if (kdev != 0) object[key] = kernel::kdev_text(kdev);
}

void put_task(Json& object, const blame::TaskName& task) {
  if (task.tid == 0) return;
  object["tid"] = task.tid;
  put_number(object, "pid", task.pid);
  object["comm"] = valid_utf8(task.comm);
}

void put_times(Json& object, const char* key, const Dist& dist) {
  if (dist.count != 0) object[key] = times_json(dist);
}

Json texts(const std::vector<std::string>& list) {
  Json array = Json::array();
  for (const std::string& text : list) array.push_back(valid_utf8(text));
  return array;
}

// What others put into the report: strings in it may hold any bytes.
Json cleaned(const Json& value) {
  if (value.is_string()) return valid_utf8(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Json array = Json::array();
    for (const Json& item : value) array.push_back(cleaned(item));
    return array;
  }
  if (value.is_object()) {
    Json object = Json::object();
    for (const auto& [key, item] : value.items()) object[valid_utf8(key)] = cleaned(item);
    return object;
  }
  // JSON has no word for infinity: what cannot be said is null here already, not only when dumped.
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return nullptr;
  return value;
}

// Shares in millionths by largest remainder: as printed they add up to exactly 1.
std::vector<double> shares_of(const std::vector<uint64_t>& times_ns) {
  constexpr uint64_t kWhole = 1000000;
  long double total = 0;
  for (uint64_t ns : times_ns) total += static_cast<long double>(ns);
  if (total <= 0) return {};
  std::vector<uint64_t> parts;
  std::vector<std::pair<long double, size_t>> remainders;
  for (size_t i = 0; i < times_ns.size(); ++i) {
    long double exact = static_cast<long double>(times_ns[i]) * kWhole / total;
    parts.push_back(static_cast<uint64_t>(exact));
    remainders.emplace_back(exact - std::floor(exact), i);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  uint64_t given = std::accumulate(parts.begin(), parts.end(), uint64_t{0});
  for (size_t i = 0; given < kWhole && i < remainders.size(); ++i, ++given) {
    ++parts[remainders[i].second];
  }
  std::vector<double> shares;
  for (uint64_t part : parts) shares.push_back(static_cast<double>(part) / kWhole);
  return shares;
}

template <typename Row>
std::vector<double> shares_of_rows(const std::vector<Row>& rows) {
  std::vector<uint64_t> times_ns;
  for (const Row& row : rows) times_ns.push_back(row.ns);
  return shares_of(times_ns);
}

Json root_json(const blame::Root& root) {
  Json object{{"cause", blame::name_of(root.kind)}};
  put_dev(object, "dev", root.dev);
  put_task(object, root.task);
  object["us"] = us_json(root.ns);
  object["sure"] = blame::name_of(root.sure);
  return object;
}

Json roots_json(const std::vector<blame::Root>& roots) {
  Json array = Json::array();
  for (const blame::Root& root : roots) array.push_back(root_json(root));
  return array;
}

class Writer {
 public:
  explicit Writer(const Report& report) : report_(report) {}

  Json run() const {
    Json out = but_stalls();
    out["stalls"] = list(report_.stalls, &Writer::stall);
    return out;
  }

  void put(const std::function<void(std::string_view)>& put) const {
    const Json out = but_stalls();
    const char* before = "{";
    for (const auto& [key, value] : out.items()) {
      put(fmt::format("{}\n {}: ", std::exchange(before, ","), Json(key).dump()));
      if (key == "stalls") {
        put_stalls(put);
      } else {
        put(indented(value.dump(1)));
      }
    }
    put("\n}\n");
  }

 private:
  // An empty list holds the place of the stalls.
  [[nodiscard]] Json but_stalls() const {
    Json out;
    out["schema"] = kSchema;
    out["tool"] = {{"version", valid_utf8(report_.version)}, {"command", texts(report_.command)}};
    out["host"] = {{"kernel", valid_utf8(report_.kernel)},
                   {"cpus", report_.cpus},
                   {"arch", valid_utf8(report_.arch)}};
    out["window"] = window();
    out["hooks"] = list(report_.hooks, &Writer::hook);
    out["missing_results"] = texts(report_.missing_results);
    if (!report_.notes.empty()) out["notes"] = texts(report_.notes);
    out["devices"] = devices();
    out["ops"] = list(report_.ops, &Writer::op);
    out["stalls"] = Json::array();
    out["async"] = list(report_.async, &Writer::async);
    out["culprits"] = list(report_.culprits, &Writer::culprit);
    out["waits"] = waits();
    out["roots"] = roots();
    out["commits"] = list(report_.commits, &Writer::commit);
    out["flushes"] = list(report_.flushes, &Writer::flush);
    out["locks"] = list(report_.locks, &Writer::lock);
    if (!report_.batching.is_null()) out["batching"] = cleaned(Json(report_.batching));
    if (!report_.probe.is_null()) out["probe"] = cleaned(Json(report_.probe));
    if (!report_.workload.is_null()) out["workload"] = cleaned(Json(report_.workload));
    const Loss& loss = report_.loss;
    out["loss"] = {{"events", loss.events},
                   {"stalls", loss.stalls},
                   {"folded_parts", loss.folded_parts},
                   {"unmatched", loss.unmatched},
                   {"map_full", loss.map_full},
                   {"missed_probes", loss.missed_probes}};
    out["overhead"] = overhead();
    return out;
  }

  void put_stalls(const std::function<void(std::string_view)>& put) const {
    const char* before = "[";
    for (const blame::Stall& one : report_.stalls) {
      put(fmt::format("{}\n  {}", std::exchange(before, ","), stall(one).dump()));
    }
    put(report_.stalls.empty() ? "[]" : "\n ]");
  }

  // No string in JSON holds a line end.
  static std::string indented(const std::string& text) {
    std::string deeper;
    for (char letter : text) {
      deeper += letter;
      if (letter == '\n') deeper += ' ';
    }
    return deeper;
  }

  template <typename Item>
  Json list(const std::vector<Item>& items, Json (Writer::*one)(const Item&) const) const {
    Json array = Json::array();
    for (const Item& item : items) array.push_back((this->*one)(item));
    return array;
  }

  [[nodiscard]] Json since_start(uint64_t ns) const {
    return signed_us(static_cast<int64_t>(ns - report_.start_ns));
  }

  [[nodiscard]] double duration_s() const {
    return static_cast<double>(report_.end_ns - report_.start_ns) / 1e9;
  }

  void put_count(Json& object, uint64_t count) const {
    object["count"] = count;
    if (duration_s() > 0) object["per_s"] = static_cast<double>(count) / duration_s();
  }

  [[nodiscard]] Json window() const {
    return {{"start_unix_ns", report_.start_unix_ns},
            {"start_monotonic_ns", report_.start_ns},
            {"duration_s", duration_s()},
            {"threshold_us", us_json(report_.threshold_ns)},
            {"bounds", valid_utf8(report_.bounds)}};
  }

  [[nodiscard]] Json hook(const Hook& hook) const {
    Json object{
        {"name", valid_utf8(hook.name)}, {"method", valid_utf8(hook.method)}, {"ok", hook.ok}};
    put_text(object, "why", hook.why);
    return object;
  }

  [[nodiscard]] Json devices() const {
    Json array = Json::array();
    for (const DeviceInfo& device : report_.devices) array.push_back(device_json(device));
    return array;
  }

  [[nodiscard]] Json op(const OpStats& op) const {
    Json object{{"kind", model::call_name(op.kind)}};
    put_dev(object, "dev", op.dev);
    object["latency_us"] = times_json(op.latency);
    object["stalled"] = op.stalled;
    object["stalled_us"] = us_json(op.stalled_ns);
    return object;
  }

  [[nodiscard]] Json cause(const blame::Cause& cause) const {
    Json object{{"kind", blame::name_of(cause.kind)}};
    put_text(object, "id", cause.id);
    put_dev(object, "dev", cause.dev);
    put_task(object, cause.task);
    object["start_us"] = since_start(cause.start_ns);
    object["us"] = us_json(cause.ns);
    put_text(object, "text", cause.text);
    object["sure"] = blame::name_of(cause.sure);
    if (!cause.evidence.empty()) object["evidence"] = texts(cause.evidence);
    put_number(object, "turns", cause.turns);
    if (cause.causes.empty()) {
      object["root"] = root_json(cause.root);
    } else {
      object["causes"] = list(cause.causes, &Writer::cause);
    }
    return object;
  }

  [[nodiscard]] Json part(const blame::Part& part) const {
    Json object{{"class", kernel::name_of(part.wait_class)},
                {"start_us", since_start(part.start_ns)},
                {"us", us_json(part.ns)}};
    if (!part.stack.empty()) object["stack"] = texts(part.stack);
    if (part.causes.empty()) {
      object["root"] = root_json(part.root);
    } else {
      object["causes"] = list(part.causes, &Writer::cause);
    }
    return object;
  }

  [[nodiscard]] Json stall(const blame::Stall& stall) const {
    Json object{{"id", stall.id},
                {"kind", model::call_name(stall.kind)},
                {"pid", stall.task.pid},
                {"tid", stall.task.tid},
                {"comm", valid_utf8(stall.task.comm)}};
    put_dev(object, "dev", stall.dev);
    put_dev(object, "fs_dev", stall.fs_dev);
    put_number(object, "ino", stall.ino);
    put_text(object, "path", stall.path);
    put_text(object, "cgroup", stall.home.cgroup);
    put_number(object, "inner_pid", stall.home.inner_pid);
    put_number(object, "inner_tid", stall.home.inner_tid);
    put_text(object, "inner_path", stall.home.inner_path);
    put_number(object, "user_id", stall.user_id);
    object["start_us"] = since_start(stall.start_ns);
    object["duration_us"] = us_json(stall.ns);
    if (stall.cut != blame::Cut::kNone) {
      object["cut"] = stall.cut == blame::Cut::kStart ? "start" : "end";
    }
    if (stall.unfinished) object["unfinished"] = true;
    object["parts"] = list(stall.parts, &Writer::part);
    object["roots"] = roots_json(stall.roots);
    return object;
  }

  [[nodiscard]] Json slow(const AsyncSlow& slow) const {
    Json object;
    put_task(object, slow.task);
    put_dev(object, "dev", slow.dev);
    put_number(object, "ino", slow.ino);
    put_number(object, "user_id", slow.user_id);
    object["start_us"] = since_start(slow.start_ns);
    object["duration_us"] = us_json(slow.ns);
    if (slow.submit_ns) object["submit_us"] = us_json(*slow.submit_ns);
    if (slow.queue_ns) object["queue_us"] = us_json(*slow.queue_ns);
    if (slow.device_ns) object["device_us"] = us_json(*slow.device_ns);
    if (slow.complete_ns) object["complete_us"] = us_json(*slow.complete_ns);
    object["roots"] = roots_json(slow.roots);
    return object;
  }

  // Those of the contract first and in its order, then any others.
  template <size_t N>
  static Json named_dists(const std::map<std::string, Dist>& dists,
                          const std::array<std::string_view, N>& order) {
    Json object = Json::object();
    for (std::string_view name : order) {
      auto found = dists.find(std::string(name));
      if (found != dists.end()) object[std::string(name)] = times_json(found->second);
    }
    for (const auto& [name, dist] : dists) {
      if (!object.contains(name)) object[valid_utf8(name)] = times_json(dist);
    }
    return object;
  }

  [[nodiscard]] Json async(const AsyncStats& async) const {
    static constexpr std::array<std::string_view, 4> kOrder{"submit", "queue", "device",
                                                            "complete"};
    Json object{{"kind", valid_utf8(async.kind)}};
    put_dev(object, "dev", async.dev);
    object["latency_us"] = times_json(async.latency);
    if (!async.parts.empty()) object["parts_us"] = named_dists(async.parts, kOrder);
    object["slow"] = list(async.slow, &Writer::slow);
    return object;
  }

  [[nodiscard]] Json culprit(const Culprit& culprit) const {
    Json object;
    put_task(object, culprit.task);
    put_text(object, "path", culprit.path);
    put_text(object, "what", culprit.what);
    object["others_us"] = us_json(culprit.others_ns);
    object["stalls"] = culprit.stalls;
    return object;
  }

  template <typename Row>
  static Json share_row(const char* key, std::string_view name, const Row& row,
                        const double* share) {
    Json object{{key, name}};
    put_dev(object, "dev", row.dev);
    object["us"] = us_json(row.ns);
    if (share != nullptr) object["share"] = *share;
    object["stalls"] = row.stalls;
    return object;
  }

  [[nodiscard]] Json waits() const {
    std::vector<double> shares = shares_of_rows(report_.waits);
    Json array = Json::array();
    for (size_t i = 0; i < report_.waits.size(); ++i) {
      const WaitShare& row = report_.waits[i];
      array.push_back(share_row("class", kernel::name_of(row.wait_class), row,
                                shares.empty() ? nullptr : &shares[i]));
    }
    return array;
  }

  [[nodiscard]] Json roots() const {
    std::vector<double> shares = shares_of_rows(report_.roots);
    Json array = Json::array();
    for (size_t i = 0; i < report_.roots.size(); ++i) {
      const RootShare& row = report_.roots[i];
      array.push_back(
          share_row("cause", blame::name_of(row.kind), row, shares.empty() ? nullptr : &shares[i]));
    }
    return array;
  }

  [[nodiscard]] Json commit(const CommitStats& commit) const {
    static constexpr std::array<std::string_view, 7> kOrder{
        "commit.handles",    "commit.data", "commit.log", "commit.record",
        "commit.checkpoint", "commit.run",  "total"};
    Json object;
    put_dev(object, "dev", commit.dev);
    put_count(object, commit.count);
    if (commit.syncs_per_commit) {
      object["syncs_per_commit"] = numbers_json(*commit.syncs_per_commit);
    }
    if (!commit.phases.empty()) object["phase_us"] = named_dists(commit.phases, kOrder);
    if (commit.proc_count) object["proc_count"] = *commit.proc_count;
    return object;
  }

  [[nodiscard]] Json flush(const FlushStats& flush) const {
    Json object;
    put_dev(object, "dev", flush.dev);
    put_count(object, flush.count);
    if (flush.callers_per_flush) {
      object["callers_per_flush"] = numbers_json(*flush.callers_per_flush);
    }
    put_times(object, "queue_us", flush.queue);
    put_times(object, "device_us", flush.device);
    if (flush.diskstats_count) object["diskstats_count"] = *flush.diskstats_count;
    if (!flush.list.empty()) object["flush_list"] = list(flush.list, &Writer::flush_times);
    return object;
  }

  [[nodiscard]] Json flush_times(const FlushTimes& flush) const {
    Json object{{"start_us", since_start(flush.start_ns)}, {"us", us_json(flush.ns)}};
    if (flush.queue_ns) object["queue_us"] = us_json(*flush.queue_ns);
    put_number(object, "members", flush.members);
    if (flush.end_unseen) object["end_unseen"] = true;
    return object;
  }

  [[nodiscard]] Json holder(const LockHolder& holder) const {
    Json object;
    put_task(object, holder.task);
    put_text(object, "doing", holder.doing);
    object["us"] = us_json(holder.ns);
    return object;
  }

  [[nodiscard]] Json lock(const LockStats& lock) const {
    Json object{{"class", kernel::name_of(lock.wait_class)}};
    put_dev(object, "dev", lock.dev);
    put_number(object, "ino", lock.ino);
    put_text(object, "path", lock.path);
    object["mode"] = lock.write ? "write" : "read";
    object["waits"] = lock.waits;
    object["us"] = us_json(lock.ns);
    object["max_us"] = us_json(lock.max_ns);
    object["holders"] = list(lock.holders, &Writer::holder);
    return object;
  }

  [[nodiscard]] Json overhead() const {
    const Overhead& cost = report_.overhead;
    Json object = Json::object();
    if (cost.bpf_ns) object["bpf_ns"] = *cost.bpf_ns;
    if (cost.bpf_runs) object["bpf_runs"] = *cost.bpf_runs;
    if (cost.bpf_cpu_share && std::isfinite(*cost.bpf_cpu_share)) {
      object["bpf_cpu_share"] = *cost.bpf_cpu_share;
    }
    object["self_cpu_s"] = cost.self_cpu_s;
    object["self_rss_mib"] = cost.self_rss_mib;
    return object;
  }

  const Report& report_;
};

template <typename Convert>
Json dist_json(const Dist& dist, double mean, Convert convert) {
  return {{"count", dist.count},         {"mean", mean},
          {"p50", convert(dist.p50_ns)}, {"p90", convert(dist.p90_ns)},
          {"p99", convert(dist.p99_ns)}, {"p999", convert(dist.p999_ns)},
          {"max", convert(dist.max_ns)}};
}

}  // namespace

Json us_json(uint64_t ns) {
  if (ns % 1000 == 0) return ns / 1000;
  return static_cast<double>(ns) / 1000;
}

Json times_json(const Dist& dist) {
  return dist_json(dist, std::round(dist.mean_ns) / 1000, us_json);
}

Json device_json(const DeviceInfo& device) {
  Json object;
  put_dev(object, "dev", device.dev);
  put_dev(object, "fs_dev", device.fs_dev);
  object["name"] = valid_utf8(device.name);
  put_text(object, "fs", device.fs);
  put_text(object, "mountpoint", device.mountpoint);
  put_text(object, "options", device.options);
  object["has_journal"] = device.has_journal;
  if (device.journal_dev) object["journal_dev"] = kernel::kdev_text(*device.journal_dev);
  put_text(object, "write_cache", device.write_cache);
  if (device.bios_refused != 0) object["bios_refused"] = device.bios_refused;
  return object;
}

Json numbers_json(const Dist& dist) {
  return dist_json(dist, dist.mean_ns, [](uint64_t number) { return Json(number); });
}

Json to_json(const Report& report) {
  return Writer(report).run();
}

void put_json(const Report& report, const std::function<void(std::string_view)>& put) {
  Writer(report).put(put);
}

std::string json_text(const Report& report) {
  std::string text;
  put_json(report, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace stalltrace::report

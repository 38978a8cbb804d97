#include "userspace/report/read_json.h"

#include <cmath>
#include <limits>
#include <utility>

#include "userspace/model/call_names.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/json.h"
#include "userspace/report/json_node.h"

namespace stalltrace::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMost32 = std::numeric_limits<uint32_t>::max();

std::string text_or_empty(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  return found ? found->text() : std::string();
}

uint64_t number_or_0(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  return found ? found->number() : 0;
}

uint32_t dev_or_0(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  return found ? found->kdev() : 0;
}

std::optional<uint64_t> optional_number(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  if (!found) return std::nullopt;
  return found->number();
}

std::optional<uint64_t> optional_ns(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  if (!found) return std::nullopt;
  return found->us_as_ns();
}

double real_or_0(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  return found ? found->real() : 0;
}

std::vector<std::string> texts(const JsonNode& node, const char* key) {
  std::vector<std::string> list;
  for (const JsonNode& item : node.items(key)) list.push_back(item.text());
  return list;
}

// From the names that the values from the first (0) to `last` have.
template <typename Enum>
Enum named(const JsonNode& node, Enum last, const char* what) {
  std::string name = node.text();
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (blame::name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  throw node.error("'{}' is no {}", printable(name, false), what);
}

kernel::WaitClass wait_class(const JsonNode& node) {
  std::string name = node.text();
  std::optional<kernel::WaitClass> found = kernel::wait_class_named(name);
  if (!found) throw node.error("'{}' is no wait class", printable(name, false));
  return *found;
}

wire::wire_call_kind call_kind(const JsonNode& node) {
  std::string name = node.text();
  std::optional<wire::wire_call_kind> found = model::call_kind_named(name);
  if (!found) throw node.error("'{}' is no kind of call", printable(name, false));
  return *found;
}

blame::Sure sure(const JsonNode& node) {
  return named(node, blame::Sure::kGuess, "degree of sureness");
}

blame::TaskName task(const JsonNode& node) {
  blame::TaskName task;
  if (std::optional<JsonNode> tid = node.find("tid")) {
    task.tid = static_cast<uint32_t>(tid->number(kMost32));
  }
  if (std::optional<JsonNode> pid = node.find("pid")) {
    task.pid = static_cast<uint32_t>(pid->number(kMost32));
  }
  task.comm = text_or_empty(node, "comm");
  return task;
}

Dist times(const JsonNode& node) {
  Dist dist;
  dist.count = node.at("count").number();
  dist.mean_ns = std::round(node.at("mean").real() * 1000);
  dist.p50_ns = node.at("p50").us_as_ns();
  dist.p90_ns = node.at("p90").us_as_ns();
  dist.p99_ns = node.at("p99").us_as_ns();
  dist.p999_ns = node.at("p999").us_as_ns();
  dist.max_ns = node.at("max").us_as_ns();
  return dist;
}

Dist times_or_empty(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  return found ? times(*found) : Dist{};
}

std::optional<Dist> optional_numbers(const JsonNode& node, const char* key) {
  std::optional<JsonNode> found = node.find(key);
  if (!found) return std::nullopt;
  Dist dist;
  dist.count = found->at("count").number();
  dist.mean_ns = found->at("mean").real();
  dist.p50_ns = found->at("p50").number();
  dist.p90_ns = found->at("p90").number();
  dist.p99_ns = found->at("p99").number();
  dist.p999_ns = found->at("p999").number();
  dist.max_ns = found->at("max").number();
  return dist;
}

blame::Root root(const JsonNode& node) {
  blame::Root root;
  root.kind = named(node.at("cause"), blame::RootKind::kUnexplained, "root cause");
  root.dev = dev_or_0(node, "dev");
  root.task = task(node);
  root.ns = node.at("us").us_as_ns();
  root.sure = sure(node.at("sure"));
  return root;
}

std::vector<blame::Root> roots(const JsonNode& node) {
  std::vector<blame::Root> list;
  for (const JsonNode& item : node.items("roots")) list.push_back(root(item));
  return list;
}

class Reader {
 public:
  explicit Reader(JsonNode top) : top_(std::move(top)) {}

  Report run() {
    check_schema();
    JsonNode tool = top_.at("tool");
    report_.version = text_or_empty(tool, "version");
    report_.command = texts(tool, "command");
    JsonNode host = top_.at("host");
    report_.kernel = text_or_empty(host, "kernel");
    report_.arch = text_or_empty(host, "arch");
    report_.cpus = static_cast<uint32_t>(number_or_0(host, "cpus"));
    read_window(top_.at("window"));
    read_lists();
    if (std::optional<JsonNode> batching = top_.find("batching")) {
      report_.batching = batching->json();
    }
    if (std::optional<JsonNode> probe = top_.find("probe")) report_.probe = probe->json();
    if (std::optional<JsonNode> work = top_.find("workload")) report_.workload = work->json();
    read_loss();
    read_overhead();
    return std::move(report_);
  }

 private:
  void check_schema() const {
    std::string schema = top_.at("schema").text();
    if (schema != kSchema) {
      throw top_.error("its schema is '{}', not '{}'", printable(schema, false), kSchema);
    }
  }

  void read_window(const JsonNode& window) {
    report_.start_unix_ns = number_or_0(window, "start_unix_ns");
    report_.start_ns = window.at("start_monotonic_ns").number();
    JsonNode duration = window.at("duration_s");
    double duration_ns = std::round(duration.real() * 1e9);
    if (!(duration_ns >= 0 && duration_ns < 9e18) || report_.start_ns > 9000000000000000000U) {
      throw duration.error("is not the length of a window");
    }
    report_.end_ns = report_.start_ns + static_cast<uint64_t>(duration_ns);
    report_.threshold_ns = window.at("threshold_us").us_as_ns();
    report_.bounds = window.at("bounds").text();
  }

  template <typename Item>
  void read_list(std::vector<Item>& to, const char* key,
                 Item (Reader::*one)(const JsonNode&) const) {
    for (const JsonNode& item : top_.items(key)) to.push_back((this->*one)(item));
  }

  void read_lists() {
    read_list(report_.hooks, "hooks", &Reader::hook);
    report_.missing_results = texts(top_, "missing_results");
    report_.notes = texts(top_, "notes");
    read_list(report_.devices, "devices", &Reader::device);
    read_list(report_.ops, "ops", &Reader::op);
    read_list(report_.stalls, "stalls", &Reader::stall);
    read_list(report_.async, "async", &Reader::async);
    read_list(report_.culprits, "culprits", &Reader::culprit);
    read_list(report_.waits, "waits", &Reader::wait_share);
    read_list(report_.roots, "roots", &Reader::root_share);
    read_list(report_.commits, "commits", &Reader::commit);
    read_list(report_.flushes, "flushes", &Reader::flush);
    read_list(report_.locks, "locks", &Reader::lock);
  }

  // Offsets count from the window's start; no instant is before the machine's.
  [[nodiscard]] uint64_t instant(const JsonNode& node) const {
    int64_t start = static_cast<int64_t>(report_.start_ns);
    int64_t offset = node.offset_as_ns();
    if (offset < -start || offset > std::numeric_limits<int64_t>::max() - start) {
      throw node.error("is no time of this window");
    }
    return static_cast<uint64_t>(start + offset);
  }

  [[nodiscard]] Hook hook(const JsonNode& node) const {
    return {node.at("name").text(), text_or_empty(node, "method"), node.at("ok").flag(),
            text_or_empty(node, "why")};
  }

  [[nodiscard]] DeviceInfo device(const JsonNode& node) const {
    DeviceInfo device;
    device.dev = dev_or_0(node, "dev");
    device.fs_dev = dev_or_0(node, "fs_dev");
    device.name = text_or_empty(node, "name");
    device.fs = text_or_empty(node, "fs");
    device.mountpoint = text_or_empty(node, "mountpoint");
    device.options = text_or_empty(node, "options");
    device.write_cache = text_or_empty(node, "write_cache");
    if (std::optional<JsonNode> journal = node.find("journal_dev")) {
      device.journal_dev = journal->kdev();
    }
    if (std::optional<JsonNode> has = node.find("has_journal")) device.has_journal = has->flag();
    device.bios_refused = number_or_0(node, "bios_refused");
    return device;
  }

  [[nodiscard]] OpStats op(const JsonNode& node) const {
    OpStats op;
    op.kind = call_kind(node.at("kind"));
    op.dev = dev_or_0(node, "dev");
    op.latency = times(node.at("latency_us"));
    op.stalled = number_or_0(node, "stalled");
    op.stalled_ns = optional_ns(node, "stalled_us").value_or(0);
    return op;
  }

  [[nodiscard]] blame::Cause cause(const JsonNode& node) const {
    blame::Cause cause;
    cause.kind = named(node.at("kind"), blame::CauseKind::kKnob, "kind of cause");
    cause.id = text_or_empty(node, "id");
    cause.dev = dev_or_0(node, "dev");
    cause.task = task(node);
    cause.start_ns = instant(node.at("start_us"));
    cause.ns = node.at("us").us_as_ns();
    cause.text = text_or_empty(node, "text");
    cause.sure = sure(node.at("sure"));
    cause.turns = static_cast<uint32_t>(number_or_0(node, "turns"));
    cause.evidence = texts(node, "evidence");
    read_explanation(node, cause);
    return cause;
  }

  // A part or a link has either causes or a root of its own.
  template <typename Link>
  void read_explanation(const JsonNode& node, Link& link) const {
    for (const JsonNode& item : node.items("causes")) link.causes.push_back(cause(item));
    if (std::optional<JsonNode> own = node.find("root")) {
      link.root = root(*own);
    } else if (link.causes.empty()) {
      link.root.ns = link.ns;
    }
  }

  [[nodiscard]] blame::Part part(const JsonNode& node) const {
    blame::Part part;
    part.wait_class = wait_class(node.at("class"));
    part.start_ns = instant(node.at("start_us"));
    part.ns = node.at("us").us_as_ns();
    part.stack = texts(node, "stack");
    read_explanation(node, part);
    return part;
  }

  [[nodiscard]] blame::Stall stall(const JsonNode& node) const {
    blame::Stall stall;
    stall.id = number_or_0(node, "id");
    stall.kind = call_kind(node.at("kind"));
    stall.task = task(node);
    stall.dev = dev_or_0(node, "dev");
    stall.fs_dev = dev_or_0(node, "fs_dev");
    stall.ino = number_or_0(node, "ino");
    stall.path = text_or_empty(node, "path");
    stall.home.cgroup = text_or_empty(node, "cgroup");
    stall.home.inner_pid = static_cast<uint32_t>(number_or_0(node, "inner_pid"));
    stall.home.inner_tid = static_cast<uint32_t>(number_or_0(node, "inner_tid"));
    stall.home.inner_path = text_or_empty(node, "inner_path");
    stall.user_id = number_or_0(node, "user_id");
    stall.start_ns = instant(node.at("start_us"));
    stall.ns = node.at("duration_us").us_as_ns();
    if (std::optional<JsonNode> cut = node.find("cut")) {
      std::string edge = cut->text();
      if (edge != "start" && edge != "end") throw cut->error("is neither 'start' nor 'end'");
      stall.cut = edge == "start" ? blame::Cut::kStart : blame::Cut::kEnd;
    }
    if (std::optional<JsonNode> flag = node.find("unfinished")) stall.unfinished = flag->flag();
    for (const JsonNode& item : node.items("parts")) stall.parts.push_back(part(item));
    stall.roots = roots(node);
    return stall;
  }

  [[nodiscard]] AsyncSlow slow(const JsonNode& node) const {
    AsyncSlow slow;
    slow.task = task(node);
    slow.dev = dev_or_0(node, "dev");
    slow.ino = number_or_0(node, "ino");
    slow.user_id = number_or_0(node, "user_id");
    slow.start_ns = instant(node.at("start_us"));
    slow.ns = node.at("duration_us").us_as_ns();
    slow.submit_ns = optional_ns(node, "submit_us");
    slow.queue_ns = optional_ns(node, "queue_us");
    slow.device_ns = optional_ns(node, "device_us");
    slow.complete_ns = optional_ns(node, "complete_us");
    slow.roots = roots(node);
    return slow;
  }

  [[nodiscard]] AsyncStats async(const JsonNode& node) const {
    AsyncStats async;
    async.kind = node.at("kind").text();
    async.dev = dev_or_0(node, "dev");
    async.latency = times(node.at("latency_us"));
    for (const auto& [name, dist] : node.members("parts_us")) async.parts[name] = times(dist);
    for (const JsonNode& item : node.items("slow")) async.slow.push_back(slow(item));
    return async;
  }

  [[nodiscard]] Culprit culprit(const JsonNode& node) const {
    return {task(node), text_or_empty(node, "path"), text_or_empty(node, "what"),
            node.at("others_us").us_as_ns(), number_or_0(node, "stalls")};
  }

  [[nodiscard]] WaitShare wait_share(const JsonNode& node) const {
    return {wait_class(node.at("class")), dev_or_0(node, "dev"), node.at("us").us_as_ns(),
            number_or_0(node, "stalls")};
  }

  [[nodiscard]] RootShare root_share(const JsonNode& node) const {
    return {named(node.at("cause"), blame::RootKind::kUnexplained, "root cause"),
            dev_or_0(node, "dev"), node.at("us").us_as_ns(), number_or_0(node, "stalls")};
  }

  [[nodiscard]] CommitStats commit(const JsonNode& node) const {
    CommitStats commit;
    commit.dev = dev_or_0(node, "dev");
    commit.count = node.at("count").number();
    commit.syncs_per_commit = optional_numbers(node, "syncs_per_commit");
    for (const auto& [name, dist] : node.members("phase_us")) commit.phases[name] = times(dist);
    commit.proc_count = optional_number(node, "proc_count");
    return commit;
  }

  [[nodiscard]] FlushStats flush(const JsonNode& node) const {
    FlushStats flush;
    flush.dev = dev_or_0(node, "dev");
    flush.count = node.at("count").number();
    flush.callers_per_flush = optional_numbers(node, "callers_per_flush");
    flush.queue = times_or_empty(node, "queue_us");
    flush.device = times_or_empty(node, "device_us");
    flush.diskstats_count = optional_number(node, "diskstats_count");
    for (const JsonNode& item : node.items("flush_list")) flush.list.push_back(flush_times(item));
    return flush;
  }

  [[nodiscard]] FlushTimes flush_times(const JsonNode& node) const {
    FlushTimes flush;
    flush.start_ns = instant(node.at("start_us"));
    flush.ns = node.at("us").us_as_ns();
    if (auto queue = node.find("queue_us")) flush.queue_ns = queue->us_as_ns();
    flush.members = number_or_0(node, "members");
    flush.end_unseen = node.find("end_unseen").has_value();
    return flush;
  }

  [[nodiscard]] LockStats lock(const JsonNode& node) const {
    LockStats lock;
    lock.wait_class = wait_class(node.at("class"));
    lock.dev = dev_or_0(node, "dev");
    lock.ino = number_or_0(node, "ino");
    lock.path = text_or_empty(node, "path");
    lock.write = text_or_empty(node, "mode") == "write";
    lock.waits = number_or_0(node, "waits");
    lock.ns = node.at("us").us_as_ns();
    lock.max_ns = node.at("max_us").us_as_ns();
    for (const JsonNode& item : node.items("holders")) {
      lock.holders.push_back({task(item), text_or_empty(item, "doing"), item.at("us").us_as_ns()});
    }
    return lock;
  }

  void read_loss() {
    JsonNode node = top_.at("loss");
    report_.loss.events = number_or_0(node, "events");
    report_.loss.stalls = number_or_0(node, "stalls");
    report_.loss.folded_parts = number_or_0(node, "folded_parts");
    report_.loss.unmatched = number_or_0(node, "unmatched");
    report_.loss.map_full = number_or_0(node, "map_full");
    report_.loss.missed_probes = number_or_0(node, "missed_probes");
  }

  void read_overhead() {
    std::optional<JsonNode> node = top_.find("overhead");
    if (!node) return;
    report_.overhead.bpf_ns = optional_number(*node, "bpf_ns");
    report_.overhead.bpf_runs = optional_number(*node, "bpf_runs");
    if (std::optional<JsonNode> share = node->find("bpf_cpu_share")) {
      report_.overhead.bpf_cpu_share = share->real();
    }
    report_.overhead.self_cpu_s = real_or_0(*node, "self_cpu_s");
    report_.overhead.self_rss_mib = real_or_0(*node, "self_rss_mib");
  }

  JsonNode top_;
  Report report_;
};

}  // namespace

Report from_json(const Json& json, std::string_view what) {
  return Reader(JsonNode(json, std::string(what))).run();
}

Report read_json(std::string_view text, std::string_view what) {
  return from_json(parse_json(text, what), what);
}

}  // namespace stalltrace::report

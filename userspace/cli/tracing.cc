#include "userspace/cli/tracing.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <numeric>
#include <thread>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/base/version.h"
#include "userspace/blame/culprits.h"
#include "userspace/blame/explain.h"
#include "userspace/blame/summary.h"
#include "userspace/cli/assemble.h"
#include "userspace/cli/live.h"
#include "userspace/kernel/capabilities.h"
#include "userspace/kernel/containers.h"
#include "userspace/kernel/counters.h"
#include "userspace/kernel/mounts.h"
#include "userspace/kernel/symbols.h"
#include "userspace/model/trace.h"

namespace stalltrace::cli {
namespace {

using kernel::Device;

// Attaching sends interrupts to every CPU; what they disturb is over by then.
constexpr auto kSettle = std::chrono::milliseconds(100);

// What is told while tracing goes on is explained from so much: minutes of a quiet machine, seconds
// of a busy one.
constexpr uint64_t kLiveNs = 120'000'000'000;
constexpr size_t kLiveBytes = 32 << 20;
constexpr size_t kFlightBytes = 256 << 20;
constexpr uint64_t kMarksPerFlight = 10;

class SymbolResolver : public model::StackResolver {
 public:
  explicit SymbolResolver(const kernel::SymbolTable& symbols) : symbols_(symbols) {}
  std::vector<std::string_view> frames(std::span<const uint64_t> addresses) override {
    std::vector<std::string_view> names;
    names.reserve(addresses.size());
    for (uint64_t address : addresses) names.push_back(symbols_.name_of_return(address));
    return names;
  }

 private:
  const kernel::SymbolTable& symbols_;
};

std::vector<capture::TracedDisk> traced_disks(const std::vector<Device>& devices) {
  std::map<uint32_t, std::vector<uint32_t>> by_disk;
  for (const Device& device : devices) {
    std::vector<uint32_t>& devs = by_disk[device.disk];
    devs.push_back(device.disk);
    devs.push_back(device.kdev);
    if (device.st_dev != 0) devs.push_back(device.st_dev);
    devs.insert(devs.end(), device.maps.begin(), device.maps.end());
  }
  if (by_disk.size() > wire::WIRE_DEVICES) {
    throw usage_error("{} devices are too many to trace at once (at most {}): choose with --dev",
                      by_disk.size(), static_cast<int>(wire::WIRE_DEVICES));
  }
  std::vector<capture::TracedDisk> disks;
  for (auto& [disk, devs] : by_disk) disks.push_back({disk, std::move(devs)});
  return disks;
}

// Where the devices can be reached: at a mount point, or else at their node.
std::vector<std::string> places(const std::vector<Device>& devices) {
  std::vector<std::string> places;
  for (const Device& device : devices) {
    places.push_back(device.mountpoint.empty() ? "/dev/" + device.name : device.mountpoint);
  }
  return places;
}

}  // namespace

class Tracing::Impl {
 public:
  explicit Impl(TracingOptions options)
      : options_(std::move(options)),
        wanted_(options_.filter),
        symbols_(kernel::SymbolTable::load()),
        resolver_(symbols_),
        trace_(surroundings()),
        log_(options_.flight_ns != 0 ? options_.flight_ns * (kMarksPerFlight + 2) / kMarksPerFlight
                                     : kLiveNs,
             options_.flight_ns != 0 ? kFlightBytes : kLiveBytes),
        live_(surroundings(), log_),
        capture_({.disks = traced_disks(options_.devices),
                  .maps = std::any_of(options_.devices.begin(), options_.devices.end(),
                                      [](const Device& device) { return !device.maps.empty(); }),
                  .places = places(options_.devices),
                  .threshold_ns = options_.threshold_ns,
                  .disabled_hooks = options_.disabled_hooks,
                  .follows = wanted_.followed().has_value()},
                 symbols_, [this](std::span<const std::byte> event) { take(event); }) {
    if (std::optional<uint32_t> root = wanted_.followed()) {
      // Once the hook is there that sees forks. Those of a process that was not yet known when it
      // forked are found the second time.
      for (int i = 0; i < 2; ++i) capture_.follow(kernel::descendants_of(*root));
    }
    std::this_thread::sleep_for(kSettle);
  }

  void open_window() {
    from_.outside = count_outside(options_.devices);
    capture_.open_window();
    from_.ns = capture_.start_ns();
    from_.unix_ns = capture_.start_unix_ns();
    if (options_.flight_ns != 0) marks_.push_back(from_);
  }

  void close_window() {
    capture_.close_window();
    to_.outside = count_outside(options_.devices);  // at once, to be of the same moment as ours
    capture_.collect();
    to_.ns = capture_.end_ns();
    to_.histograms = capture_.histograms();
    to_.losses = capture_.losses();
  }

  [[nodiscard]] bool executes_flush(uint32_t disk) const { return capture_.executes_flush(disk); }

  [[nodiscard]] Standing standing() {
    Standing standing{.now_ns = monotonic_ns(), .events = capture_.peek(), .calls = {}};
    model::each_event(standing.events, [&](std::span<const std::byte> event) {
      std::optional<wire::wire_call> call = call_of(event);
      if (call) containers_.note(call->cgroup, call->mnt_ns, call->task.tid);
      if (call && is_told(*call)) standing.calls.push_back(*call);
    });
    return standing;
  }

  [[nodiscard]] report::Report look(const Standing& standing, uint64_t& others) {
    LiveStalls found = live_.look(standing, capture_.start_ns(), options_.threshold_ns);
    others = found.others;
    report::Report report;
    report.start_ns = capture_.start_ns();
    report.threshold_ns = options_.threshold_ns;
    report.stalls = std::move(found.stalls);
    for (blame::Stall& stall : report.stalls) find_home(stall);
    if (!report.stalls.empty()) add_devices(report, options_.devices);
    return report;
  }

  // What a flight recorder's report may begin with: the last mark that is old enough stays.
  void mark_time() {
    uint64_t now_ns = monotonic_ns();
    if (now_ns < marks_.back().ns + options_.flight_ns / kMarksPerFlight) return;
    marks_.push_back(counts_now());
    while (marks_.size() > 1 && marks_[1].ns + options_.flight_ns <= now_ns) marks_.pop_front();
  }

  [[nodiscard]] report::Report flight_report() {
    Standing standing = this->standing();
    Counts to = counts_now();
    uint64_t whole_since_ns = log_.whole_since_ns();
    auto from = std::find_if(marks_.begin(), marks_.end() - 1,
                             [&](const Counts& mark) { return mark.ns >= whole_since_ns; });
    model::Trace trace(surroundings());
    auto add = [&](std::span<const std::byte> event) { trace.add(event); };
    model::each_with_standing(log_, from->ns, standing.events, add);
    trace.set_window(from->ns, to.ns);
    trace.set_sees_devices(sees_devices());
    trace.seal();
    report::Report report = report_of(trace, *from, to);
    if (from != marks_.begin()) {
      report.notes.push_back(fmt::format(
          "of the {} asked for only the last {} were kept: so much has happened that the rest "
          "would not fit into {}",
          format_time(options_.flight_ns), format_time(to.ns - from->ns),
          format_size(kFlightBytes)));
    }
    return report;
  }

  const model::Trace& sealed_trace() {
    if (!sealed_) {
      trace_.set_window(capture_.start_ns(), capture_.end_ns());
      trace_.set_sees_devices(sees_devices());
      trace_.seal();
      sealed_ = true;
    }
    return trace_;
  }

  [[nodiscard]] OutsideCounts outside_growth() const {
    return growth_of(from_.outside, to_.outside);
  }

  [[nodiscard]] uint64_t lost_events() const {
    const auto& lost = capture_.losses().by_kind;
    return std::accumulate(lost.begin(), lost.end(), uint64_t{0});
  }

  [[nodiscard]] batching::Unseen unseen() const {
    std::vector<batching::MissingHook> missing;
    for (const capture::HookState& hook : capture_.hooks()) {
      if (!hook.ok) missing.push_back({hook.name, hook.why});
    }
    return batching::unseen_without(missing);
  }

  [[nodiscard]] report::Report make_report() { return report_of(sealed_trace(), from_, to_); }

 private:
  [[nodiscard]] report::Report report_of(const model::Trace& trace, const Counts& from,
                                         const Counts& to) {
    blame::Culprits culprits(trace);
    std::vector<blame::Stall> stalls = blame::explain_calls(
        trace,
        [&](const model::Call& call) {
          return call.span.ns() >= options_.threshold_ns && is_told(call.event);
        },
        [&](const blame::Stall& stall) { culprits.add(stall); });
    for (blame::Stall& stall : stalls) find_home(stall);
    report::Report report;
    add_devices(report, options_.devices);
    add_histograms(report, growth_of(from.histograms, to.histograms), trace, options_.threshold_ns);
    blame::Summary summary = blame::summarize(trace, stalls);
    kernel::Capabilities host = kernel::detect_capabilities();

    report.version = STALLTRACE_VERSION;
    report.kernel = host.release;
    report.arch = host.arch;
    report.cpus = host.cpus;
    report.start_unix_ns = from.unix_ns;
    report.start_ns = from.ns;
    report.end_ns = to.ns;
    report.threshold_ns = options_.threshold_ns;
    report.stalls = std::move(stalls);
    add_hooks(report, capture_.hooks());
    add_slow_asyncs(report, summary);
    add_culprits(report, std::move(culprits).take());
    add_summary(report, summary, options_.devices, is_on("ext4_sync_file_exit"));
    add_flush_lists(report, trace);
    add_outside_counts(report, options_.devices, from.outside, to.outside);
    add_batching(report, trace, options_.devices, unseen());
    add_loss(report, growth_of(from.losses, to.losses), summary);
    add_overhead(report, capture_.cost());
    return report;
  }

  void find_home(blame::Stall& stall) const {
    blame::Home& home = stall.home;
    home.cgroup = containers_.cgroup_path(home.cgroup_id);
    if (home.path_in_fs.empty()) return;
    home.inner_path = containers_.path_inside(home.mnt_ns, stall.fs_dev, home.path_in_fs);
  }

  [[nodiscard]] Counts counts_now() const {
    uint64_t now_ns = monotonic_ns();
    return {.ns = now_ns,
            .unix_ns = capture_.start_unix_ns() + (now_ns - capture_.start_ns()),
            .outside = count_outside(options_.devices),
            .histograms = capture_.histograms(),
            .losses = capture_.losses()};
  }

  // From the thread that reads the ring.
  void take(std::span<const std::byte> event) {
    std::optional<wire::wire_call> call = call_of(event);
    if (call) containers_.note(call->cgroup, call->mnt_ns, call->task.tid);
    if (options_.live || options_.flight_ns != 0) {
      log_.add(event, monotonic_ns());
      if (call && is_told(*call) && call->end_ns >= call->start_ns + options_.threshold_ns) {
        if (options_.live) live_.ended(*call);
        if (options_.on_stall) options_.on_stall(*call);
      }
    }
    if (options_.flight_ns == 0) trace_.add(event);
  }

  [[nodiscard]] bool is_told(const wire::wire_call& call) const {
    if ((call.flags & (wire::CALL_WANTED | wire::CALL_KNOB)) != 0) return false;
    if (!options_.filter.any()) return true;
    model::Call whole;
    whole.event = call;
    return wanted_.has(call, trace_.path_of(whole), containers_);
  }

  [[nodiscard]] bool sees_devices() const {
    return is_on("block_rq_issue") && is_on("block_rq_complete");
  }

  [[nodiscard]] bool is_on(std::string_view hook) const {
    return std::any_of(capture_.hooks().begin(), capture_.hooks().end(),
                       [&](const capture::HookState& h) { return h.name == hook && h.ok; });
  }

  model::Surroundings surroundings() {
    auto device_of = [this](uint32_t dev) -> const Device* {
      for (const Device& device : options_.devices) {
        if (device.kdev == dev || device.st_dev == dev || device.disk == dev) return &device;
      }
      return nullptr;
    };
    return {.stacks = &resolver_,
            .disk_of =
                [device_of](uint32_t dev) {
                  const Device* device = device_of(dev);
                  return device != nullptr ? device->disk : dev;
                },
            .device_name =
                [device_of](uint32_t dev) {
                  const Device* device = device_of(dev);
                  if (device == nullptr) return kernel::kdev_text(dev);
                  return dev == device->disk ? device->disk_name : device->name;
                },
            .mount_point =
                [device_of](uint32_t dev) {
                  const Device* device = device_of(dev);
                  if (device == nullptr) return std::string();
                  // What is not mounted is reached by its node only.
                  return device->mountpoint.empty() ? "/dev" : device->mountpoint;
                },
            .dev_of_path =
                [this, device_of](const std::string& path) {
                  const kernel::Mount* mount = kernel::mount_of(mounts_, path);
                  if (mount == nullptr || device_of(mount->st_dev) == nullptr) return 0U;
                  return mount->st_dev;
                },
            .mapping =
                [this](uint32_t dev) {
                  for (const Device& device : options_.devices) {
                    if ((device.kdev == dev || device.st_dev == dev) && !device.maps.empty()) {
                      return model::Mapping{.maps = device.maps, .disks = device.disks_below};
                    }
                  }
                  return model::Mapping{};
                },
            .has_scheduler =
                [device_of](uint32_t disk) {
                  const Device* device = device_of(disk);
                  return device != nullptr && !device->scheduler.empty() &&
                         device->scheduler != "none";
                },
            .queue_depth =
                [device_of](uint32_t disk) {
                  const Device* device = device_of(disk);
                  return device != nullptr ? device->nr_requests : 0;
                },
            .write_limit =
                [device_of](uint32_t disk) {
                  const Device* device = device_of(disk);
                  return device != nullptr ? kernel::wbt_limit(device->disk_name) : std::string();
                }};
  }

  TracingOptions options_;
  Wanted wanted_;
  kernel::Containers containers_;
  std::vector<kernel::Mount> mounts_ = kernel::current_mounts();
  kernel::SymbolTable symbols_;
  SymbolResolver resolver_;
  model::Trace trace_;
  bool sealed_ = false;
  model::EventLog log_;
  Live live_;
  std::deque<Counts> marks_;  // of a flight
  Counts from_, to_;
  capture::Capture capture_;  // last: its reader feeds what is above
};

Tracing::Tracing(TracingOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Tracing::~Tracing() = default;
void Tracing::open_window() {
  impl_->open_window();
}
void Tracing::close_window() {
  impl_->close_window();
}
Standing Tracing::standing() {
  return impl_->standing();
}
report::Report Tracing::look(const Standing& standing, uint64_t& others) {
  return impl_->look(standing, others);
}
report::Report Tracing::flight_report() {
  return impl_->flight_report();
}
void Tracing::mark_time() {
  impl_->mark_time();
}
bool Tracing::executes_flush(uint32_t disk) const {
  return impl_->executes_flush(disk);
}
const model::Trace& Tracing::sealed_trace() {
  return impl_->sealed_trace();
}
OutsideCounts Tracing::outside_growth() const {
  return impl_->outside_growth();
}
uint64_t Tracing::lost_events() const {
  return impl_->lost_events();
}
batching::Unseen Tracing::unseen() const {
  return impl_->unseen();
}
report::Report Tracing::make_report() {
  return impl_->make_report();
}

}  // namespace stalltrace::cli

#include "userspace/cli/tracing.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/version.h"
#include "userspace/blame/culprits.h"
#include "userspace/blame/explain.h"
#include "userspace/blame/summary.h"
#include "userspace/cli/assemble.h"
#include "userspace/cli/live.h"
#include "userspace/kernel/capabilities.h"
#include "userspace/kernel/counters.h"
#include "userspace/kernel/mounts.h"
#include "userspace/kernel/symbols.h"
#include "userspace/model/trace.h"

namespace stalltrace::cli {
namespace {

using kernel::Device;

// Attaching sends interrupts to every CPU; what they disturb is over by then.
constexpr auto kSettle = std::chrono::milliseconds(100);

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
        symbols_(kernel::SymbolTable::load()),
        resolver_(symbols_),
        trace_(surroundings()),
        live_(options_.live ? std::make_unique<Live>(surroundings(), options_.threshold_ns)
                            : nullptr),
        capture_({.disks = traced_disks(options_.devices),
                  .maps = std::any_of(options_.devices.begin(), options_.devices.end(),
                                      [](const Device& device) { return !device.maps.empty(); }),
                  .places = places(options_.devices),
                  .threshold_ns = options_.threshold_ns,
                  .disabled_hooks = options_.disabled_hooks},
                 symbols_, [this](std::span<const std::byte> event) { take(event); }) {
    if (live_)
      live_->set_wanted([this](const wire::wire_task& task) {
        return is_wanted(blame::TaskName{task.tid, task.pid, {}});
      });
    std::this_thread::sleep_for(kSettle);
  }

  void open_window() {
    before_ = count_outside(options_.devices);
    capture_.open_window();
  }

  void close_window() {
    capture_.close_window();
    after_ = count_outside(options_.devices);  // at once, to be of the same moment as ours
    capture_.collect();
  }

  [[nodiscard]] bool executes_flush(uint32_t disk) const { return capture_.executes_flush(disk); }

  [[nodiscard]] report::Report look(uint64_t& others) {
    report::Report report;
    if (!live_) return report;
    std::vector<std::byte> standing = capture_.peek();
    LiveStalls found = live_->look(standing, capture_.start_ns(), monotonic_ns());
    others = found.others;
    report.start_ns = capture_.start_ns();
    report.threshold_ns = options_.threshold_ns;
    report.stalls = std::move(found.stalls);
    if (!report.stalls.empty()) add_devices(report, options_.devices);
    return report;
  }

  const model::Trace& sealed_trace() {
    if (!sealed_) {
      trace_.set_window(capture_.start_ns(), capture_.end_ns());
      trace_.set_sees_devices(is_on("block_rq_issue") && is_on("block_rq_complete"));
      trace_.seal();
      sealed_ = true;
    }
    return trace_;
  }

  [[nodiscard]] OutsideCounts outside_growth() const {
    OutsideCounts growth = after_;
    for (auto& [dev, count] : growth.transactions) {
      if (before_.transactions.contains(dev)) count -= before_.transactions.at(dev);
    }
    for (auto& [disk, count] : growth.flushes) {
      if (before_.flushes.contains(disk)) count -= before_.flushes.at(disk);
    }
    return growth;
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

  [[nodiscard]] report::Report make_report() {
    sealed_trace();
    blame::Culprits culprits(trace_);
    std::vector<blame::Stall> stalls =
        blame::explain_all(trace_, options_.threshold_ns, [&](const blame::Stall& stall) {
          if (is_wanted(stall.task)) culprits.add(stall);
        });
    report::Report report;
    add_histograms(report, capture_.histograms(), stalls);
    std::erase_if(stalls, [&](const blame::Stall& stall) { return !is_wanted(stall.task); });
    blame::Summary summary = blame::summarize(trace_, stalls);
    kernel::Capabilities host = kernel::detect_capabilities();

    report.version = STALLTRACE_VERSION;
    report.kernel = host.release;
    report.arch = host.arch;
    report.cpus = host.cpus;
    report.start_unix_ns = capture_.start_unix_ns();
    report.start_ns = capture_.start_ns();
    report.end_ns = capture_.end_ns();
    report.threshold_ns = options_.threshold_ns;
    report.stalls = std::move(stalls);
    add_hooks(report, capture_.hooks());
    add_devices(report, options_.devices);
    add_slow_asyncs(report, summary);
    add_culprits(report, std::move(culprits).take());
    add_summary(report, summary, options_.devices, is_on("ext4_sync_file_exit"));
    add_flush_lists(report, trace_);
    add_outside_counts(report, options_.devices, before_, after_);
    add_batching(report, trace_, options_.devices, unseen());
    add_loss(report, capture_.losses(), summary);
    add_overhead(report, capture_.cost());
    return report;
  }

 private:
  void take(std::span<const std::byte> event) {
    if (live_) live_->add(event);
    trace_.add(event);
  }

  [[nodiscard]] bool is_wanted(const blame::TaskName& task) const {
    return !options_.only_pid || task.pid == *options_.only_pid || task.tid == *options_.only_pid;
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
  std::vector<kernel::Mount> mounts_ = kernel::current_mounts();
  kernel::SymbolTable symbols_;
  SymbolResolver resolver_;
  model::Trace trace_;
  bool sealed_ = false;
  std::unique_ptr<Live> live_;
  OutsideCounts before_, after_;
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
report::Report Tracing::look(uint64_t& others) {
  return impl_->look(others);
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

#include "userspace/cli/assemble.h"

#include <algorithm>
#include <array>

#include "userspace/base/error.h"
#include "userspace/batching/tally.h"
#include "userspace/kernel/counters.h"
#include "userspace/kernel/knobs.h"
#include "userspace/model/dist.h"
#include "userspace/report/batch.h"

namespace stalltrace::cli {
namespace {

const kernel::Device* find_disk(const std::vector<kernel::Device>& devices, uint32_t disk) {
  auto found = std::find_if(devices.begin(), devices.end(),
                            [&](const kernel::Device& device) { return device.disk == disk; });
  return found == devices.end() ? nullptr : &*found;
}

report::AsyncStats& async_stats(report::Report& report, bool uring, uint32_t dev) {
  std::string kind = uring ? "uring" : "aio";
  for (report::AsyncStats& stats : report.async) {
    if (stats.kind == kind && stats.dev == dev) return stats;
  }
  return report.async.emplace_back(
      report::AsyncStats{.kind = kind, .dev = dev, .latency = {}, .parts = {}, .slow = {}});
}

void add_async_histogram(report::Report& report, const capture::Histogram& histogram) {
  static constexpr std::array<const char*, 5> kParts{"", "submit", "queue", "device", "complete"};
  bool uring = histogram.kind >= wire::HIST_URING_TOTAL;
  size_t part = histogram.kind - (uring ? wire::HIST_URING_TOTAL : wire::HIST_AIO_TOTAL);
  if (part >= kParts.size()) return;
  report::AsyncStats& stats = async_stats(report, uring, histogram.disk);
  report::Dist dist = model::dist_of(histogram.hist);
  if (part == 0) {
    stats.latency = dist;
  } else {
    stats.parts[kParts[part]] = dist;
  }
}

report::OpStats& op_stats(report::Report& report, wire::wire_call_kind kind, uint32_t dev) {
  for (report::OpStats& stats : report.ops) {
    if (stats.kind == kind && stats.dev == dev) return stats;
  }
  return report.ops.emplace_back(
      report::OpStats{.kind = kind, .dev = dev, .latency = {}, .stalled = 0, .stalled_ns = 0});
}

report::AsyncSlow to_report(const blame::AsyncSum& sum) {
  report::AsyncSlow slow{.task = sum.task,
                         .dev = sum.dev,
                         .ino = sum.ino,
                         .user_id = sum.user_id,
                         .start_ns = sum.start_ns,
                         .ns = sum.ns,
                         .submit_ns = {},
                         .queue_ns = {},
                         .device_ns = {},
                         .complete_ns = {},
                         .roots = sum.roots};
  if (sum.split) {
    slow.submit_ns = sum.submit_ns;
    slow.queue_ns = sum.queue_ns;
    slow.device_ns = sum.device_ns;
    slow.complete_ns = sum.complete_ns;
  }
  return slow;
}

}  // namespace

OutsideCounts count_outside(const std::vector<kernel::Device>& devices) {
  OutsideCounts counts;
  for (const kernel::Device& device : devices) {
    try {
      if (device.has_journal && !device.journal_name.empty()) {
        counts.transactions[device.kdev] = kernel::jbd2_transactions(device.journal_name);
      }
      if (auto flushes = kernel::disk_stats(device.disk).flushes) {
        counts.flushes[device.disk] = *flushes;
      }
    } catch (const Error&) {
      // Unmounted or removed meanwhile: the count is absent, as for a kernel without it.
    }
  }
  return counts;
}

std::vector<capture::Histogram> growth_of(const std::vector<capture::Histogram>& from,
                                          const std::vector<capture::Histogram>& to) {
  std::vector<capture::Histogram> growth;
  for (const capture::Histogram& now : to) {
    auto before = std::find_if(from.begin(), from.end(), [&](const capture::Histogram& one) {
      return one.disk == now.disk && one.kind == now.kind;
    });
    capture::Histogram grown = now;
    if (before != from.end()) grown.hist = model::growth_of(before->hist, now.hist);
    if (grown.hist.count > 0) growth.push_back(grown);
  }
  return growth;
}

capture::Losses growth_of(const capture::Losses& from, const capture::Losses& to) {
  capture::Losses growth = to;
  for (size_t i = 0; i < growth.by_kind.size(); ++i) growth.by_kind[i] -= from.by_kind[i];
  growth.missed_probes -= from.missed_probes;
  return growth;
}

OutsideCounts growth_of(const OutsideCounts& from, const OutsideCounts& to) {
  OutsideCounts growth = to;
  for (auto& [dev, count] : growth.transactions) {
    if (from.transactions.contains(dev)) count -= from.transactions.at(dev);
  }
  for (auto& [disk, count] : growth.flushes) {
    if (from.flushes.contains(disk)) count -= from.flushes.at(disk);
  }
  return growth;
}

void add_hooks(report::Report& report, const std::vector<capture::HookState>& hooks) {
  for (const capture::HookState& hook : hooks) {
    report.hooks.push_back(
        {.name = hook.name, .method = hook.method, .ok = hook.ok, .why = hook.why});
    auto& missing = report.missing_results;
    if (!hook.ok && std::find(missing.begin(), missing.end(), hook.lost) == missing.end()) {
      missing.push_back(hook.lost);
    }
  }
}

void add_devices(report::Report& report, const std::vector<kernel::Device>& devices) {
  for (const kernel::Device& device : devices) {
    report.devices.push_back({.dev = device.disk,
                              .fs_dev = device.kdev,
                              .name = device.name,
                              .fs = device.fs,
                              .mountpoint = device.mountpoint,
                              .options = device.options,
                              .write_cache = device.write_cache,
                              .journal_dev = device.journal,
                              .has_journal = device.has_journal,
                              .bios_refused = 0});
    if (device.fs == "ext4" && !device.has_journal) {
      report.notes.push_back(fmt::format(
          "{} (ext4 on {}) has no journal: there are no commits to wait for, the rest is explained",
          device.mountpoint, device.name));
    } else if (!device.fs.empty() && device.fs != "ext4") {
      report.notes.push_back(
          fmt::format("{} is {}: its own log's objects are not shown; waits for it are named by "
                      "their stacks and "
                      "followed to the task or the device that ended them",
                      device.mountpoint, device.fs));
    }
  }
}

void add_histograms(report::Report& report, const std::vector<capture::Histogram>& histograms,
                    const model::Trace& trace, uint64_t threshold_ns) {
  for (const capture::Histogram& histogram : histograms) {
    if (histogram.kind < wire::CALL_KINDS) {
      report.ops.push_back({.kind = static_cast<wire::wire_call_kind>(histogram.kind),
                            .dev = histogram.disk,
                            .latency = model::dist_of(histogram.hist),
                            .stalled = histogram.hist.over,
                            .stalled_ns = histogram.hist.over_ns});
    } else if (histogram.kind == wire::HIST_REFUSED) {
      auto device = std::find_if(report.devices.begin(), report.devices.end(),
                                 [&](const auto& one) { return one.dev == histogram.disk; });
      if (device != report.devices.end()) device->bios_refused = histogram.hist.count;
    } else {
      add_async_histogram(report, histogram);
    }
  }
  // The kernel's programs count a call when it ends.
  for (const model::Call& call : trace.calls()) {
    if (!call.unfinished() || call.wanted_only() || call.span.ns() < threshold_ns) continue;
    report::OpStats& stats = op_stats(report, call.kind(), trace.disk_of(call.event.dev));
    ++stats.stalled;
    stats.stalled_ns += call.span.ns();
  }
}

void add_slow_asyncs(report::Report& report, const blame::Summary& summary) {
  for (const blame::AsyncSum& sum : summary.asyncs) {
    async_stats(report, sum.uring, sum.dev).slow.push_back(to_report(sum));
  }
}

void add_culprits(report::Report& report, const std::vector<blame::CulpritSum>& culprits) {
  for (const blame::CulpritSum& sum : culprits) {
    report.culprits.push_back({sum.task, sum.path, sum.what, sum.others_ns, sum.stalls});
  }
}

void add_summary(report::Report& report, const blame::Summary& summary,
                 const std::vector<kernel::Device>& devices, bool sees_syncs) {
  for (const blame::WaitSum& sum : summary.waits) {
    report.waits.push_back({sum.wait_class, sum.dev, sum.ns, sum.stalls});
  }
  for (const blame::RootSum& sum : summary.roots) {
    report.roots.push_back({sum.kind, sum.dev, sum.ns, sum.stalls});
  }
  for (const blame::CommitSum& sum : summary.commits) {
    report::CommitStats stats{
        .dev = sum.dev, .count = sum.count, .syncs_per_commit = {}, .phases = {}, .proc_count = {}};
    if (sees_syncs) stats.syncs_per_commit = sum.syncs;
    stats.phases = sum.phases_ns;
    report.commits.push_back(std::move(stats));
  }
  for (const blame::FlushSum& sum : summary.flushes) {
    if (find_disk(devices, sum.dev) == nullptr) continue;
    report.flushes.push_back({.dev = sum.dev,
                              .count = sum.count,
                              .callers_per_flush = sum.callers,
                              .queue = sum.queue_ns,
                              .device = sum.device_ns,
                              .diskstats_count = {},
                              .list = {}});
  }
  for (const blame::LockSum& sum : summary.locks) {
    report::LockStats stats{.wait_class = sum.wait_class,
                            .dev = sum.dev,
                            .ino = sum.ino,
                            .path = sum.path,
                            .write = sum.write,
                            .waits = sum.waits,
                            .ns = sum.ns,
                            .max_ns = sum.max_ns,
                            .holders = {}};
    for (const blame::LockHolderSum& holder : sum.holders) {
      stats.holders.push_back({holder.task, holder.doing, holder.ns});
    }
    report.locks.push_back(std::move(stats));
  }
}

void add_flush_lists(report::Report& report, const model::Trace& trace) {
  // A report stays readable at ten thousand flushes a second: the longest say what matters.
  constexpr size_t kMost = 10'000;
  for (report::FlushStats& stats : report.flushes) {
    for (const model::Flush& flush : trace.flushes(stats.dev)) {
      report::FlushTimes times{.start_ns = flush.device.start_ns,
                               .ns = flush.device.ns(),
                               .queue_ns = {},
                               .members = flush.event.members,
                               .end_unseen = (flush.event.flags & wire::FLUSH_END_UNSEEN) != 0};
      uint64_t queued_ns = flush.event.first_queued_ns;
      if (queued_ns != 0 && queued_ns <= times.start_ns)
        times.queue_ns = times.start_ns - queued_ns;
      stats.list.push_back(times);
    }
    auto longer = [](const report::FlushTimes& a, const report::FlushTimes& b) {
      return a.ns > b.ns;
    };
    auto earlier = [](const report::FlushTimes& a, const report::FlushTimes& b) {
      return a.start_ns < b.start_ns;
    };
    if (stats.list.size() > kMost) {
      std::nth_element(stats.list.begin(), stats.list.begin() + kMost, stats.list.end(), longer);
      stats.list.resize(kMost);
    }
    std::sort(stats.list.begin(), stats.list.end(), earlier);
  }
}

void add_outside_counts(report::Report& report, const std::vector<kernel::Device>& devices,
                        const OutsideCounts& before, const OutsideCounts& after) {
  auto growth = [](const std::map<uint32_t, uint64_t>& from, const std::map<uint32_t, uint64_t>& to,
                   uint32_t dev) -> std::optional<uint64_t> {
    auto first = from.find(dev), last = to.find(dev);
    if (first == from.end() || last == to.end() || last->second < first->second) return {};
    return last->second - first->second;
  };
  for (const kernel::Device& device : devices) {
    for (report::CommitStats& stats : report.commits) {
      // One journal per disk is the rule; where partitions share a disk, theirs add up.
      if (stats.dev != device.disk) continue;
      if (auto count = growth(before.transactions, after.transactions, device.kdev)) {
        stats.proc_count = stats.proc_count.value_or(0) + *count;
      }
    }
  }
  for (report::FlushStats& stats : report.flushes) {
    stats.diskstats_count = growth(before.flushes, after.flushes, stats.dev);
  }
}

std::vector<uint32_t> disks_of(const kernel::Device& device,
                               const std::vector<kernel::Device>& devices) {
  std::vector<uint32_t> disks{device.disk};
  if (!device.maps.empty()) disks = device.disks_below;
  auto log = std::find_if(devices.begin(), devices.end(), [&](const kernel::Device& other) {
    return device.journal && other.kdev == *device.journal;
  });
  if (log != devices.end() && log->disk != device.disk) disks.push_back(log->disk);
  return disks;
}

void add_batching(report::Report& report, const model::Trace& trace,
                  const std::vector<kernel::Device>& devices, const batching::Unseen& unseen) {
  for (const kernel::Device& device : devices) {
    if (!device.has_journal) continue;
    batching::Tally tally = batching::tally_of(trace, device.kdev, disks_of(device, devices));
    if (tally.syncs.all() == 0 && !(unseen.syncs && tally.commits > 0)) continue;
    tally.unseen = unseen;
    tally.ns = trace.window().ns();
    nlohmann::json journal = report::sharing_json(tally, kernel::batch_bounds(device.options));
    journal["dev"] = kernel::kdev_text(device.disk);
    journal["fs_dev"] = kernel::kdev_text(device.kdev);
    if (report.batching.is_null()) report.batching = nlohmann::json::array();
    report.batching.push_back(std::move(journal));
  }
}

void add_loss(report::Report& report, const capture::Losses& losses,
              const blame::Summary& summary) {
  auto count = [&](wire::wire_loss kind) { return losses.by_kind[kind]; };
  report.loss = {.events = count(wire::LOSS_RING_WAIT) + count(wire::LOSS_RING_OTHER),
                 .stalls = count(wire::LOSS_RING_CALL),
                 .folded_parts = summary.folded_stalls + count(wire::LOSS_STACK),
                 .unmatched = summary.odd_events + count(wire::LOSS_UNMATCHED),
                 .map_full = count(wire::LOSS_TABLE_FULL) + count(wire::LOSS_TASK_STORAGE),
                 .missed_probes = losses.missed_probes};
}

void add_overhead(report::Report& report, const capture::BpfCost& cost) {
  if (cost.measured) {
    report.overhead.bpf_ns = cost.ns;
    report.overhead.bpf_runs = cost.runs;
    report.overhead.bpf_cpu_share = cost.cpu_share;
  }
  report.overhead.self_cpu_s = kernel::self_cpu_s();
  report.overhead.self_rss_mib = kernel::self_rss_mib();
}

}  // namespace stalltrace::cli

// From what was captured and explained to the sections of a report.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "userspace/batching/unseen.h"
#include "userspace/blame/culprits.h"
#include "userspace/blame/summary.h"
#include "userspace/capture/capture.h"
#include "userspace/kernel/devices.h"
#include "userspace/model/trace.h"
#include "userspace/report/report.h"

namespace stalltrace::cli {

// The kernel's own counts of commits and flushes at one moment, to set beside ours.
struct OutsideCounts {
  std::map<uint32_t, uint64_t> transactions;  // by file system's device
  std::map<uint32_t, uint64_t> flushes;       // by whole disk
};
OutsideCounts count_outside(const std::vector<kernel::Device>& devices);

// What only grows, at one moment: the figures of a window are the growth between two.
struct Counts {
  uint64_t ns = 0, unix_ns = 0;
  OutsideCounts outside;
  std::vector<capture::Histogram> histograms;
  capture::Losses losses;
};
std::vector<capture::Histogram> growth_of(const std::vector<capture::Histogram>& from,
                                          const std::vector<capture::Histogram>& to);
capture::Losses growth_of(const capture::Losses& from, const capture::Losses& to);
OutsideCounts growth_of(const OutsideCounts& from, const OutsideCounts& to);

void add_hooks(report::Report& report, const std::vector<capture::HookState>& hooks);
void add_devices(report::Report& report, const std::vector<kernel::Device>& devices);
// `stalls`: of all processes, as the histograms are.
void add_histograms(report::Report& report, const std::vector<capture::Histogram>& histograms,
                    const model::Trace& trace, uint64_t threshold_ns);
void add_slow_asyncs(report::Report& report, const blame::Summary& summary);
void add_culprits(report::Report& report, const std::vector<blame::CulpritSum>& culprits);
void add_summary(report::Report& report, const blame::Summary& summary,
                 const std::vector<kernel::Device>& devices, bool sees_syncs);
void add_flush_lists(report::Report& report, const model::Trace& trace);
void add_outside_counts(report::Report& report, const std::vector<kernel::Device>& devices,
                        const OutsideCounts& before, const OutsideCounts& after);
// The whole disks that a file system and its journal lie on; the journal's is among `devices`.
std::vector<uint32_t> disks_of(const kernel::Device& device,
                               const std::vector<kernel::Device>& devices);
// Of the journals whose file systems something synced.
void add_batching(report::Report& report, const model::Trace& trace,
                  const std::vector<kernel::Device>& devices, const batching::Unseen& unseen);
void add_loss(report::Report& report, const capture::Losses& losses, const blame::Summary& summary);
void add_overhead(report::Report& report, const capture::BpfCost& cost);

}  // namespace stalltrace::cli

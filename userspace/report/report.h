// The one value that every output renders: text, JSON, later HTML and the rest. It mirrors the
// report JSON `stalltrace/1`; what was not measured is absent (nullopt, empty), never zero.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "userspace/blame/stall.h"
#include "userspace/model/dist.h"

namespace stalltrace::report {

using model::Dist;

struct Hook {
  std::string name;    // "sched_switch"
  std::string method;  // "tp_btf", "iter", "none"
  bool ok = false;
  std::string why;  // why not, or why this method
};

struct DeviceInfo {
  uint32_t dev = 0;  // whole disk
  uint32_t fs_dev = 0;
  std::string name, fs, mountpoint, options, write_cache;
  std::optional<uint32_t> journal_dev;
  bool has_journal = false;
  uint64_t bios_refused = 0;  // sent with RWF_NOWAIT when no request was free
};

struct OpStats {
  wire::wire_call_kind kind = wire::CALL_NONE;
  uint32_t dev = 0;
  Dist latency;
  uint64_t stalled = 0;
  uint64_t stalled_ns = 0;
};

struct AsyncSlow {
  blame::TaskName task;
  uint32_t dev = 0;
  uint64_t ino = 0, user_id = 0;
  uint64_t start_ns = 0, ns = 0;
  std::optional<uint64_t> submit_ns, queue_ns, device_ns, complete_ns;  // they add up to ns
  std::vector<blame::Root> roots;
};

struct AsyncStats {
  std::string kind;  // "aio", "uring"
  uint32_t dev = 0;
  Dist latency;
  std::map<std::string, Dist> parts;  // submit, queue, device, complete
  std::vector<AsyncSlow> slow;
};

struct Culprit {
  blame::TaskName task;
  std::string path, what;
  uint64_t others_ns = 0, stalls = 0;
};

struct WaitShare {
  kernel::WaitClass wait_class = kernel::WaitClass::kOther;
  uint32_t dev = 0;
  uint64_t ns = 0, stalls = 0;
};

struct RootShare {
  blame::RootKind kind = blame::RootKind::kUnexplained;
  uint32_t dev = 0;
  uint64_t ns = 0, stalls = 0;
};

struct CommitStats {
  uint32_t dev = 0;  // whole disk
  uint64_t count = 0;
  std::optional<Dist> syncs_per_commit;  // plain numbers, not times
  std::map<std::string, Dist> phases;    // "commit.handles", ..., "total"
  std::optional<uint64_t> proc_count;    // growth of /proc/fs/jbd2/*/info over the window
};

// One flush that the device executed.
struct FlushTimes {
  uint64_t start_ns = 0;             // handed to the device
  uint64_t ns = 0;                   // in the device
  std::optional<uint64_t> queue_ns;  // before that, since the first of its members was queued
  uint64_t members = 0;              // requests that shared it; 0: not known
  bool end_unseen = false;  // its completion passed unseen: `ns` is until the next one was issued
};

struct FlushStats {
  uint32_t dev = 0;
  uint64_t count = 0;
  std::optional<Dist> callers_per_flush;  // plain numbers
  Dist queue, device;
  std::optional<uint64_t> diskstats_count;
  std::vector<FlushTimes> list;  // each, by start; of very many the longest
};

struct LockHolder {
  blame::TaskName task;
  std::string doing;
  uint64_t ns = 0;
};

struct LockStats {
  kernel::WaitClass wait_class = kernel::WaitClass::kLockInode;
  uint32_t dev = 0;
  uint64_t ino = 0;
  std::string path;
  bool write = false;
  uint64_t waits = 0, ns = 0, max_ns = 0;
  std::vector<LockHolder> holders;
};

struct Loss {
  uint64_t events = 0, stalls = 0, folded_parts = 0, unmatched = 0, map_full = 0, missed_probes = 0;
  [[nodiscard]] bool any() const {
    return (events | stalls | folded_parts | unmatched | map_full | missed_probes) != 0;
  }
};

struct Overhead {
  std::optional<uint64_t> bpf_ns, bpf_runs;
  std::optional<double> bpf_cpu_share;
  double self_cpu_s = 0, self_rss_mib = 0;
};

struct Report {
  std::string version;
  std::vector<std::string> command;
  std::string kernel, arch;
  uint32_t cpus = 0;
  uint64_t start_unix_ns = 0, start_ns = 0, end_ns = 0;  // window; start_ns, end_ns monotonic
  uint64_t threshold_ns = 0;
  std::string bounds = "exact";
  std::vector<Hook> hooks;
  std::vector<std::string> missing_results;
  std::vector<std::string> notes;  // said before the stalls: "ext4 without a journal: ..."
  std::vector<DeviceInfo> devices;
  std::vector<OpStats> ops;
  std::vector<blame::Stall> stalls;  // by start time
  std::vector<AsyncStats> async;
  std::vector<Culprit> culprits;
  std::vector<WaitShare> waits;  // longest first
  std::vector<RootShare> roots;  // longest first
  std::vector<CommitStats> commits;
  std::vector<FlushStats> flushes;
  std::vector<LockStats> locks;
  nlohmann::json batching;  // an array, one of sharing_json per journal that something synced
  nlohmann::json probe;     // null: no probe ran
  nlohmann::json workload;  // null: no workload of ours ran
  Loss loss;
  Overhead overhead;
};

}  // namespace stalltrace::report

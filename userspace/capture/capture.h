// Loads the BPF programs, opens and closes the window, and hands over what they saw.
//
// Order of use: construct (loads and attaches: the system settles meanwhile), open_window, then
// start the workload; close_window at the end, collect; results. Nothing is pinned: when the
// process dies, however it dies, the kernel removes programs, links and maps with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bpf/wire.h"
#include "userspace/capture/hooks.h"
#include "userspace/kernel/symbols.h"

namespace stalltrace::capture {

// One whole disk and every dev_t that stands for it: itself, partitions, file systems on them.
struct TracedDisk {
  uint32_t disk = 0;
  std::vector<uint32_t> devs;
};

struct CaptureOptions {
  std::vector<TracedDisk> disks;  // at most wire::WIRE_DEVICES
  bool maps = false;              // one of the devices only maps (dm, md)
  // Mount points, or the nodes of disks without a file system: what is under way there when the
  // window opens is read from the kernel's tables. Those beyond wire::WIRE_SURVEYED are not.
  std::vector<std::string> places;
  uint64_t threshold_ns = 10'000'000;
  std::vector<std::string> disabled_hooks;
  bool follows = false;  // some processes' calls, and their children's, are marked: see follow()
};

struct Losses {
  std::array<uint64_t, wire::LOSS_KINDS> by_kind{};
  uint64_t missed_probes = 0;  // programs that the kernel skipped (recursion)
};

struct BpfCost {
  uint64_t ns = 0;        // extrapolated from the sampled moments
  uint64_t runs = 0;      // likewise
  double cpu_share = 0;   // of all CPUs
  bool measured = false;  // false: the kernel keeps no statistics, or the window was too short
};

struct Histogram {
  uint32_t disk = 0;
  uint32_t kind = 0;  // wire_call_kind or wire_hist_kind
  wire::wire_hist hist{};
};

class Capture {
 public:
  // Called with one wire event at a time, from the thread that reads the ring.
  using Sink = std::function<void(std::span<const std::byte>)>;

  // Throws a refused Error if the kernel or the privileges do not allow it.
  Capture(CaptureOptions options, const kernel::SymbolTable& symbols, Sink sink);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // From now on the calls of these processes, and of those that they will make, are marked.
  void follow(std::span<const uint32_t> pids);

  void open_window();
  void close_window();
  // After close_window: what is still on its way, or was under way at the end, goes to the sink.
  void collect();

  // Just now; while the window is open.
  [[nodiscard]] bool executes_flush(uint32_t disk) const;

  // What stands just now, as events one after another: calls over the threshold with their sleeps,
  // whatever they may wait for. While the window is open; what they become is sent as if nobody had
  // looked.
  [[nodiscard]] std::vector<std::byte> peek() const;

  [[nodiscard]] uint64_t start_ns() const;  // CLOCK_MONOTONIC
  [[nodiscard]] uint64_t start_unix_ns() const;
  [[nodiscard]] uint64_t end_ns() const;  // 0 while open
  [[nodiscard]] const std::vector<HookState>& hooks() const;
  [[nodiscard]] std::vector<Histogram> histograms() const;
  [[nodiscard]] Losses losses() const;
  [[nodiscard]] BpfCost cost() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// One line why BPF cannot be loaded here, or "" if it can: loads the smallest program.
std::string why_bpf_is_refused();

}  // namespace stalltrace::capture

// One tracing session: which devices, the capture, the model it feeds, and the report at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "userspace/batching/unseen.h"
#include "userspace/capture/capture.h"
#include "userspace/cli/assemble.h"
#include "userspace/cli/filter.h"
#include "userspace/cli/live.h"
#include "userspace/kernel/devices.h"
#include "userspace/model/trace.h"
#include "userspace/report/report.h"

namespace stalltrace::cli {

struct TracingOptions {
  std::vector<kernel::Device> devices;
  uint64_t threshold_ns = 10'000'000;
  std::vector<std::string> disabled_hooks;
  Filter filter;           // whose stalls are told
  bool live = false;       // keep what look() needs
  uint64_t flight_ns = 0;  // keep only what flight_report() needs, of so long; 0: all of the window
  std::function<void(const wire::wire_call&)> on_stall;  // that ended, from the reader's thread
};

class Tracing {
 public:
  // Loads and attaches. Throws a refused Error where that is not possible.
  explicit Tracing(TracingOptions options);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  void open_window();
  void close_window();

  // While the window is open: the disk has a flush in it just now. From any thread.
  [[nodiscard]] bool executes_flush(uint32_t disk) const;

  // While the window is open: what stands just now.
  [[nodiscard]] Standing standing();
  // The stalls that ended since the last look and those that last, each explained, as a report of
  // nothing else; `others`: how many more have ended.
  [[nodiscard]] report::Report look(const Standing& standing, uint64_t& others);
  // The report of the last `flight_ns`, or a little more. To be told when time passes, at least
  // once a second: mark_time.
  [[nodiscard]] report::Report flight_report();
  void mark_time();

  // After close_window: what was captured, and how much the kernel's own counts grew meanwhile.
  [[nodiscard]] const model::Trace& sealed_trace();
  [[nodiscard]] OutsideCounts outside_growth() const;
  [[nodiscard]] uint64_t lost_events() const;
  // What of the batching figures could not be counted.
  [[nodiscard]] batching::Unseen unseen() const;

  // After close_window. Without probe and workload, which the caller adds.
  [[nodiscard]] report::Report make_report();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Of the file system that holds `path`, its external journal's disk included. Throws a usage
// Error for a path that is not there, or that has no block device below it.
std::vector<kernel::Device> devices_for_path(const std::string& path);
// Of a block device, by node, name (sdb, sdb1) or MAJOR:MINOR, with the file systems on it.
std::vector<kernel::Device> devices_for_name(const std::string& name);
// Every mounted file system on a block device.
std::vector<kernel::Device> all_devices();

}  // namespace stalltrace::cli

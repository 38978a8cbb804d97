// What one thread of a job measured, in the terms of fio's report.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "workloads/distribution.h"
#include "workloads/job_spec.h"
#include "workloads/nowait.h"

namespace stalltrace::workloads {

struct DirectionStats {
  uint64_t ios = 0;
  uint64_t bytes = 0;
  LatencyHistogram submit;    // until the submitting call returned; asynchronous engines only
  LatencyHistogram complete;  // from then until it was seen complete
  LatencyHistogram total;

  void merge(const DirectionStats& other);
};

// Counts by size, in fio's seven classes.
class SizeClasses {
 public:
  static constexpr size_t kClasses = 7;
  // In flight when an I/O was issued: 1, 2 to 3, 4 to 7, ..., 32 to 63, more.
  void add_depth(uint64_t depth);
  // Per call: none, 1 to 4, 5 to 8, ..., 33 to 64, more.
  void add_batch(uint64_t size);
  void merge(const SizeClasses& other);
  [[nodiscard]] double percent(size_t index) const;

 private:
  std::array<uint64_t, kClasses> counts_{};
  uint64_t total_ = 0;
};

// Of a thread, or of several added up.
struct CpuTimes {
  uint64_t user_ns = 0;
  uint64_t system_ns = 0;
  uint64_t switches = 0;
  uint64_t major_faults = 0;
  uint64_t minor_faults = 0;

  static CpuTimes of_this_thread();
  [[nodiscard]] CpuTimes since(const CpuTimes& earlier) const;
  void add(const CpuTimes& other);
};

class JobStats {
 public:
  // Makes the histograms that the job needs, so that nothing is allocated while it runs.
  explicit JobStats(const JobSpec& job);

  // The measured time begins, or begins anew.
  void begin(uint64_t now_ns);
  void end(uint64_t now_ns);

  [[nodiscard]] DirectionStats& direction(bool write) { return *directions_[write ? 1 : 0]; }
  // Null where the job does not have the direction.
  [[nodiscard]] const DirectionStats* direction(bool write) const {
    return directions_[write ? 1 : 0].get();
  }
  // Every sync.
  LatencyHistogram& sync() { return sync_; }
  // Those that fio's report knows: it has the times of all but the ones at the end, and the number
  // of fsyncs.
  void add_due_sync(uint64_t took_ns, bool fsync) {
    due_sync_.add(took_ns);
    if (fsync) ++due_fsyncs_;
  }
  [[nodiscard]] const LatencyHistogram& sync() const { return sync_; }
  [[nodiscard]] const LatencyHistogram& due_sync() const { return due_sync_; }
  [[nodiscard]] uint64_t due_fsyncs() const { return due_fsyncs_; }

  // Adds what another thread measured; the time is then that of the longest, from the first
  // beginning to the last end.
  void merge(const JobStats& other);

  [[nodiscard]] uint64_t begin_ns() const { return begin_ns_; }
  [[nodiscard]] uint64_t end_ns() const { return end_ns_; }
  [[nodiscard]] uint64_t runtime_ns() const { return runtime_ns_; }
  // Thread time: the sum of the runtimes of all threads.
  [[nodiscard]] uint64_t thread_ns() const { return thread_ns_; }
  [[nodiscard]] const CpuTimes& cpu() const { return cpu_; }
  [[nodiscard]] uint64_t ios() const;
  [[nodiscard]] uint64_t bytes() const;

  SizeClasses depth;
  SizeClasses batch;   // submitted by one call
  SizeClasses reaped;  // found by one look
  NowaitTally nowait;

 private:
  PerDirection<std::unique_ptr<DirectionStats>> directions_;
  LatencyHistogram sync_;
  LatencyHistogram due_sync_;
  uint64_t due_fsyncs_ = 0;
  uint64_t begin_ns_ = 0;
  uint64_t end_ns_ = 0;
  uint64_t runtime_ns_ = 0;
  uint64_t thread_ns_ = 0;
  CpuTimes cpu_begin_;
  CpuTimes cpu_;
};

}  // namespace stalltrace::workloads

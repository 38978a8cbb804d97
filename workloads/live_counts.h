// What a load has done so far, for another process to read while it runs.
#pragma once

#include <atomic>
#include <cstdint>

namespace stalltrace::workloads {

// In memory shared with processes that are forked afterwards.
class LiveCounts {
 public:
  // Throws a failed Error without memory.
  LiveCounts();
  LiveCounts(const LiveCounts&) = delete;
  LiveCounts& operator=(const LiveCounts&) = delete;
  ~LiveCounts();

  void add(uint64_t bytes) {
    counts_->writes.fetch_add(1, std::memory_order_relaxed);
    counts_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t writes() const { return counts_->writes.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t bytes() const { return counts_->bytes.load(std::memory_order_relaxed); }

 private:
  struct Counts {
    std::atomic<uint64_t> writes;
    std::atomic<uint64_t> bytes;
  };
  Counts* counts_;
};

}  // namespace stalltrace::workloads

// What the kernel counted of the disks below some files, while a load ran.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stalltrace::workloads {

class DiskUse {
 public:
  // `folder` is the disk's in sysfs. Begins to count.
  explicit DiskUse(std::string folder);
  // What was counted until now stays; only the first time counts.
  void finish();

  [[nodiscard]] std::string name() const;
  [[nodiscard]] uint64_t reads() const { return growth(0); }
  [[nodiscard]] uint64_t read_merges() const { return growth(1); }
  [[nodiscard]] uint64_t read_ms() const { return growth(3); }
  [[nodiscard]] uint64_t writes() const { return growth(4); }
  [[nodiscard]] uint64_t write_merges() const { return growth(5); }
  [[nodiscard]] uint64_t write_ms() const { return growth(7); }
  [[nodiscard]] uint64_t busy_ms() const { return growth(9); }
  [[nodiscard]] uint64_t queued_ms() const { return growth(10); }
  [[nodiscard]] uint64_t duration_ns() const { return end_ns_ - begin_ns_; }

 private:
  // Fields of Documentation/block/stat.rst that every kernel has.
  using Counters = std::array<uint64_t, 11>;

  [[nodiscard]] Counters read() const;
  [[nodiscard]] uint64_t growth(size_t field) const { return end_[field] - begin_[field]; }

  std::string folder_;
  Counters begin_{};
  Counters end_{};
  uint64_t begin_ns_ = 0;
  uint64_t end_ns_ = 0;
};

// The whole disks that hold the paths, each once; what is on no disk is left out.
std::vector<DiskUse> disks_of(const std::vector<std::string>& paths);

}  // namespace stalltrace::workloads

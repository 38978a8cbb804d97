// How long a disk of a profile takes for each request: its head, its limits, its luck. The same
// requests at the same times give the same answers for the same seed.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "workloads/disk/extent.h"
#include "workloads/disk/profile.h"
#include "workloads/disk/random.h"
#include "workloads/disk/schedule.h"

namespace stalltrace::disk {

class Head {
 public:
  explicit Head(const Mechanics& mechanics) : mechanics_(mechanics) {}

  // A transfer asked for at `now_ns`: when it is done.
  uint64_t transfer(uint64_t now_ns, const Extent& extent);
  // A read, which may have been read ahead.
  uint64_t read(uint64_t now_ns, const Extent& extent);

 private:
  [[nodiscard]] uint64_t seek_ns(uint64_t from, uint64_t to) const;
  [[nodiscard]] uint64_t transfer_ns(uint64_t bytes) const;

  Mechanics mechanics_;
  uint64_t position_ = 0;
  uint64_t ready_ns_ = 0;  // when the head came there
  bool reading_ahead_ = false;
};

// A token bucket.
class Limiter {
 public:
  explicit Limiter(const RequestLimit& limit) : limit_(limit) {}
  // When a request that arrives at `now_ns` may begin.
  uint64_t admit(uint64_t now_ns, uint64_t bytes);

 private:
  RequestLimit limit_;
  uint64_t paid_until_ns_ = 0;
};

class ServiceModel {
 public:
  ServiceModel(const Profile& profile, uint64_t seed);

  // `drained`: what a flush has to write, or what a write pushes out of a full cache. In order of
  // their offsets.
  uint64_t due_ns(Op op, const Extent& extent, uint64_t arrival_ns,
                  const std::vector<Extent>& drained);

 private:
  uint64_t read_end_ns(uint64_t begin_ns, const Extent& extent);
  uint64_t write_end_ns(uint64_t begin_ns, const Extent& extent,
                        const std::vector<Extent>& drained);
  uint64_t flush_end_ns(uint64_t begin_ns, const std::vector<Extent>& drained);

  std::mutex mutex_;
  const Profile profile_;
  std::optional<Head> head_;
  std::optional<Limiter> limiter_;
  // Each of its own, so that the n-th flush's luck does not depend on the writes before it.
  Random read_luck_;
  Random write_luck_;
  Random flush_luck_;
  Random pause_luck_;
  uint64_t busy_until_ns_ = 0;
};

}  // namespace stalltrace::disk

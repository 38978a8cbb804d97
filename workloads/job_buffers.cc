#include "workloads/job_buffers.h"

#include <cstring>

#include "userspace/base/error.h"
#include "userspace/base/units.h"

namespace stalltrace::workloads {
namespace {

constexpr size_t kBufferAlignment = 4096;

}  // namespace

JobBuffers::JobBuffers(const JobSpec& job, uint64_t seed)
    : stride_((job.max_block() + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment),
      count_(job.iodepth),
      scramble_(job.scramble && !job.zero_buffers),
      refill_(job.refill && !job.zero_buffers),
      random_(seed),
      memory_(std::aligned_alloc(kBufferAlignment, stride_ * job.iodepth)) {
  if (!memory_) {
    throw failed_error("no memory for I/O buffers of {}: lower --jobs, --iodepth or --bs",
                       format_size(stride_ * job.iodepth * job.jobs));
  }
  // Random contents: a device that compresses or detects zeros would not do the work.
  auto* words = static_cast<uint64_t*>(memory_.get());
  for (size_t i = 0; i < stride_ * count_ / sizeof(uint64_t); ++i) {
    words[i] = job.zero_buffers ? 0 : random_.next();
  }
}

void JobBuffers::prepare(unsigned slot, uint32_t bytes) {
  if (!scramble_ && !refill_) return;
  constexpr size_t kSector = 512;
  size_t step = refill_ ? sizeof(uint64_t) : kSector;
  auto* buffer = static_cast<char*>(at(slot));
  uint64_t word = random_.next();
  for (size_t at = 0; at + sizeof(word) <= bytes; at += step) {
    uint64_t value = refill_ ? random_.next() : word + at;
    std::memcpy(buffer + at, &value, sizeof(value));
  }
}

std::vector<iovec> JobBuffers::vectors() const {
  std::vector<iovec> all;
  for (unsigned slot = 0; slot < count_; ++slot) {
    all.push_back({.iov_base = at(slot), .iov_len = stride_});
  }
  return all;
}

}  // namespace stalltrace::workloads

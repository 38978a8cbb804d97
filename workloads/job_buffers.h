// The memory that a job's thread reads into and writes from.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "workloads/job_spec.h"
#include "workloads/random.h"

namespace stalltrace::workloads {

class JobBuffers {
 public:
  // One for each request in flight, aligned to pages. Throws a failed Error without the memory.
  JobBuffers(const JobSpec& job, uint64_t seed);

  [[nodiscard]] void* at(unsigned slot) const {
    return static_cast<char*>(memory_.get()) + slot * stride_;
  }
  // What is to be written from the slot: as the job wants its contents.
  void prepare(unsigned slot, uint32_t bytes);

  // All of them, for the kernel to keep.
  [[nodiscard]] std::vector<iovec> vectors() const;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  size_t stride_;
  unsigned count_;
  bool scramble_;
  bool refill_;
  Random random_;
  std::unique_ptr<void, Free> memory_;
};

}  // namespace stalltrace::workloads

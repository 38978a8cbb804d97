// What a job's thread does next: which file, where, how much, reading or writing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/block_order.h"
#include "workloads/job_spec.h"
#include "workloads/random.h"
#include "workloads/skewed_order.h"

namespace stalltrace::workloads {

struct PlannedIo {
  unsigned file = 0;
  bool write = false;
  uint32_t bytes = 0;
  uint64_t offset = 0;
};

// Neither allocates nor waits once it is made.
class JobPlan {
 public:
  // `job` outlives it. Each file holds at least one block.
  JobPlan(const JobSpec& job, const std::vector<JobFile>& files, uint64_t seed);

  // Everything was done.
  [[nodiscard]] bool done() const { return left_ == 0; }
  // What one pass has was done, and another one is to come.
  [[nodiscard]] bool at_pass_end() const { return pass_left_ == 0 && left_ > 0; }
  void begin_pass();

  // Which direction the next I/O is to have; its pace may choose the other one.
  bool draw_write();
  [[nodiscard]] PlannedIo next(bool write);

 private:
  struct FileState {
    uint64_t begin;
    uint64_t bytes;  // whole units
    uint64_t left;   // in this pass
    PerDirection<uint64_t> position{};
    BlockOrder order;
    std::optional<SkewedOrder> skewed;
  };

  bool choose_file();
  bool take_turn(size_t file);
  void rewind();
  uint64_t block_size(bool write);
  uint64_t place(FileState& file, bool write, uint64_t bytes);

  const JobSpec& job_;
  Random random_;
  uint64_t unit_;
  std::vector<FileState> files_;
  size_t current_ = 0;
  unsigned run_left_ = 0;
  uint64_t pass_bytes_;
  uint64_t pass_left_;
  uint64_t left_;  // bytes, of all passes
};

}  // namespace stalltrace::workloads

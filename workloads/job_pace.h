// When a job's thread may do its next I/O: rates and pauses.
#pragma once

#include <cstdint>

#include "workloads/job_spec.h"
#include "workloads/random.h"

namespace stalltrace::workloads {

class JobPace {
 public:
  // `job` outlives it.
  JobPace(const JobSpec& job, uint64_t seed) : job_(job), random_(seed + 2) {}

  void begin(uint64_t now_ns) { due_ns_ = {now_ns, now_ns}; }

  // The time before which no I/O of the direction is to be issued. One that comes late is made up
  // for: the rate is kept on the whole, as fio keeps it.
  [[nodiscard]] uint64_t due_ns(bool write) const { return due_ns_[write ? 1 : 0]; }

  // True if a pause is due after it.
  bool issued(bool write, uint64_t bytes);

 private:
  const JobSpec& job_;
  Random random_;
  PerDirection<uint64_t> due_ns_{};
  unsigned until_pause_ = 0;
};

}  // namespace stalltrace::workloads

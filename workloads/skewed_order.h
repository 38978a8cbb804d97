// Random blocks of which some are preferred, as fio's random_distribution has them.
#pragma once

#include <cstdint>

#include "workloads/job_spec.h"
#include "workloads/random.h"

namespace stalltrace::workloads {

class SkewedOrder {
 public:
  // `by` is zipf's theta, pareto's h, or the normal deviation in percent of the blocks.
  SkewedOrder(Skew skew, double by, uint64_t blocks, uint64_t seed);
  uint64_t next();

  // How popular the next block is, 0 the most: what next() scatters over the file. For the normal
  // distribution, its place around the middle.
  uint64_t rank();

 private:
  uint64_t zipf();
  uint64_t normal();

  Skew skew_;
  double by_;
  uint64_t blocks_;
  uint64_t scatter_;
  Random random_;
  double zeta_ = 0;
  double alpha_ = 0;
  double eta_ = 0;
};

}  // namespace stalltrace::workloads

#include "workloads/job_pace.h"

#include <algorithm>
#include <cmath>

namespace stalltrace::workloads {

bool JobPace::issued(bool write, uint64_t bytes) {
  size_t direction = write ? 1 : 0;
  double apart_ns = 0;
  if (job_.rate_bytes[direction] > 0) {
    apart_ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(job_.rate_bytes[direction]);
  }
  if (job_.rate_ios[direction] > 0) {
    apart_ns = std::max(apart_ns, 1e9 / static_cast<double>(job_.rate_ios[direction]));
  }
  if (apart_ns > 0 && job_.rate_poisson) apart_ns *= -std::log(1 - random_.unit());
  due_ns_[direction] += static_cast<uint64_t>(apart_ns);
  if (job_.think_ns == 0) return false;
  if (++until_pause_ < job_.think_blocks) return false;
  until_pause_ = 0;
  return true;
}

}  // namespace stalltrace::workloads

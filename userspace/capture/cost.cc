#include "userspace/capture/cost.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include "userspace/base/clock.h"

namespace stalltrace::capture {
namespace {

constexpr uint64_t kSampleNs = 100'000'000;
constexpr uint64_t kPauseNs = 1'900'000'000;

}  // namespace

CostSampler::Totals CostSampler::totals() const {
  Totals sum;
  for (int fd : programs_) {
    bpf_prog_info info{};
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0) continue;
    sum.ns += info.run_time_ns;
    sum.runs += info.run_cnt;
    sum.missed += info.recursion_misses;
  }
  return sum;
}

void CostSampler::tick(uint64_t now_ns) {
  if (stats_fd_ < 0 && now_ns >= next_sample_ns_) {
    before_ = totals();
    stats_fd_ = bpf_enable_stats(BPF_STATS_RUN_TIME);
    sample_start_ns_ = monotonic_ns();
    next_sample_ns_ = now_ns + kPauseNs;
  } else if (stats_fd_ >= 0 && now_ns >= sample_start_ns_ + kSampleNs) {
    finish_sample();
  }
}

void CostSampler::finish_sample() {
  if (stats_fd_ < 0) return;
  uint64_t took = monotonic_ns() - sample_start_ns_;
  close(stats_fd_);
  stats_fd_ = -1;
  Totals after = totals();
  sampled_ns_ += took;
  cost_ns_ += after.ns - before_.ns;
  runs_ += after.runs - before_.runs;
}

double CostSampler::ns_per_second() const {
  return measured() ? static_cast<double>(cost_ns_) * 1e9 / static_cast<double>(sampled_ns_) : 0;
}

double CostSampler::runs_per_second() const {
  return measured() ? static_cast<double>(runs_) * 1e9 / static_cast<double>(sampled_ns_) : 0;
}

uint64_t CostSampler::missed_probes() const {
  return totals().missed;
}

}  // namespace stalltrace::capture

// What our BPF programs cost, by the kernel's own statistics. Keeping those costs more than the
// programs do (100 to 250 ns per run), so they are on for a tenth of a second now and then.
#pragma once

#include <cstdint>
#include <vector>

namespace stalltrace::capture {

class CostSampler {
 public:
  explicit CostSampler(std::vector<int> program_fds) : programs_(std::move(program_fds)) {}
  ~CostSampler() { finish_sample(); }
  CostSampler(const CostSampler&) = delete;
  CostSampler& operator=(const CostSampler&) = delete;

  // Called often; starts and ends samples by itself.
  void tick(uint64_t now_ns);
  void finish_sample();

  [[nodiscard]] bool measured() const { return sampled_ns_ > 0; }
  [[nodiscard]] double ns_per_second() const;
  [[nodiscard]] double runs_per_second() const;
  [[nodiscard]] uint64_t missed_probes() const;

 private:
  struct Totals {
    uint64_t ns = 0, runs = 0, missed = 0;
  };
  [[nodiscard]] Totals totals() const;

  std::vector<int> programs_;
  int stats_fd_ = -1;
  uint64_t sample_start_ns_ = 0;
  uint64_t next_sample_ns_ = 0;
  Totals before_;
  uint64_t sampled_ns_ = 0, cost_ns_ = 0, runs_ = 0;
};

}  // namespace stalltrace::capture

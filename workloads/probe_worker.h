// The probe: one small direct AIO write per interval, its submission and completion timed apart.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "workloads/async_engine.h"
#include "workloads/worker.h"

namespace stalltrace::workloads {

struct ProbeRequest {
  uint64_t start_ns = 0;
  uint64_t submitted_ns = 0;  // io_submit returned
  uint64_t completed_ns = 0;  // its completion was seen
  int64_t result = 0;         // bytes, or a negative errno
};

class ProbeWorker : public Worker {
 public:
  ProbeWorker(unsigned index, const OpsLogSpec& log, const ProbeSpec& probe, StopSignal& stop);

  void attach(int fd) { fd_ = fd; }
  // For after join().
  [[nodiscard]] const std::vector<ProbeRequest>& requests() const { return requests_; }

 protected:
  void run(uint64_t start_ns) override;

 private:
  ProbeRequest request(uint64_t offset);

  const ProbeSpec& probe_;
  StopSignal& stop_;
  int fd_ = -1;
  std::unique_ptr<AsyncEngine> engine_;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> buffer_;
  std::vector<ProbeRequest> requests_;
};

}  // namespace stalltrace::workloads

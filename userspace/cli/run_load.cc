#include "userspace/cli/run_load.h"

#include <chrono>

#include "userspace/cli/output.h"

namespace stalltrace::cli {

bool wait_for_load(workloads::WorkloadProcess& load, StopSignals& signals,
                   const std::function<void()>& show) {
  constexpr auto kEvery = std::chrono::milliseconds(20);
  bool stopping = false;
  while (!load.wait(0)) {
    bool stop = signals.wait_until(std::chrono::steady_clock::now() + kEvery);
    if (stop && !stopping) {
      clear_progress();
      say("stopping; the report of what was gathered follows");
      load.stop();
      stopping = true;
    }
    if (stopping) {
      load.wait(kEvery.count());
    } else if (show) {
      show();
    }
  }
  return !stopping;
}

}  // namespace stalltrace::cli

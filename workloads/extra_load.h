// A load that is no job of fio's kind: threads of its own sort, with what they work on.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "workloads/layout.h"
#include "workloads/scenario.h"
#include "workloads/worker.h"

namespace stalltrace::workloads {

class ExtraLoad {
 public:
  ExtraLoad() = default;
  ExtraLoad(const ExtraLoad&) = delete;
  ExtraLoad& operator=(const ExtraLoad&) = delete;
  virtual ~ExtraLoad() = default;

  // Makes and opens what the threads work on, and the threads, which are not launched yet. False:
  // cancelled by hooks.progress, nothing is left. Throws as FileSet and open_for_load do.
  virtual bool prepare(const LayoutHooks& hooks) = 0;
  [[nodiscard]] virtual const std::vector<std::unique_ptr<Worker>>& workers() const = 0;
  virtual void remove_files() noexcept = 0;

  // For after the run: what goes into the report's "workload".
  [[nodiscard]] virtual nlohmann::json figures(uint64_t elapsed_ns) const = 0;
};

// Null where the scenario has none.
std::unique_ptr<ExtraLoad> make_extra_load(const Scenario& scenario, const StopSignal& stop);

}  // namespace stalltrace::workloads

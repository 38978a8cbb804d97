#include "workloads/extra_load.h"

#include "workloads/dio_cell.h"
#include "workloads/osync.h"

namespace stalltrace::workloads {

std::unique_ptr<ExtraLoad> make_extra_load(const Scenario& scenario, const StopSignal& stop) {
  if (scenario.osync) return std::make_unique<OsyncLoad>(*scenario.osync, scenario.ops_log, stop);
  if (scenario.dio_file) return std::make_unique<DioFileLoad>(*scenario.dio_file);
  if (scenario.dio_cell) {
    return std::make_unique<DioCellLoad>(*scenario.dio_cell, scenario.ops_log, stop);
  }
  return nullptr;
}

}  // namespace stalltrace::workloads

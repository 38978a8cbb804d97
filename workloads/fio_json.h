// A load's figures in the layout of `fio --output-format=json` (3.33), for scripts that read fio.
#pragma once

#include <nlohmann/json.hpp>

#include "workloads/load.h"

namespace stalltrace::workloads {

// Keys in fio's order. What is not measured here is as fio has it where it did not happen (trims,
// short and dropped I/O); bw_* and iops_* have one sample, the whole run.
nlohmann::ordered_json fio_json(const Load::Results& results);

}  // namespace stalltrace::workloads

// fs_mark's table, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "workloads/load.h"

namespace stalltrace::workloads {

// {"iterations":[{"fsuse_percent","count","size_bytes","files_per_s_sum","files_per_s",
// "app_overhead_us","syncs","elapsed_s"}],"files_per_s","syncs","syncs_per_s","path"}:
// files_per_s_sum adds up the threads' own rates, as fs_mark does; files_per_s is over the wall
// clock, from the start that all threads share to the end of the last.
nlohmann::json fsmark_figures(const Load::Results& results);

}  // namespace stalltrace::workloads

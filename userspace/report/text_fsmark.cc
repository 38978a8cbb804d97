// fs_mark's table: its own columns first, at their places, for what reads them by position.
#include <fmt/format.h>

#include "userspace/report/json_figures.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
bool is_fsmark(const Figures& workload) {
  return workload.is_object() && workload.contains("iterations") &&
         workload["iterations"].is_array();
}

void print_fsmark(Page& page, const Figures& workload) {
  page.title("fs_mark's table");
  page.line(fmt::format("{:<6} {:>12} {:>12} {:>12} {:>16} {:>12}", "FSUse%", "Count", "Size",
                        "Files/sec", "App Overhead", "Wall f/sec"));
  for (const Figures& row : workload["iterations"]) {
    page.line(fmt::format("{:6.0f} {:12.0f} {:12.0f} {:12.1f} {:16.0f} {:12.1f}",
                          number_at(row, "fsuse_percent"), number_at(row, "count"),
                          number_at(row, "size_bytes"), number_at(row, "files_per_s_sum"),
                          number_at(row, "app_overhead_us"), number_at(row, "files_per_s")));
  }
}

}  // namespace stalltrace::report

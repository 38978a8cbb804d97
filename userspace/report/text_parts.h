// The sections of the text report. Each prints nothing when there is nothing to say.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "userspace/report/page.h"
#include "userspace/report/report.h"

namespace stalltrace::report {

// Names of devices, tasks and files of one report, printable.
class Names {
 public:
  Names(const Report& report, bool utf8);

  [[nodiscard]] std::string clean(std::string_view bytes) const;
  [[nodiscard]] std::string device(uint32_t kdev) const;  // "loop0"; "7:0" without a name
  [[nodiscard]] std::string place(uint32_t kdev) const;   // "loop0 (/mnt)"
  [[nodiscard]] std::string task(const blame::TaskName& task) const;  // "fio[4242]"
  [[nodiscard]] std::string root(const blame::Root& root) const;      // "device.flush loop0"
  // "/mnt/chunk-017 (ino 1311, loop0)", or as much of it as is known.
  [[nodiscard]] std::string file(std::string_view path, uint64_t ino, uint32_t kdev) const;
  // "12.204 s" after the window's start.
  [[nodiscard]] std::string since_start(uint64_t ns) const;

 private:
  uint64_t start_ns_;
  bool utf8_;
  std::map<uint32_t, std::string> names_;
  std::map<uint32_t, std::string> mountpoints_;
};

// "96 %", and no "100 %" or "0 %" that is not quite so.
std::string percent(uint64_t part, uint64_t whole);

// "10 ms" for "10.0 ms": times that somebody chose.
std::string round_time(uint64_t ns);

// One stall in full: its parts, their chains, its root cause.
void print_stall(Page& page, const Names& names, const blame::Stall& stall);
// All of them: one of each group in full.
void print_stalls(Page& page, const Names& names, const Report& report, size_t most_groups);

void print_calls(Page& page, const Names& names, const Report& report);
void print_async(Page& page, const Names& names, const Report& report);
void print_waits(Page& page, const Names& names, const Report& report);
void print_roots(Page& page, const Names& names, const Report& report);
void print_culprits(Page& page, const Names& names, const Report& report);
void print_locks(Page& page, const Names& names, const Report& report);

void print_commits(Page& page, const Names& names, const Report& report);
void print_flushes(Page& page, const Names& names, const Report& report);
void print_batching(Page& page, const Names& names, const Report& report);
void print_devices(Page& page, const Names& names, const Report& report);
void print_tracer(Page& page, const Names& names, const Report& report);
void print_meanings(Page& page, const Report& report);

void print_probe(Page& page, const Names& names, const Report& report);
void print_workload(Page& page, const Names& names, const Report& report);
[[nodiscard]] bool is_fsmark(const nlohmann::json& workload);
void print_fsmark(Page& page, const nlohmann::json& workload);
[[nodiscard]] bool is_dio_matrix(const nlohmann::json& workload);
[[nodiscard]] bool is_printed_by_dio_matrix(std::string_view key);
void print_dio_matrix(Page& page, const Names& names, const nlohmann::json& workload);
[[nodiscard]] bool is_osync(const nlohmann::json& workload);
// Of the workload's figures: it is told there, or is of use to programs only.
[[nodiscard]] bool is_printed_by_osync(std::string_view key);
void print_osync(Page& page, const Names& names, const nlohmann::json& workload);

}  // namespace stalltrace::report

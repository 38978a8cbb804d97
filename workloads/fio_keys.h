// The keys of fio's job files that this load knows, each with what it sets, in groups.
#pragma once

#include <span>
#include <string_view>

#include "workloads/fio_values.h"
#include "workloads/job_spec.h"

namespace stalltrace::workloads {

// A job as far as the file has described it.
struct FioDraft {
  JobSpec job;
  bool has_size = false;
  bool overwrite = false;
  bool stonewall = false;
  bool new_group = false;
  size_t line = 0;
};

struct FioKey {
  std::string_view name;
  void (*set)(FioDraft&, const FioEntry&);
};

std::span<const FioKey> fio_io_keys();     // what is done: engine, pattern, blocks, depth, order
std::span<const FioKey> fio_file_keys();   // to which files, and how they are made and synced
std::span<const FioKey> fio_pace_keys();   // when, how fast and for how long
std::span<const FioKey> fio_other_keys();  // what changes nothing here, and what is refused

// fio's defaults, not the chunk server's.
FioDraft fio_defaults();

// Throws a usage Error with file, line and key for what is not known or not done here.
void apply_fio_key(FioDraft& draft, const FioEntry& entry);

}  // namespace stalltrace::workloads

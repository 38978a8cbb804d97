// fio's job file format, for the part of it that this load can do faithfully.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/fio_values.h"
#include "workloads/job_spec.h"

namespace stalltrace::workloads {

// What the command line says instead of the file; it holds for every job of the file.
struct JobOverrides {
  std::optional<std::string> directory;
  std::optional<uint64_t> runtime_ns;
  std::optional<unsigned> jobs;
  std::optional<uint64_t> size_bytes;
};

// Throws a usage Error with `file`, the line and the key for anything that it does not know or
// would do otherwise than fio: nothing is ignored.
std::vector<JobSpec> parse_fio_job(std::string_view text, const std::string& file,
                                   const JobOverrides& overrides);

// The same from a file; a file that cannot be read is a usage Error.
std::vector<JobSpec> read_fio_job(const std::string& file, const JobOverrides& overrides);

}  // namespace stalltrace::workloads

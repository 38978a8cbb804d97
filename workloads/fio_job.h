// fio's job file format, for the part of it that this load can do faithfully.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/scenario.h"

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

// fio's units with its default kb_base of 1024, as fio 3.33 reads them: k, kb, ki are 1024 and kib
// is 1000 (sic); m, g, t, p likewise. No value: not a size.
std::optional<uint64_t> parse_fio_size(std::string_view text);

// fio's times: a bare number is seconds; d, h, m, s, ms, us. Nanoseconds.
std::optional<uint64_t> parse_fio_time_ns(std::string_view text);

}  // namespace stalltrace::workloads

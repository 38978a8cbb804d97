// The options that say how an emulated disk behaves, the same wherever one is made.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "workloads/disk/disk.h"

namespace stalltrace::cli {

struct DiskWords {
  std::string profile;
  std::string flush;
  std::string write;
  std::string read;
  std::string cache;
  std::string lie;
};

void add_disk_words(CLI::App& command, DiskWords& words);

// Throws a usage Error. What was not said stays as it is in `options`.
void apply_disk_words(const DiskWords& words, disk::DiskOptions& options);

}  // namespace stalltrace::cli

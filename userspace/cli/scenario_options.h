// The options of `stalltrace run`'s scenarios, in their tools' own words, and the load they mean.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "workloads/scenario.h"

namespace stalltrace::cli {

// What every scenario takes.
struct LoadOptions {
  std::string ops_log;
  std::string ops_log_floor = "1ms";
  size_t ops_log_room = workloads::OpRecorder::kLogCapacity;
  bool keep_files = false;
};

struct ChunkServerOptions : LoadOptions {
  std::string dir;
  unsigned jobs = 32;
  unsigned iodepth = 32;
  std::string bs = "64k";
  std::string size = "128m";
  std::optional<unsigned> fdatasync;  // absent: 32, or none with sync threads
  unsigned sync_threads = 0;
  std::string runtime = "20s";
  std::string engine = "libaio";
  std::string layout = "fallocate";
  std::string probe_interval = "1s";
};

struct ProbeOptions : LoadOptions {
  std::string dir;
  std::string runtime = "20s";
  std::string probe_interval = "1s";
};

struct JobOptions : LoadOptions {
  std::string file;
  std::optional<std::string> dir;
  std::optional<unsigned> jobs;
  std::optional<std::string> size;
  std::optional<std::string> runtime;
  std::string probe_interval = "0";
  std::string fio_json;
  bool destroy_data = false;
};

struct FsmarkOptions : LoadOptions {
  std::vector<std::string> dirs;
  std::string file_size = "51200";
  unsigned files = 1000;
  unsigned loops = 1;
  unsigned threads = 1;
  unsigned method = 1;
  unsigned subdirs = 0;
  unsigned files_per_subdir = 0;
  std::string write_size = "16k";
  std::string sync = "fsync";
  bool processes = false;
};

// Ways of syncing, as workloads::parse_sync_method has them.
extern const CLI::Validator kSyncMethod;

// `options` has to live until the command line was parsed.
void add_load_options(CLI::App& command, LoadOptions& options);
void add_chunk_server_options(CLI::App& command, ChunkServerOptions& options);
void add_probe_options(CLI::App& command, ProbeOptions& options);
void add_job_options(CLI::App& command, JobOptions& options);
void add_fsmark_options(CLI::App& command, FsmarkOptions& options);

// Throw a usage Error that names the option (or the job file's line) for what cannot be run.
workloads::Scenario make_scenario(const ChunkServerOptions& options);
workloads::Scenario make_scenario(const ProbeOptions& options);
workloads::Scenario make_scenario(const JobOptions& options);
workloads::Scenario make_scenario(const FsmarkOptions& options);

}  // namespace stalltrace::cli

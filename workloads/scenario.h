// What a load is to do, whatever it was described in: options, or a job file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "workloads/dio_spec.h"
#include "workloads/job_spec.h"
#include "workloads/ops_log.h"
#include "workloads/osync_spec.h"

namespace stalltrace::workloads {

// One direct AIO write of block_bytes per interval to a random place in a file of its own, which
// is fully written beforehand: its writes are plain overwrites, that touch nothing but timestamps.
struct ProbeSpec {
  std::string directory;
  std::string filename = "probe-000";
  uint64_t interval_ns = 1'000'000'000;
  uint64_t block_bytes = 4096;
  uint64_t size_bytes = 1024 * 1024;
  uint64_t runtime_ns = 0;  // where it runs alone; beside jobs it ends with them. 0: no limit

  [[nodiscard]] std::string path() const;
};

// How a file of fs_mark's work is put on disk; fs_mark itself knows the first only.
enum class SyncCall {
  kFsync,
  kFdatasync,
  kOSync,  // opened with O_SYNC, no call
  kODsync,
  kSyncfs,
  kSyncFileRange,  // its data only, nothing that finds it again
  kGroup,          // one syncfs by the first thread for all that wait
  kDirsync,        // nothing for the file; its directory entry is synchronous (chattr +D)
  kSyncfsEvery     // a thread of its own calls syncfs at intervals; files wait for the next call
};
struct SyncMethod {
  SyncCall call = SyncCall::kFsync;
  uint64_t interval_ns = 0;  // of kSyncfsEvery
};
// "fsync", "syncfs-every=50ms". Throws a usage Error that names all there are.
SyncMethod parse_sync_method(std::string_view word);

// fs_mark's work, with its defaults.
struct FsmarkSpec {
  std::vector<std::string> directories;  // threads take them in turn
  uint64_t file_bytes = 51200;
  unsigned files = 1000;  // per thread and iteration
  unsigned loops = 1;
  unsigned threads = 1;
  unsigned method = 1;  // fs_mark's -S: 0 none, 1 before close, 2 to 6 after all files
  SyncMethod sync;
  unsigned subdirs = 0;           // 0: none
  unsigned files_per_subdir = 0;  // before the next one is taken; 0: they change every 180 s
  uint64_t write_bytes = 16384;
  bool processes = false;
};

struct OpsLogSpec {
  std::string path;  // empty: no log
  uint64_t floor_ns = 1'000'000;
  size_t room = OpRecorder::kLogCapacity;  // operations of each thread
};

struct Scenario {
  std::string name;  // chunk-server, probe, job, fsmark, osync
  std::vector<JobSpec> jobs;
  std::optional<ProbeSpec> probe;
  std::optional<FsmarkSpec> fsmark;     // alone
  std::optional<OsyncSpec> osync;       // alone
  std::optional<DioFileSpec> dio_file;  // alone
  std::optional<DioCellSpec> dio_cell;  // alone
  OpsLogSpec ops_log;
  bool keep_files = false;
  bool destroy_data = false;  // of the block devices that jobs write to
  bool fio_json = false;      // the result has the jobs' figures in fio's layout, too
  nlohmann::json options;     // as given, for the report
};

// Throws a usage Error for what cannot be run; `where` begins its text.
void check_fsmark(const FsmarkSpec& spec, const std::string& where);

// The longest run the scenario was asked for, 0 if one of its parts has no limit.
uint64_t planned_runtime_ns(const Scenario& scenario);

}  // namespace stalltrace::workloads

// What one job of a load is to do, whatever it was described in: options, or a fio job file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stalltrace::workloads {

enum class Engine { kLibaio, kIoUring, kSync, kPsync, kPvsync, kPvsync2 };
enum class Pattern { kRead, kWrite, kRandRead, kRandWrite, kReadWrite, kRandReadWrite };

// How a new file gets its blocks before the run.
//
// kPreallocate is fallocate(2), which is what fio does for a job that only writes, and what a chunk
// server does: the blocks are reserved but unwritten, so the first write of each one converts an
// extent in a journal transaction and makes the next fdatasync wait for a commit. After each block
// was written once, writes change nothing but timestamps.
// kWrite fills the file: every write of the run is such a plain overwrite from the start. Files
// that are read are always filled, for reading an unwritten block never reaches the device.
// kNone leaves the file empty: writes extend it. kTruncate makes it one hole of its size, kKeepSize
// reserves blocks behind its end.
enum class Fill { kPreallocate, kWrite, kNone, kTruncate, kKeepSize };

enum class FileNames {
  kChunk,  // chunk-000
  kFio,    // NAME.0.0, as fio names them
  kShared  // `filename`, used by all threads of the job; several with ':' between them
};

enum class OpenSync { kNone, kSync, kDsync };                // O_SYNC, O_DSYNC
enum class FileOrder { kRoundRobin, kSequential, kRandom };  // which file the next I/O goes to
enum class Skew { kNone, kZipf, kPareto, kNormal };  // which blocks a random pattern prefers

// Block sizes of one direction: shares of fixed ones, or any multiple of the least up to the most.
struct BlockShare {
  uint64_t bytes;
  unsigned percent;
};
struct BlockSizes {
  uint64_t min_bytes = 0;  // 0: JobSpec::block_bytes
  uint64_t max_bytes = 0;
  std::vector<BlockShare> split;  // empty: all between equally
};

struct UringModes {
  bool sq_poll = false;
  int sq_cpu = -1;  // of the polling thread; -1: any
  // Completions are posted when the thread enters the kernel, not by interrupting it, as fio has
  // it: less work for the CPU, but they are seen later.
  bool cooperative = false;
  bool fixed_files = false;
  bool fixed_buffers = false;
};

// Of what belongs to each direction, reads are first.
template <typename Value>
using PerDirection = std::array<Value, 2>;

struct JobSpec {
  std::string name = "chunk";  // begins the names of its threads
  Engine engine = Engine::kLibaio;
  Pattern pattern = Pattern::kRandWrite;
  unsigned read_percent = 50;     // of a pattern that does both
  unsigned random_percent = 100;  // of a random pattern; the others follow the one before
  bool shuffle = true;            // random patterns: each block once per pass
  Skew skew = Skew::kNone;
  double skew_by = 0;  // theta, h, or the deviation in percent of the file
  uint64_t seed = 0;

  uint64_t block_bytes = 64 * 1024;
  PerDirection<BlockSizes> blocks;
  bool any_size = false;  // a block may have any size in the range, not only multiples of the least

  uint64_t size_bytes = 128 * 1024 * 1024;  // of the files of one thread together
  uint64_t io_bytes = 0;                    // to be done in one pass; 0: size_bytes
  uint64_t offset_bytes = 0;                // where each file's region begins
  uint64_t offset_step = 0;                 // added once per thread
  uint64_t file_min_bytes = 0;              // of each file; 0: size_bytes divided among them
  uint64_t file_max_bytes = 0;
  std::string directory;
  FileNames file_names = FileNames::kChunk;
  std::string filename;
  std::string filename_format;  // of kFio; empty: $jobname.$jobnum.$filenum
  unsigned files = 1;           // per thread, of kFio
  FileOrder file_order = FileOrder::kRoundRobin;
  unsigned file_run = 1;  // I/Os before the next file's turn
  Fill fill = Fill::kPreallocate;
  bool append = false;          // begins at the file's end
  bool create_on_open = false;  // files are made by the thread, not before the run
  bool may_create = true;
  bool drop_cache = false;  // pages of the file are dropped from the cache before the run
  bool advise = false;      // the kernel is told whether access will be random

  unsigned iodepth = 32;
  unsigned batch = 1;      // requests per submitting call
  unsigned reap_min = 1;   // completions to wait for when the queue is full
  unsigned reap_max = 0;   // taken at once; 0: all there are, whenever there is a chance
  unsigned depth_low = 0;  // a full queue is emptied down to this; 0: to what `reap_min` leaves
  UringModes uring;
  bool hipri = false;   // RWF_HIPRI, or a polled ring
  bool nowait = false;  // RWF_NOWAIT

  unsigned jobs = 32;
  bool direct = true;
  OpenSync open_sync = OpenSync::kNone;
  unsigned fsync_every = 0;       // an fsync after this many writes were issued, 0: none
  unsigned fdatasync_every = 0;   // likewise; the file is not synced twice in a row
  unsigned range_sync_every = 0;  // sync_file_range of what was written since the last one
  unsigned range_sync_flags = 0;
  bool sync_in_ring = false;  // syncs are requests in io_uring's queue, as fio's are
  bool end_fsync = false;
  bool fsync_on_close = false;
  // Threads that sync files with completed, not yet acknowledged writes; they serve all files of
  // the job, and each file is synced by one at a time.
  unsigned sync_threads = 0;

  PerDirection<uint64_t> rate_bytes{};  // per second; 0: no limit
  PerDirection<uint64_t> rate_ios{};
  bool rate_poisson = false;
  uint64_t think_ns = 0;       // a pause after every `think_blocks`
  uint64_t think_spin_ns = 0;  // of it, busy
  unsigned think_blocks = 1;

  unsigned phase = 0;  // begins when all jobs of earlier phases have ended
  uint64_t start_delay_ns = 0;
  uint64_t start_delay_max_ns = 0;  // where greater: anything between
  uint64_t ramp_ns = 0;             // runs that long before anything counts
  uint64_t runtime_ns = 0;          // 0: no limit
  bool time_based = true;           // goes on after `size_bytes` were done
  unsigned loops = 1;

  bool zero_buffers = false;
  bool scramble = true;  // no two blocks are written with the same contents
  bool refill = false;   // all of them anew

  // For fio's JSON: what the file said, and how the jobs are put together.
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::pair<std::string, std::string>> global_options;
  bool group_reporting = false;
  unsigned report_group = 0;
  std::vector<double> percentiles;

  [[nodiscard]] bool reads() const {
    return pattern != Pattern::kWrite && pattern != Pattern::kRandWrite;
  }
  [[nodiscard]] bool writes() const {
    return pattern != Pattern::kRead && pattern != Pattern::kRandRead;
  }
  [[nodiscard]] bool random() const {
    return pattern == Pattern::kRandRead || pattern == Pattern::kRandWrite ||
           pattern == Pattern::kRandReadWrite;
  }
  [[nodiscard]] bool async() const {
    return engine == Engine::kLibaio || engine == Engine::kIoUring;
  }
  [[nodiscard]] bool syncs_itself() const {
    return fsync_every > 0 || fdatasync_every > 0 || end_fsync || fsync_on_close;
  }
  [[nodiscard]] uint64_t min_block(bool write) const;
  [[nodiscard]] uint64_t max_block(bool write) const;
  // Of the directions the pattern has.
  [[nodiscard]] uint64_t min_block() const;
  [[nodiscard]] uint64_t max_block() const;

  // The thread's first file.
  [[nodiscard]] std::string path(unsigned thread) const;
};

// What a thread works on in one of its files.
struct JobFile {
  std::string path;
  uint64_t begin = 0;
  uint64_t bytes = 0;
};
std::vector<JobFile> job_files(const JobSpec& job, unsigned thread);

std::string_view engine_name(Engine engine);
std::string_view pattern_name(Pattern pattern);

// Throws a usage Error for what cannot be run; `where` begins its text.
void check_job(const JobSpec& job, const std::string& where);

// "DIRECTORY/NAME"; NAME alone where it is absolute or there is no directory.
std::string path_in(const std::string& directory, const std::string& name);

}  // namespace stalltrace::workloads

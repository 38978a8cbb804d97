// Threads that write their own regions of one device or file, each write durable when it is done.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/live_counts.h"

namespace stalltrace::workloads {

// How the kernel is told that a write has to be durable.
enum class WriteSync { kOSync, kODsync, kRwfDsync };
std::string_view write_sync_name(WriteSync sync);
std::optional<WriteSync> write_sync_of(std::string_view name);
const std::vector<std::string>& write_sync_names();

enum class WriteEngine { kPsync, kLibaio, kIoUring };
std::string_view write_engine_name(WriteEngine engine);
std::optional<WriteEngine> write_engine_of(std::string_view name);
const std::vector<std::string>& write_engine_names();

struct OsyncSpec {
  std::string device;     // either this,
  std::string directory;  // or a file of ours in this
  bool destroy_data = false;
  uint64_t size_bytes = 0;  // of the file, or how much of the device; 0: all of the device
  bool fallocated = false;  // the file's blocks are reserved and not written beforehand
  unsigned threads = 8;
  uint64_t block_bytes = 4096;
  unsigned iodepth = 1;  // writes in flight per thread, of the asynchronous engines
  bool random = false;   // where in its region a thread writes
  WriteSync sync = WriteSync::kOSync;
  WriteEngine engine = WriteEngine::kPsync;
  uint64_t runtime_ns = 0;  // 0: no limit
  std::shared_ptr<LiveCounts> live;

  [[nodiscard]] bool raw() const { return !device.empty(); }
  // What is opened.
  [[nodiscard]] std::string path() const;
};

// Throws a usage Error for what cannot be run; `where` begins its text.
void check_osync(const OsyncSpec& spec, const std::string& where);

}  // namespace stalltrace::workloads

// What a power cut interrupts: a load that makes things and tells which of them it was promised
// would last. The promises are kept outside the disk.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stalltrace::workloads {

struct PowercutFindings {
  uint64_t promised = 0;
  uint64_t lost = 0;                // promised and not there
  uint64_t torn = 0;                // there and not whole
  std::vector<std::string> faults;  // a line each, at most kMaxFaults

  static constexpr size_t kMaxFaults = 100;
};

class PowercutLoad {
 public:
  PowercutLoad() = default;
  PowercutLoad(const PowercutLoad&) = delete;
  PowercutLoad& operator=(const PowercutLoad&) = delete;
  virtual ~PowercutLoad() = default;

  // How many things are promised by now. A failed Error if the load has ended.
  virtual uint64_t promised() = 0;
  // A sync call is under way; true where that is not known.
  virtual bool is_syncing() = 0;
  // After the cut. Its processes are gone then.
  virtual void end() = 0;
  // After end(): the sync calls that had begun and not returned at `at_ns`; none if not known.
  [[nodiscard]] virtual std::optional<uint64_t> syncs_in_flight(uint64_t at_ns) const = 0;
  // After the power came back and the file system was mounted again; if it could not be mounted,
  // `mounted` is false and all is lost.
  virtual PowercutFindings check(bool mounted) = 0;
};

struct FileLoadSpec {
  std::string folder;  // exists and is empty
  std::string label;  // part of every file's contents, so that an older file's are not taken for it
  unsigned threads = 4;
  uint64_t file_bytes = 20480;
};

// The contents of a file are derived from its label and name.
std::vector<char> file_contents(const std::string& label, const std::string& name, uint64_t bytes);

enum class FileFate { kWhole, kLost, kTorn };
FileFate fate_of(const std::string& folder, const std::string& label, const std::string& name,
                 uint64_t bytes);

// Threads, in a process of their own, that make files, write and fsync them, as fs_mark does.
class FileLoad : public PowercutLoad {
 public:
  // Begins at once. Forks: the caller has one thread. Throws a failed Error.
  explicit FileLoad(const FileLoadSpec& spec);
  ~FileLoad() override;

  uint64_t promised() override;
  bool is_syncing() override;
  void end() override;
  [[nodiscard]] std::optional<uint64_t> syncs_in_flight(uint64_t at_ns) const override;
  PowercutFindings check(bool mounted) override;

  static constexpr unsigned kMaxThreads = 256;

 private:
  struct Shared;

  [[noreturn]] void child(pid_t parent);
  void work(unsigned thread);

  FileLoadSpec spec_;
  Shared* shared_ = nullptr;  // with the child
  pid_t pid_ = -1;
};

}  // namespace stalltrace::workloads

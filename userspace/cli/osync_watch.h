// Looks at the writers of `run osync` while they write: a line per second, as vmstat has it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "userspace/kernel/wait_class.h"
#include "workloads/live_counts.h"
#include "workloads/process.h"

namespace stalltrace::cli {

// What a writer is doing or waiting for.
enum class WriterState : uint8_t { kRun, kLock, kJournal, kQueue, kFlush, kDevice, kOther };
inline constexpr size_t kWriterStates = 7;
std::string_view name_of(WriterState state);

// How many writers of one look are in each state. A writer that waits for its write is where the
// disk is: behind a flush, while one is executed (see the contract's device.flush), else in the
// device, as far as that has requests; those for whom it has none are still in the queue.
std::array<unsigned, kWriterStates> states_of(const std::map<kernel::WaitClass, unsigned>& waits,
                                              bool flushing, unsigned in_device);

class OsyncWatch {
 public:
  struct Subject {
    pid_t pid = 0;
    std::vector<workloads::LoadThread> threads;
    std::vector<uint32_t> disks;          // those that execute what is written, mostly one
    std::vector<std::string> disk_names;  // "loop0"
    const workloads::LiveCounts* counts = nullptr;
    std::function<bool()> flushing;                // empty: not known
    std::function<void(const std::string&)> line;  // empty: nothing is printed
  };
  explicit OsyncWatch(Subject subject);
  OsyncWatch(const OsyncWatch&) = delete;
  OsyncWatch& operator=(const OsyncWatch&) = delete;
  ~OsyncWatch() { stop(); }

  // Ends with the line of the second that had begun, if most of it has passed.
  void stop();

  // After stop(): {"seconds":[{"at_s","run","lock",...,"mb_per_s","writes_per_s","flushes_per_s",
  // "writers_per_flush","procs_running","procs_blocked","in","cs","us","sy","id","wa"}],
  // "states":{"run":share,...},"waits":[{"class","share"}],"looks"}.
  [[nodiscard]] nlohmann::json figures() const;

 private:
  // The machine's own counts, as vmstat takes them.
  struct Machine {
    uint64_t user = 0, system = 0, idle = 0, iowait = 0;
    uint64_t interrupts = 0, switches = 0;
    uint64_t running = 0, blocked = 0;
    uint64_t flushes = 0;
    uint64_t writes = 0, bytes = 0;  // of the load
  };

  void watch();
  void look();
  void finish_second(uint64_t now_ns);
  [[nodiscard]] Machine machine() const;

  Subject subject_;
  uint64_t start_ns_ = 0;
  uint64_t second_ns_ = 0;  // when the one under way began
  Machine before_;
  unsigned looks_ = 0;  // in the second under way
  std::array<uint64_t, kWriterStates> seen_{};
  uint64_t all_looks_ = 0;
  std::array<uint64_t, kWriterStates> all_seen_{};
  std::map<kernel::WaitClass, uint64_t> all_waits_;
  nlohmann::json seconds_ = nlohmann::json::array();
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace stalltrace::cli

// Threads that sync files on demand: a file is wanted as soon as a write of it completed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "workloads/worker.h"

namespace stalltrace::workloads {

struct CompletedWrite {
  uint64_t id;
  uint64_t submitted_ns;
};

// A file's completed writes that no sync has covered yet.
class UnsyncedFile {
 public:
  // A writer that is this far ahead of the syncs waits for one: clients do not send without end
  // before they get an answer, and memory is bounded.
  static constexpr size_t kMaxUnsynced = 16384;

  UnsyncedFile(int fd, std::string path);

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // True if the file has to be queued for a sync now. Neither allocates nor waits.
  bool add(const CompletedWrite* writes, size_t count);
  // Waits while kMaxUnsynced writes are unsynced; false if the file's syncs have failed.
  bool wait_for_room();
  // For the syncing thread: everything that the next sync covers goes to `covered`.
  void take(std::vector<CompletedWrite>& covered);
  // After the sync: true if more has completed meanwhile, so that the file is to be queued again.
  bool synced();
  // The syncs of this file do not work: nobody waits for one any more.
  void fail();
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
  [[nodiscard]] uint64_t unsynced();

 private:
  int fd_;
  std::string path_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::vector<CompletedWrite> writes_;
  bool queued_ = false;
  std::atomic<bool> failed_ = false;
};

// The files that are waiting for a sync, in the order in which they began to.
class SyncQueue {
 public:
  explicit SyncQueue(size_t files);
  void push(UnsyncedFile& file);
  // The next file, or nullptr once the queue is closed and empty.
  UnsyncedFile* pop();
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<UnsyncedFile*> ring_;  // a file is in it at most once
  size_t head_ = 0;
  size_t used_ = 0;
  bool closed_ = false;
};

class SyncWorker : public Worker {
 public:
  SyncWorker(std::string name, unsigned index, const OpsLogSpec& log, SyncQueue& queue);

 protected:
  void run(uint64_t start_ns) override;

 private:
  SyncQueue& queue_;
  std::vector<CompletedWrite> covered_;
};

}  // namespace stalltrace::workloads

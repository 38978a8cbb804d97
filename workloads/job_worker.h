// One thread of a job: issues reads and writes as fio's thread of the same description does.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "workloads/async_engine.h"
#include "workloads/block_order.h"
#include "workloads/sync_worker.h"
#include "workloads/worker.h"

namespace stalltrace::workloads {

class JobWorker : public Worker {
 public:
  // Sets up its engine and buffers. Throws a refused Error where the kernel does not allow the
  // engine, a failed one without the memory. `job` and `stop` outlive it.
  JobWorker(std::string name, unsigned index, const OpsLogSpec& log, const JobSpec& job,
            uint64_t seed, StopSignal& stop);

  // To be called before the start: the file to work on, and where its writes are to be synced on
  // demand, its state and queue.
  void attach(int fd, const std::string& path);
  void attach_syncs(UnsyncedFile& unsynced, SyncQueue& queue);

  // For after join().
  [[nodiscard]] uint64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] uint64_t bytes_written() const { return bytes_written_; }
  [[nodiscard]] uint64_t reads() const { return reads_; }
  [[nodiscard]] uint64_t writes() const { return writes_; }

 protected:
  void run(uint64_t start_ns) override;

 private:
  struct Slot {
    uint64_t start_ns = 0;
    uint64_t offset = 0;
    bool write = false;
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  [[nodiscard]] bool going_on() const;
  [[nodiscard]] bool sync_on_demand() const { return unsynced_ != nullptr; }
  [[nodiscard]] bool sync_self() const {
    return job_.fsync_every > 0 || job_.fdatasync_every > 0 || job_.end_fsync;
  }
  bool sync_if_due();
  void sync(OpKind kind);
  Slot next_operation();
  void* buffer(unsigned slot);

  void issue_async();
  void issue_sync();
  bool submit_until_taken(const IoRequest& request, unsigned slot);
  void look();
  void wait_for_one();
  void reaped(int count, uint64_t end_ns);
  void completed(const Slot& slot, uint64_t id, int64_t result);
  void fail(const std::string& what, int error);
  void hand_over_completed();

  const JobSpec& job_;
  StopSignal& stop_;
  BlockOrder order_;
  uint64_t mix_state_;
  int fd_ = -1;
  std::string path_;
  UnsyncedFile* unsynced_ = nullptr;
  SyncQueue* queue_ = nullptr;

  std::unique_ptr<AsyncEngine> engine_;
  std::unique_ptr<void, Free> buffers_;
  size_t buffer_stride_;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_slots_;
  std::vector<Completion> completions_;
  std::vector<CompletedWrite> unacknowledged_;  // completed, not yet covered by a sync

  uint64_t deadline_ns_ = UINT64_MAX;
  uint64_t blocks_left_ = UINT64_MAX;
  uint64_t last_look_ns_ = 0;
  uint64_t issued_writes_ = 0;
  uint64_t synced_at_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t reads_ = 0;
  uint64_t writes_ = 0;
  bool failed_ = false;
};

}  // namespace stalltrace::workloads

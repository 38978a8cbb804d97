// fs_mark's work: threads make files, write them and sync them, as many a second as they can.
#pragma once

#include <barrier>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layout.h"
#include "workloads/scenario.h"
#include "workloads/shared_sync.h"
#include "workloads/worker.h"

namespace stalltrace::workloads {

// What the threads of one run share.
class FsmarkRun {
 public:
  // Makes a folder of its own in each directory of the spec (`paths`, to be announced first), so
  // that nothing is overwritten and all of it can be removed. Throws as FileSet::check does.
  explicit FsmarkRun(const FsmarkSpec& spec);

  [[nodiscard]] const std::vector<std::string>& folders() const { return folders_; }
  void make_folders();
  void remove_folders() noexcept;

  [[nodiscard]] const FsmarkSpec& spec() const { return spec_; }
  SharedSync& shared_sync() { return shared_sync_; }
  // All threads begin an iteration together.
  void begin_iteration() { barrier_.arrive_and_wait(); }
  void leave() { barrier_.arrive_and_drop(); }

  // By iteration, for after the run.
  [[nodiscard]] const std::vector<uint64_t>& starts_ns() const { return starts_ns_; }
  // How full the first directory's file system was before each iteration, and at the end.
  [[nodiscard]] const std::vector<unsigned>& use_percents() const { return use_percents_; }
  void note_use();

 private:
  struct Stamp {
    FsmarkRun* run;
    void operator()() noexcept;
  };

  const FsmarkSpec& spec_;
  std::vector<std::string> folders_;
  size_t made_ = 0;
  SharedSync shared_sync_;
  std::barrier<Stamp> barrier_;
  std::vector<uint64_t> starts_ns_;
  std::vector<unsigned> use_percents_;
};

class FsmarkWorker : public Worker {
 public:
  // One iteration's part of this thread.
  struct Share {
    uint64_t files = 0;
    uint64_t syncs = 0;  // sync calls, whatever their kind
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    uint64_t calls_ns = 0;  // of that in system calls; the rest is fs_mark's "App Overhead"
  };

  FsmarkWorker(std::string name, unsigned index, const OpsLogSpec& log, FsmarkRun& run,
               unsigned thread, const StopSignal& stop);

  [[nodiscard]] const std::vector<Share>& shares() const { return shares_; }

 protected:
  void run(uint64_t start_ns) override;

 private:
  void iterations();
  void iteration(unsigned number);
  bool make_file(unsigned number, unsigned file);
  bool sync_file(int fd);
  bool sync_afterwards();
  [[nodiscard]] std::string path_of(unsigned number, unsigned file) const;
  // Waits for a sync call that another thread makes.
  template <typename Wait>
  bool waited(const Wait& wait);
  // Times `call`, records it under `kind`; its result, or -errno.
  template <typename Call>
  int64_t timed(OpKind kind, const Call& call);

  FsmarkRun& run_;
  unsigned thread_;
  const StopSignal& stop_;
  std::vector<char> block_;
  std::vector<std::string> made_;  // in this iteration, where they are synced after it
  std::vector<Share> shares_;
  Share share_;
};

}  // namespace stalltrace::workloads

// One sync call for the files of many threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "workloads/layout.h"
#include "workloads/worker.h"

namespace stalltrace::workloads {

// Rounds of one call each. What was written before a round began is on disk when it has ended.
class SharedSync {
 public:
  using Call = std::function<int()>;  // 0, or a negative errno

  // Return when a round that began after this call has ended, with its result: once one failed,
  // all that follow fail, since what it lost no later one brings back.
  // The first of the waiting threads makes the call, as databases do it:
  int lead_or_follow(const Call& call);
  // Somebody else does:
  int follow();

  // The call of whoever makes all the rounds.
  int lead(const Call& call);

 private:
  void make(std::unique_lock<std::mutex>& lock, const Call& call);

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t begun_ = 0;
  uint64_t done_ = 0;
  int result_ = 0;
};

// Calls syncfs at intervals (from start to start), for all whose files wait for it.
class IntervalSync : public Worker {
 public:
  // `directories` must be there. Throws a failed Error if one cannot be opened.
  IntervalSync(unsigned index, const OpsLogSpec& log, const std::vector<std::string>& directories,
               uint64_t interval_ns, SharedSync& shared, StopSignal& stop);

  // When each call began, for after the run.
  [[nodiscard]] const std::vector<uint64_t>& calls_ns() const { return calls_ns_; }

 protected:
  void run(uint64_t start_ns) override;

 private:
  int sync_all();

  std::vector<File> file_systems_;  // a directory of each
  uint64_t interval_ns_;
  SharedSync& shared_;
  StopSignal& stop_;
  std::vector<uint64_t> calls_ns_;
};

}  // namespace stalltrace::workloads

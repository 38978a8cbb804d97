// The order of jobs that wait for those before them (fio's stonewall).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace stalltrace::workloads {

class Phases {
 public:
  // Before the start: one more thread that belongs to `phase`.
  void join(unsigned phase);
  // Returns when every thread of earlier phases has left. Whoever stops a load must see to it that
  // they do.
  void wait(unsigned phase);
  void leave(unsigned phase);

 private:
  [[nodiscard]] bool earlier_are_done(unsigned phase) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> running_;
};

}  // namespace stalltrace::workloads

// The threads of a load: parked until the load starts, stopped together, each with its own record.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "workloads/ops_log.h"
#include "workloads/scenario.h"

namespace stalltrace::workloads {

// Told once, seen by all. Threads notice between two operations; what is in flight is finished.
class StopSignal {
 public:
  void request();
  [[nodiscard]] bool requested() const { return requested_.load(std::memory_order_acquire); }
  // Sleeps until `time_ns`; false as soon as a stop is requested.
  bool sleep_until(uint64_t time_ns);

 private:
  std::atomic<bool> requested_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Where the threads wait for the start.
class StartGate {
 public:
  static constexpr uint64_t kAbandoned = 1;

  void open(uint64_t start_ns);
  // The load's start, or kAbandoned if it will never start.
  uint64_t wait();

 private:
  std::atomic<uint64_t> start_ns_ = 0;
};

class Worker {
 public:
  // `index` is at least 1 and unique in the load: the ids of the worker's operations contain it.
  Worker(std::string name, unsigned index, const OpsLogSpec& log);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  virtual ~Worker();

  // Starts the thread and returns when it is parked at the gate, with tid() known. `ended` is
  // called in the thread as its last act.
  void launch(StartGate& gate, std::function<void()> ended);
  void join();

  [[nodiscard]] const std::string& name() const { return name_; }
  // The following are for after join(), tid() also after launch().
  [[nodiscard]] pid_t tid() const { return recorder_.tid(); }
  [[nodiscard]] const OpRecorder& recorder() const { return recorder_; }
  [[nodiscard]] uint64_t errors() const { return errors_; }
  [[nodiscard]] const std::string& first_error() const { return first_error_; }
  [[nodiscard]] int first_errno() const { return first_errno_; }
  [[nodiscard]] uint64_t end_ns() const { return end_ns_; }

 protected:
  virtual void run(uint64_t start_ns) = 0;

  uint64_t next_id(unsigned slot = 0) { return make_op_id(index_, ++sequence_, slot); }
  void record(OpKind kind, uint64_t id, uint64_t start_ns, uint64_t end_ns, int64_t result) {
    recorder_.add({.id = id,
                   .start_ns = start_ns,
                   .end_ns = end_ns,
                   .reap_from_ns = end_ns,
                   .result = result,
                   .kind = kind});
  }
  OpRecorder& recorder_ref() { return recorder_; }
  // `error` is an errno; what failed is told as "NAME: WHAT: text of the error".
  void add_error(const std::string& what, int error);

 private:
  std::string name_;
  unsigned index_;
  uint64_t sequence_ = 0;
  OpRecorder recorder_;
  uint64_t errors_ = 0;
  std::string first_error_;
  int first_errno_ = 0;
  uint64_t end_ns_ = 0;
  std::thread thread_;
};

}  // namespace stalltrace::workloads

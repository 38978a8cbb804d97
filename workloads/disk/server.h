// The file behind the disk, served through libfuse's low-level interface. Requests are stamped when
// they arrive and answered when their service time is over.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "workloads/disk/schedule.h"
#include "workloads/disk/store.h"
#include "workloads/disk/timer_queue.h"
#include "workloads/disk/truth_log.h"

struct fuse_req;
struct fuse_session;

namespace stalltrace::disk {

struct ServiceTimes {
  uint64_t read_ns;
  uint64_t write_ns;
  uint64_t flush_ns;
};

class Server {
 public:
  // `truth` may be null. Throws a refused Error.
  Server(uint64_t size_bytes, const ServiceTimes& times, Schedule schedule,
         const TruthWriter* truth);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Throws a refused Error if FUSE cannot be had. From here on requests wait for run().
  void mount(const std::string& folder, const std::string& label);
  [[nodiscard]] uint64_t created_monotonic_ns() const { return created_ns_; }

  // Returns when the file system is unmounted.
  void run();

  // From any thread.
  void set_schedule(Schedule schedule);
  // Answers what waits, and from now on everything, at once.
  void hurry();

 private:
  friend struct ServerOperations;

  struct Request {
    fuse_req* handle;
    Op op;
    uint64_t start_ns;
    uint64_t offset;
    uint64_t bytes;
  };

  [[nodiscard]] uint64_t delay_ns(Op op, uint64_t arrival_ns) const;
  void serve(const Request& request);
  void complete(const Request& request) const;

  Store store_;
  ServiceTimes times_;
  const TruthWriter* truth_;
  uint64_t created_ns_ = 0;
  std::atomic<bool> hurried_{false};
  std::mutex schedule_mutex_;
  // Readers take no lock, so a schedule once in force is kept until the end.
  std::vector<std::unique_ptr<const Schedule>> schedules_;
  std::atomic<const Schedule*> schedule_{nullptr};
  fuse_session* session_ = nullptr;
  TimerQueue queue_;
};

}  // namespace stalltrace::disk

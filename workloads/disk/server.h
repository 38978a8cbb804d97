// The file behind the disk, served through libfuse's low-level interface. Requests are stamped when
// they arrive and answered when their service time is over.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "workloads/disk/medium.h"
#include "workloads/disk/profile.h"
#include "workloads/disk/schedule.h"
#include "workloads/disk/service_model.h"
#include "workloads/disk/timer_queue.h"
#include "workloads/disk/truth_log.h"

struct fuse_req;
struct fuse_session;

namespace stalltrace::disk {

class Server {
 public:
  // `profile` is resolve()'s of the options. `truth` may be null. Throws a refused Error.
  Server(const DiskOptions& options, const Profile& profile, Schedule schedule,
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
  // From this instant on every request fails, those under way too. None if that is so already, or
  // if no completed write waits for a flush and `only_undrained`. Without a seed each cut has
  // another one. From one thread at a time.
  std::optional<CutOutcome> cut(std::optional<uint64_t> seed, bool only_undrained);
  // False if the power is on.
  bool power_on() { return medium_.power_on(); }
  [[nodiscard]] bool has_power() const { return medium_.has_power(); }
  // What is cached becomes stable.
  void drain() { medium_.drain(); }

 private:
  friend struct ServerOperations;

  struct Request {
    fuse_req* handle;
    Op op;
    uint64_t start_ns;
    uint64_t offset;
    uint64_t bytes;
    Medium::Ticket ticket;
  };

  [[nodiscard]] const Store& store() const { return medium_.store(); }
  // `drained`: what a flush has to write, or a write has to make room for.
  [[nodiscard]] uint64_t due_ns(const Request& request, const std::vector<Extent>& drained);
  [[nodiscard]] uint64_t plain_time_ns(Op op) const;
  void serve(const Request& request, const std::vector<Extent>& drained = {});
  void complete(const Request& request);
  void finish_delayed(const Request& request);

  Medium medium_;
  const Profile profile_;
  const uint64_t seed_;
  uint64_t cuts_ = 0;
  std::optional<ServiceModel> model_;  // where there is a profile
  const TruthWriter* truth_;
  std::array<std::atomic<uint64_t>, kOpNames.size()> delayed_{};  // requests under way, by Op
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

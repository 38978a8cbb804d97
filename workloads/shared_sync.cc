#include "workloads/shared_sync.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"

namespace stalltrace::workloads {

void SharedSync::make(std::unique_lock<std::mutex>& lock, const Call& call) {
  ++begun_;
  lock.unlock();
  int result = call();
  lock.lock();
  if (result_ == 0) result_ = result;
  done_ = begun_;
  changed_.notify_all();
}

int SharedSync::lead_or_follow(const Call& call) {
  std::unique_lock lock(mutex_);
  // A call that is under way began before our data was there: the one after it is ours.
  uint64_t wanted = begun_ + 1;
  while (done_ < wanted) {
    if (begun_ != done_) {
      changed_.wait(lock);
    } else {
      make(lock, call);
    }
  }
  return result_;
}

int SharedSync::follow() {
  std::unique_lock lock(mutex_);
  uint64_t wanted = begun_ + 1;
  changed_.wait(lock, [&] { return done_ >= wanted; });
  return result_;
}

int SharedSync::lead(const Call& call) {
  std::unique_lock lock(mutex_);
  make(lock, call);
  return result_;
}

IntervalSync::IntervalSync(unsigned index, const OpsLogSpec& log,
                           const std::vector<std::string>& directories, uint64_t interval_ns,
                           SharedSync& shared, StopSignal& stop)
    : Worker("fsmark-sync", index, log), interval_ns_(interval_ns), shared_(shared), stop_(stop) {
  std::vector<dev_t> known;
  for (const std::string& directory : directories) {
    File file(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat status {};
    if (file.get() < 0 || fstat(file.get(), &status) != 0) {
      throw failed_error("cannot open {}: {}", directory, std::strerror(errno));
    }
    if (std::find(known.begin(), known.end(), status.st_dev) != known.end()) continue;
    known.push_back(status.st_dev);
    file_systems_.push_back(std::move(file));
  }
}

int IntervalSync::sync_all() {
  int first_error = 0;
  for (const File& file : file_systems_) {
    uint64_t start_ns = monotonic_ns();
    int result = syncfs(file.get()) == 0 ? 0 : -errno;
    record(OpKind::kSyncfs, next_id(), start_ns, monotonic_ns(), result);
    calls_ns_.push_back(start_ns);
    if (result != 0 && first_error == 0) first_error = result;
  }
  if (first_error != 0) add_error("syncfs", -first_error);
  return first_error;
}

void IntervalSync::run(uint64_t start_ns) {
  uint64_t next_ns = start_ns + interval_ns_;
  while (stop_.sleep_until(next_ns)) {
    uint64_t begun_ns = monotonic_ns();
    shared_.lead([this] { return sync_all(); });
    next_ns = std::max(begun_ns + interval_ns_, monotonic_ns());
  }
}

}  // namespace stalltrace::workloads

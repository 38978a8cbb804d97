#include "workloads/sync_worker.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "userspace/base/clock.h"

namespace stalltrace::workloads {
namespace {

// A writer adds all that it reaped at once, on top of what is allowed.
constexpr size_t kCapacity = UnsyncedFile::kMaxUnsynced + kMaxDepth;

}  // namespace

UnsyncedFile::UnsyncedFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
  writes_.reserve(kCapacity);
}

bool UnsyncedFile::add(const CompletedWrite* writes, size_t count) {
  std::scoped_lock lock(mutex_);
  // Nothing acknowledges the writes of a file that cannot be synced.
  if (failed()) return false;
  writes_.insert(writes_.end(), writes, writes + count);
  return !std::exchange(queued_, true);
}

bool UnsyncedFile::wait_for_room() {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return writes_.size() < kMaxUnsynced || failed(); });
  return !failed();
}

void UnsyncedFile::take(std::vector<CompletedWrite>& covered) {
  {
    std::scoped_lock lock(mutex_);
    covered.clear();
    covered.swap(writes_);
  }
  room_.notify_all();
}

bool UnsyncedFile::synced() {
  std::scoped_lock lock(mutex_);
  queued_ = !writes_.empty();
  return queued_;
}

void UnsyncedFile::fail() {
  {
    std::scoped_lock lock(mutex_);
    failed_.store(true, std::memory_order_release);
  }
  room_.notify_all();
}

uint64_t UnsyncedFile::unsynced() {
  std::scoped_lock lock(mutex_);
  return writes_.size();
}

SyncQueue::SyncQueue(size_t files) : ring_(files) {}

void SyncQueue::push(UnsyncedFile& file) {
  {
    std::scoped_lock lock(mutex_);
    ring_[(head_ + used_++) % ring_.size()] = &file;
  }
  changed_.notify_one();
}

UnsyncedFile* SyncQueue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return used_ > 0 || closed_; });
  if (used_ == 0) return nullptr;
  UnsyncedFile* file = ring_[head_];
  head_ = (head_ + 1) % ring_.size();
  --used_;
  return file;
}

void SyncQueue::close() {
  {
    std::scoped_lock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

SyncWorker::SyncWorker(std::string name, unsigned index, const OpsLogSpec& log, SyncQueue& queue)
    : Worker(std::move(name), index, log), queue_(queue) {
  covered_.reserve(kCapacity);
}

void SyncWorker::run(uint64_t /*start_ns*/) {
  while (UnsyncedFile* file = queue_.pop()) {
    // Taken before the sync begins: a write that completes during it is not covered.
    file->take(covered_);
    uint64_t start = monotonic_ns();
    int result = fdatasync(file->fd()) == 0 ? 0 : -errno;
    uint64_t end = monotonic_ns();
    record(OpKind::kFdatasync, next_id(), start, end, result);
    if (result < 0) {
      // The data may be lost: acknowledging it after a later, successful sync would be a lie.
      add_error("fdatasync of " + file->path(), -result);
      file->fail();
      continue;
    }
    for (const CompletedWrite& write : covered_) {
      record(OpKind::kAck, write.id, write.submitted_ns, end, 0);
    }
    if (file->synced()) queue_.push(*file);
  }
}

}  // namespace stalltrace::workloads

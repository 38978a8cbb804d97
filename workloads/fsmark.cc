#include "workloads/fsmark.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

// fs_mark changes the subdirectory every so often where it is not told how many files go into one.
constexpr uint64_t kSubdirNs = 180'000'000'000;

unsigned use_percent(const std::string& directory) {
  struct statfs status {};
  if (statfs(directory.c_str(), &status) != 0) return 0;
  uint64_t used = status.f_blocks - status.f_bfree;
  uint64_t usable = used + status.f_bavail;
  return usable > 0 ? static_cast<unsigned>(100 * used / usable) : 0;
}

std::string subdir_of(const std::string& folder, uint64_t number) {
  return fmt::format("{}/{:02x}", folder, number);
}

// Changes to the folder's entries are on disk when the call that made them returns.
void make_dirsync(const std::string& folder) {
  File file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  int flags = 0;
  if (file.get() < 0 || ioctl(file.get(), FS_IOC_GETFLAGS, &flags) != 0) {
    throw failed_error("cannot read the flags of {}: {}", folder, std::strerror(errno));
  }
  flags |= FS_DIRSYNC_FL;
  if (ioctl(file.get(), FS_IOC_SETFLAGS, &flags) != 0) {
    throw usage_error("--sync dirsync: {} cannot be made synchronous: {}", folder,
                      std::strerror(errno));
  }
}

// Runs `body` in a process of its own that shares our memory, as vfork's does: this thread sleeps
// until it has ended, so its stack and thread-local storage are the child's meanwhile.
void in_a_process(const std::function<void()>& body) {
  constexpr size_t kStack = size_t{256} << 10U;
  auto stack = std::make_unique<std::byte[]>(kStack);
  auto enter = [](void* argument) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (*static_cast<const std::function<void()>*>(argument))();
    _exit(0);
    return 0;
  };
  pid_t pid = clone(enter, stack.get() + kStack, CLONE_VM | CLONE_VFORK | SIGCHLD,
                    const_cast<std::function<void()>*>(&body));
  if (pid < 0) return;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

int open_flags(SyncCall call) {
  int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
  if (call == SyncCall::kOSync) flags |= O_SYNC;
  if (call == SyncCall::kODsync) flags |= O_DSYNC;
  return flags;
}

}  // namespace

void FsmarkRun::Stamp::operator()() noexcept {
  run->note_use();
  run->starts_ns_.push_back(monotonic_ns());
}

FsmarkRun::FsmarkRun(const FsmarkSpec& spec) : spec_(spec), barrier_(spec.threads, Stamp{this}) {
  starts_ns_.reserve(spec.loops + 1);
  use_percents_.reserve(spec.loops + 2);
  for (const std::string& directory : spec.directories) {
    folders_.push_back(fmt::format("{}/fsmark-{}", directory, getpid()));
  }
}

void FsmarkRun::note_use() {
  use_percents_.push_back(use_percent(folders_.front()));
}

void FsmarkRun::make_folders() {
  for (const std::string& folder : folders_) {
    if (mkdir(folder.c_str(), 0755) != 0) {
      throw usage_error("cannot make {}: {}", folder, std::strerror(errno));
    }
    ++made_;
    if (spec_.sync.call == SyncCall::kDirsync) make_dirsync(folder);
    for (unsigned i = 0; i < spec_.subdirs; ++i) {
      if (mkdir(subdir_of(folder, i).c_str(), 0755) != 0) {
        throw failed_error("cannot make {}: {}", subdir_of(folder, i), std::strerror(errno));
      }
    }
    File handle(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (handle.get() < 0 || syncfs(handle.get()) != 0) {
      throw failed_error("cannot sync {}: {}", folder, std::strerror(errno));
    }
  }
}

void FsmarkRun::remove_folders() noexcept {
  for (size_t i = 0; i < made_; ++i) {
    std::error_code ignored;
    std::filesystem::remove_all(folders_[i], ignored);
  }
  made_ = 0;
}

FsmarkWorker::FsmarkWorker(std::string name, unsigned index, const OpsLogSpec& log, FsmarkRun& run,
                           unsigned thread, const StopSignal& stop)
    : Worker(std::move(name), index, log),
      run_(run),
      thread_(thread),
      stop_(stop),
      block_(run.spec().write_bytes) {
  shares_.reserve(run.spec().loops);
  if (run.spec().method != 1) made_.reserve(run.spec().files);
}

void FsmarkWorker::run(uint64_t /*start_ns*/) {
  if (run_.spec().processes) {
    in_a_process([this] {
      prctl(PR_SET_NAME, name().c_str());
      recorder_ref().set_tid(gettid());
      iterations();
    });
  } else {
    iterations();
  }
}

void FsmarkWorker::iterations() {
  for (unsigned number = 0; number < run_.spec().loops; ++number) {
    run_.begin_iteration();
    if (stop_.requested() || errors() > 0) break;
    iteration(number);
  }
  run_.leave();
}

void FsmarkWorker::iteration(unsigned number) {
  const FsmarkSpec& spec = run_.spec();
  made_.clear();
  share_ = {};
  share_.start_ns = monotonic_ns();
  bool going_on = true;
  for (unsigned file = 0; file < spec.files && going_on && !stop_.requested(); ++file) {
    going_on = make_file(number, file);
    if (going_on) ++share_.files;
  }
  if (going_on) sync_afterwards();
  share_.end_ns = monotonic_ns();
  shares_.push_back(share_);
}

template <typename Call>
int64_t FsmarkWorker::timed(OpKind kind, const Call& call) {
  uint64_t id = next_id();
  uint64_t start_ns = monotonic_ns();
  int64_t result = call();
  if (result < 0) result = -errno;
  uint64_t end_ns = monotonic_ns();
  share_.calls_ns += end_ns - start_ns;
  record(kind, id, start_ns, end_ns, result);
  return result;
}

template <typename Wait>
bool FsmarkWorker::waited(const Wait& wait) {
  uint64_t start_ns = monotonic_ns();
  bool led = false;
  int result = wait(led);
  // No call of ours, and yet no overhead of the program.
  if (!led) share_.calls_ns += monotonic_ns() - start_ns;
  if (result < 0) add_error("a sync for all", -result);
  return result >= 0;
}

std::string FsmarkWorker::path_of(unsigned number, unsigned file) const {
  const FsmarkSpec& spec = run_.spec();
  std::string folder = run_.folders()[thread_ % run_.folders().size()];
  if (spec.subdirs > 0) {
    uint64_t turn = spec.files_per_subdir > 0
                        ? (uint64_t{number} * spec.files + file) / spec.files_per_subdir
                        : monotonic_ns() / kSubdirNs;
    folder = subdir_of(folder, turn % spec.subdirs);
  }
  // As long as fs_mark's; a scrambled beginning, so that they spread over a directory's index.
  uint64_t scrambled =
      (uint64_t{thread_} << 48U | uint64_t{number} << 32U | file) * 0x9e3779b97f4a7c15ULL;
  return fmt::format("{}/{:016x}~~~~{:04}-{:06}-{:08}", folder, scrambled, thread_, number, file);
}

bool FsmarkWorker::make_file(unsigned number, unsigned file) {
  const FsmarkSpec& spec = run_.spec();
  std::string path = path_of(number, file);
  uint64_t begun_ns = monotonic_ns();
  int64_t fd =
      timed(OpKind::kOpen, [&] { return open(path.c_str(), open_flags(spec.sync.call), 0666); });
  if (fd < 0) {
    add_error("open " + path, static_cast<int>(-fd));
    return false;
  }
  bool good = true;
  for (uint64_t done = 0; done < spec.file_bytes && good;) {
    size_t bytes = std::min<uint64_t>(block_.size(), spec.file_bytes - done);
    int64_t written =
        timed(OpKind::kWrite, [&] { return write(static_cast<int>(fd), block_.data(), bytes); });
    good = written > 0;
    if (!good) add_error("write " + path, static_cast<int>(-written));
    done += good ? static_cast<uint64_t>(written) : 0;
  }
  if (good && spec.method == 1) {
    good = sync_file(static_cast<int>(fd));
    if (good) record(OpKind::kAck, next_id(), begun_ns, monotonic_ns(), 0);
  }
  timed(OpKind::kClose, [&] { return close(static_cast<int>(fd)); });
  if (spec.method > 1) made_.push_back(std::move(path));
  return good;
}

bool FsmarkWorker::sync_file(int fd) {
  auto counted = [&](OpKind kind, const auto& call) {
    ++share_.syncs;
    int64_t result = timed(kind, call);
    if (result < 0) add_error(std::string(op_kind_name(kind)), static_cast<int>(-result));
    return result >= 0;
  };
  switch (run_.spec().sync.call) {
    case SyncCall::kFsync:
      return counted(OpKind::kFsync, [fd] { return fsync(fd); });
    case SyncCall::kFdatasync:
      return counted(OpKind::kFdatasync, [fd] { return fdatasync(fd); });
    case SyncCall::kSyncfs:
      return counted(OpKind::kSyncfs, [fd] { return syncfs(fd); });
    case SyncCall::kSyncFileRange:
      return counted(OpKind::kSyncFileRange, [fd] {
        return sync_file_range(
            fd, 0, 0,
            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
      });
    case SyncCall::kGroup:
      return waited([&](bool& led) {
        return run_.shared_sync().lead_or_follow([&] {
          led = true;
          return counted(OpKind::kSyncfs, [fd] { return syncfs(fd); }) ? 0 : -EIO;
        });
      });
    case SyncCall::kSyncfsEvery:
      return waited([&](bool&) { return run_.shared_sync().follow(); });
    case SyncCall::kOSync:
    case SyncCall::kODsync:
    case SyncCall::kDirsync:
      return true;
  }
  return true;
}

bool FsmarkWorker::sync_afterwards() {
  unsigned method = run_.spec().method;
  if (method < 2 || made_.empty()) return true;
  if (method == 2 || method == 4 || method == 6) {
    ++share_.syncs;
    timed(OpKind::kSync, [] {
      sync();
      return 0;
    });
  }
  if (method == 2) made_.erase(made_.begin(), made_.end() - 1);
  if (method == 3 || method == 4) std::reverse(made_.begin(), made_.end());
  for (const std::string& path : made_) {
    int64_t fd = timed(OpKind::kOpen, [&] { return open(path.c_str(), O_RDWR | O_CLOEXEC); });
    if (fd < 0) {
      add_error("open " + path, static_cast<int>(-fd));
      return false;
    }
    bool good = sync_file(static_cast<int>(fd));
    timed(OpKind::kClose, [&] { return close(static_cast<int>(fd)); });
    if (!good || stop_.requested()) return good;
  }
  return true;
}

}  // namespace stalltrace::workloads

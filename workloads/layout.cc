#include "workloads/layout.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "userspace/base/error.h"
#include "userspace/base/units.h"

namespace stalltrace::workloads {
namespace {

// On every file that a load has made.
constexpr const char* kMark = "user.stalltrace.load";

constexpr size_t kFillBlock = size_t{1} << 20U;

std::string directory_of(const std::string& path) {
  std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

Error file_error(const std::string& path, std::string_view action, int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return refused_error("no permission to {} {}: run as root or choose another directory",
                           action, path);
    case EROFS:
      return usage_error("cannot {} {}: the file system is mounted read-only", action, path);
    default:
      return failed_error("cannot {} {}: {}", action, path, std::strerror(error));
  }
}

// What the file system of `directory` can still give us.
uint64_t available_bytes(const std::string& directory) {
  struct statvfs status {};
  if (statvfs(directory.c_str(), &status) != 0) throw file_error(directory, "examine", errno);
  // The blocks that ext4 reserves are root's to use.
  uint64_t blocks = geteuid() == 0 ? status.f_bfree : status.f_bavail;
  return blocks * status.f_frsize;
}

Error no_space(const std::string& directory, uint64_t needed, uint64_t available) {
  return failed_error(
      "not enough space in {}: {} needed, {} available; make room, or choose a smaller --size",
      directory, format_size(needed), format_size(available));
}

Error in_use(const std::string& path) {
  return usage_error("{} is in use by another load: wait for its end or name another directory",
                     path);
}

bool is_locked(const std::string& path) {
  File file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return file.get() >= 0 && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// True if the file is there and can be used as it is; then with its size.
bool check_existing(const FileSpec& spec, uint64_t& bytes) {
  struct stat status {};
  if (stat(spec.path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    throw file_error(spec.path, "examine", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw usage_error("{} exists and is not a regular file: remove it or name another directory",
                      spec.path);
  }
  bytes = static_cast<uint64_t>(status.st_size);
  if (spec.made_later) {
    throw usage_error("{} exists, but the job is to create it: remove it or name another directory",
                      spec.path);
  }
  if (bytes < spec.bytes && !spec.append) {
    if (is_locked(spec.path)) throw in_use(spec.path);  // it is being laid out
    throw usage_error("{} exists with {}, but {} are needed: remove it or name another directory",
                      spec.path, format_size(bytes), format_size(spec.bytes));
  }
  // A load overwrites its files: only those that a load has made.
  char mark = 0;
  if (!spec.only_read && lgetxattr(spec.path.c_str(), kMark, &mark, 1) < 0) {
    throw usage_error(
        "{} is there already, and no load of ours has made it: it would be overwritten; move it "
        "away or name another directory",
        spec.path);
  }
  return true;
}

// One for each path: as large as the largest, filled if any of them is, and only read if all are.
std::vector<FileSpec> merged_by_path(const std::vector<FileSpec>& specs) {
  std::vector<FileSpec> files;
  std::map<std::string, size_t> places;
  for (const FileSpec& spec : specs) {
    auto [place, fresh] = places.emplace(spec.path, files.size());
    if (fresh) {
      files.push_back(spec);
      continue;
    }
    FileSpec& file = files[place->second];
    file.bytes = std::max(file.bytes, spec.bytes);
    if (spec.fill == Fill::kWrite) file.fill = Fill::kWrite;
    file.append = file.append && spec.append;
    file.only_read = file.only_read && spec.only_read;
    file.made_later = file.made_later && spec.made_later;
    file.may_create = file.may_create || spec.may_create;
  }
  return files;
}

// False: cancelled. An errno goes to `error`.
bool write_fully(int fd, const FileSpec& spec, int& error,
                 const std::function<bool(uint64_t)>& progress) {
  std::vector<char> block(kFillBlock);
  std::independent_bits_engine<std::minstd_rand, 8, unsigned char> random;
  std::generate(block.begin(), block.end(), [&] { return static_cast<char>(random()); });
  for (uint64_t done = 0; done < spec.bytes;) {
    ssize_t written = pwrite(fd, block.data(), std::min<uint64_t>(kFillBlock, spec.bytes - done),
                             static_cast<off_t>(done));
    if (written < 0) {
      if (errno == EINTR) continue;
      error = errno;
      return true;
    }
    done += static_cast<uint64_t>(written);
    if (!progress(done)) return false;
  }
  // With delayed allocation, ENOSPC may come only here.
  if (fdatasync(fd) != 0) error = errno;
  return true;
}

bool fill_file(int fd, const FileSpec& spec, int& error,
               const std::function<bool(uint64_t)>& progress) {
  error = 0;
  auto bytes = static_cast<off_t>(spec.bytes);
  switch (spec.fill) {
    case Fill::kPreallocate:
    case Fill::kKeepSize: {
      int mode = spec.fill == Fill::kKeepSize ? FALLOC_FL_KEEP_SIZE : 0;
      if (fallocate(fd, mode, 0, bytes) == 0) return progress(spec.bytes);
      if (errno == EOPNOTSUPP) break;
      error = errno;
      return true;
    }
    case Fill::kTruncate:
      if (ftruncate(fd, bytes) != 0) error = errno;
      return error != 0 || progress(spec.bytes);
    case Fill::kNone:
      return progress(spec.bytes);
    case Fill::kWrite:
      break;
  }
  return write_fully(fd, spec, error, progress);
}

void sync_directories(const std::vector<FileSpec>& specs) {
  std::vector<std::string> directories;
  for (const FileSpec& spec : specs) directories.push_back(directory_of(spec.path));
  std::sort(directories.begin(), directories.end());
  directories.erase(std::unique(directories.begin(), directories.end()), directories.end());
  for (const std::string& directory : directories) {
    File handle(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (handle.get() < 0 || syncfs(handle.get()) != 0) throw file_error(directory, "sync", errno);
  }
}

File open_job_file(const std::string& path, const JobSpec& job, int flags) {
  if (job.open_sync != OpenSync::kNone) {
    flags |= job.open_sync == OpenSync::kSync ? O_SYNC : O_DSYNC;
  }
  File file = open_for_load(path, job.writes(), job.reads(), job.direct, job.min_block(), flags);
  // Hints: a file system that has no use for them is none the worse.
  if (job.drop_cache) posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (job.advise) {
    posix_fadvise(file.get(), 0, 0, job.random() ? POSIX_FADV_RANDOM : POSIX_FADV_SEQUENTIAL);
  }
  return file;
}

}  // namespace

void check_directory(const std::string& directory) {
  if (directory.empty()) throw usage_error("--dir: name a directory");
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) {
    if (errno == ENOENT) {
      throw usage_error("no directory {}: create it, or name another", directory);
    }
    if (errno == ENOTDIR) {
      throw usage_error("{} is not a directory: name one with --dir", directory);
    }
    throw file_error(directory, "use", errno);
  }
  if (!S_ISDIR(status.st_mode)) {
    throw usage_error("{} is not a directory: name one with --dir", directory);
  }
}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

int File::release() {
  return std::exchange(fd_, -1);
}

void FileSet::check(const std::vector<FileSpec>& specs) {
  missing_.clear();
  sizes_before_.clear();
  reused_ = 0;
  std::map<std::string, uint64_t> needed;
  for (const FileSpec& spec : merged_by_path(specs)) {
    check_directory(directory_of(spec.path));
    uint64_t bytes = 0;
    if (check_existing(spec, bytes)) {
      if (spec.append) needed[directory_of(spec.path)] += spec.bytes;
      sizes_before_[spec.path] = bytes;
      lock(spec.path);
      ++reused_;
      continue;
    }
    if (!spec.may_create) {
      throw usage_error("{} is not there, and allow_file_create=0 forbids to make it", spec.path);
    }
    missing_.push_back(spec);
    needed[directory_of(spec.path)] += spec.bytes;
  }
  for (const auto& [directory, bytes] : needed) {
    uint64_t available = available_bytes(directory);
    if (bytes > available) throw no_space(directory, bytes, available);
  }
}

uint64_t FileSet::size_before(const std::string& path) const {
  auto found = sizes_before_.find(path);
  return found == sizes_before_.end() ? 0 : found->second;
}

bool FileSet::create(const LayoutHooks& hooks) {
  std::vector<std::string> paths;
  for (const FileSpec& spec : missing_) paths.push_back(spec.path);
  hooks.announce(paths);
  try {
    if (fill_all(hooks)) {
      sync_directories(missing_);
      return true;
    }
  } catch (...) {
    remove_created();
    throw;
  }
  remove_created();
  return false;
}

bool FileSet::fill_all(const LayoutHooks& hooks) {
  uint64_t total = 0;
  for (const FileSpec& spec : missing_) total += spec.bytes;
  uint64_t done = 0;
  for (const FileSpec& spec : missing_) {
    if (spec.made_later) {
      created_.push_back(spec.path);
      continue;
    }
    File file(open(spec.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.get() < 0) throw file_error(spec.path, "create", errno);
    created_.push_back(spec.path);
    lock(spec.path);
    // Without extended attributes it is not marked, and will not be used again.
    fsetxattr(file.get(), kMark, "1", 1, 0);
    int error = 0;
    bool going_on = fill_file(file.get(), spec, error, [&](uint64_t of_this_file) {
      return hooks.progress(done + of_this_file, total);
    });
    if (error == ENOSPC || error == EDQUOT) {
      std::string directory = directory_of(spec.path);
      throw no_space(directory, total - done, available_bytes(directory));
    }
    if (error != 0) throw file_error(spec.path, "lay out", error);
    if (!going_on) return false;
    done += spec.bytes;
  }
  return true;
}

void FileSet::lock(const std::string& path) {
  File file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) throw file_error(path, "open", errno);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw in_use(path);
  }
  locks_.push_back(std::move(file));
}

void FileSet::remove_created() noexcept {
  for (const std::string& path : created_) unlink(path.c_str());
  created_.clear();
}

File open_for_load(const std::string& path, bool write, bool read, bool direct,
                   uint64_t block_bytes, int flags) {
  int mode = write && read ? O_RDWR : write ? O_WRONLY : O_RDONLY;
  mode |= O_CLOEXEC | O_NOFOLLOW | (direct ? O_DIRECT : 0) | flags;
  File file(open(path.c_str(), mode, 0644));
  if (file.get() < 0) {
    if (errno == EINVAL && direct) {
      throw usage_error("the file system of {} has no direct I/O (O_DIRECT): use another directory",
                        path);
    }
    throw file_error(path, "open", errno);
  }
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (direct && statx(file.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0 && status.stx_dio_offset_align != 0 &&
      block_bytes % status.stx_dio_offset_align != 0) {
    throw usage_error("a block size of {} bytes: direct I/O on {} needs a multiple of {}",
                      block_bytes, path, status.stx_dio_offset_align);
  }
#else
  (void)block_bytes;
#endif
  return file;
}

File open_for_load(const std::string& path, const JobSpec& job) {
  return open_job_file(path, job, 0);
}

File create_for_load(const std::string& path, const JobSpec& job) {
  File file = open_job_file(path, job, O_CREAT | O_EXCL);
  fsetxattr(file.get(), kMark, "1", 1, 0);
  return file;
}

bool is_direct(int fd) {
  if ((fcntl(fd, F_GETFL) & O_DIRECT) == 0) return false;
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    return status.stx_dio_offset_align != 0;
  }
#endif
  return true;
}

}  // namespace stalltrace::workloads

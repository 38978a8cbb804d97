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
  return failed_error("not enough space in {}: {} needed, {} available; lower --size or --jobs",
                      directory, format_size(needed), format_size(available));
}

// True if the file is there and can be used as it is.
bool check_existing(const FileSpec& spec) {
  struct stat status {};
  if (stat(spec.path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    throw file_error(spec.path, "examine", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw usage_error("{} exists and is not a regular file: remove it or name another directory",
                      spec.path);
  }
  if (static_cast<uint64_t>(status.st_size) < spec.bytes) {
    throw usage_error("{} exists with {}, but {} are needed: remove it or name another directory",
                      spec.path, format_size(static_cast<uint64_t>(status.st_size)),
                      format_size(spec.bytes));
  }
  // A load overwrites its files: only those that a load has made.
  char mark = 0;
  if (lgetxattr(spec.path.c_str(), kMark, &mark, 1) < 0) {
    throw usage_error(
        "{} is there already, and no load of ours has made it: it would be overwritten; move it "
        "away or name another directory",
        spec.path);
  }
  return true;
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
  if (spec.fill == Fill::kSparse) {
    if (ftruncate(fd, static_cast<off_t>(spec.bytes)) != 0) error = errno;
    return error != 0 || progress(spec.bytes);
  }
  if (spec.fill == Fill::kPreallocate) {
    if (fallocate(fd, 0, 0, static_cast<off_t>(spec.bytes)) == 0) return progress(spec.bytes);
    if (errno != EOPNOTSUPP) {
      error = errno;
      return true;
    }
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

}  // namespace

void check_directory(const std::string& directory) {
  if (directory.empty()) throw usage_error("--dir: name a directory");
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) {
    if (errno == ENOENT) {
      throw usage_error("no directory {}: create it, or name another with --dir", directory);
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
  reused_ = 0;
  std::map<std::string, uint64_t> needed;
  std::set<std::string> seen;
  for (const FileSpec& spec : specs) {
    if (!seen.insert(spec.path).second) continue;
    check_directory(directory_of(spec.path));
    if (check_existing(spec)) {
      lock(spec.path);
      ++reused_;
      continue;
    }
    missing_.push_back(spec);
    needed[directory_of(spec.path)] += spec.bytes;
  }
  for (const auto& [directory, bytes] : needed) {
    uint64_t available = available_bytes(directory);
    if (bytes > available) throw no_space(directory, bytes, available);
  }
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
    throw usage_error("{} is in use by another load: wait for its end or name another directory",
                      path);
  }
  locks_.push_back(std::move(file));
}

void FileSet::remove_created() noexcept {
  for (const std::string& path : created_) unlink(path.c_str());
  created_.clear();
}

File open_for_load(const std::string& path, bool write, bool read, bool direct,
                   uint64_t block_bytes) {
  int mode = write && read ? O_RDWR : write ? O_WRONLY : O_RDONLY;
  File file(open(path.c_str(), mode | O_CLOEXEC | O_NOFOLLOW | (direct ? O_DIRECT : 0)));
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

// The files of a load: made before it starts, removed after it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "workloads/scenario.h"

namespace stalltrace::workloads {

// An owned file descriptor.
class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(other.release()) {}
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();
  [[nodiscard]] int get() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

struct FileSpec {
  std::string path;
  uint64_t bytes = 0;
  Fill fill = Fill::kPreallocate;
  bool append = false;      // one that exists may have any size: it grows
  bool only_read = false;   // one that exists need not be ours
  bool made_later = false;  // by the load itself; it must not exist
  bool may_create = true;
};

struct LayoutHooks {
  // The files that are about to be made, and will have to be removed whatever happens.
  std::function<void(const std::vector<std::string>&)> announce;
  // Bytes done and to do; false cancels.
  std::function<bool(uint64_t, uint64_t)> progress;
};

// Throws a usage Error for what is no directory.
void check_directory(const std::string& directory);

class FileSet {
 public:
  // Looks at what is there and changes nothing. A file that exists must be a regular file of at
  // least its size; its contents will be overwritten by the load, it is neither resized nor
  // removed. A path that several name is one file, of the largest size. Throws a usage Error for a
  // directory or file that cannot be used, a refused one without the permission, a failed one
  // without the space.
  void check(const std::vector<FileSpec>& specs);

  // Makes the files that check() found missing. Ends with one syncfs per directory, so that the
  // load does not begin with the commit of its layout. False: cancelled. Throws as check() does,
  // and a failed Error when I/O fails. Whatever was made has been removed again then.
  bool create(const LayoutHooks& hooks);

  // Removes what create() made. Files that vanished meanwhile are no error.
  void remove_created() noexcept;

  // How large the file was before the load; 0: it was not there.
  [[nodiscard]] uint64_t size_before(const std::string& path) const;

  [[nodiscard]] size_t created() const { return created_.size(); }
  [[nodiscard]] size_t reused() const { return reused_; }

 private:
  bool fill_all(const LayoutHooks& hooks);
  // Two loads on one file would measure each other. Throws a usage Error if another has it.
  void lock(const std::string& path);

  std::vector<FileSpec> missing_;
  std::map<std::string, uint64_t> sizes_before_;
  std::vector<std::string> created_;
  std::vector<File> locks_;
  size_t reused_ = 0;
};

// Opens a file of the load. A file system without direct I/O is a usage Error, and so is a block
// size it cannot do. `flags` are more of open(2)'s.
File open_for_load(const std::string& path, bool write, bool read, bool direct,
                   uint64_t block_bytes, int flags = 0);

// The same as a job describes it, with what it tells the kernel about its use.
File open_for_load(const std::string& path, const JobSpec& job);
// A file that the load makes while it runs.
File create_for_load(const std::string& path, const JobSpec& job);

// False where the file system takes O_DIRECT but goes through the page cache all the same (ext4
// with data=journal says so in statx; kernels before 6.1 say nothing).
bool is_direct(int fd);

}  // namespace stalltrace::workloads

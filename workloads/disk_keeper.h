// Takes an emulated disk away when its owner is killed and cannot do so itself.
#pragma once

#include <sys/types.h>

#include <string>

namespace stalltrace::workloads {

// A child of its own session, which no Ctrl-C reaches: it waits for this process to end, and then
// destroys the disk of that name if it is still there.
class DiskKeeper {
 public:
  // Before the disk is made. Throws a failed Error.
  explicit DiskKeeper(const std::string& name);
  DiskKeeper(const DiskKeeper&) = delete;
  DiskKeeper& operator=(const DiskKeeper&) = delete;
  // Once the disk is gone, or is to stay: it has nothing more to do.
  ~DiskKeeper();

 private:
  pid_t pid_ = -1;
};

}  // namespace stalltrace::workloads

// I/O by a system call that returns when it is done: fio's sync, psync, pvsync and pvsync2.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "workloads/job_spec.h"

namespace stalltrace::workloads {

class SyncEngine {
 public:
  SyncEngine(Engine engine, bool hipri, bool nowait);

  // Moves the file position where the engine needs it (a call of its own, not part of the I/O).
  // 0 or a negative errno.
  int seek(int fd, uint64_t offset);
  // Bytes or a negative errno.
  ssize_t transfer(int fd, bool write, void* buffer, uint32_t bytes, uint64_t offset);

 private:
  Engine engine_;
  int flags_;  // of preadv2
  int positioned_fd_ = -1;
  uint64_t position_ = 0;
};

}  // namespace stalltrace::workloads

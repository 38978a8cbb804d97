#include "workloads/sync_engine.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace stalltrace::workloads {

SyncEngine::SyncEngine(Engine engine, bool hipri, bool nowait)
    : engine_(engine), flags_((hipri ? RWF_HIPRI : 0) | (nowait ? RWF_NOWAIT : 0)) {}

int SyncEngine::seek(int fd, uint64_t offset) {
  if (engine_ != Engine::kSync || (positioned_fd_ == fd && position_ == offset)) return 0;
  if (lseek(fd, static_cast<off_t>(offset), SEEK_SET) < 0) return -errno;
  positioned_fd_ = fd;
  position_ = offset;
  return 0;
}

ssize_t SyncEngine::transfer(int fd, bool write, void* buffer, uint32_t bytes, uint64_t offset) {
  auto at = static_cast<off_t>(offset);
  iovec vector{.iov_base = buffer, .iov_len = bytes};
  ssize_t done = 0;
  switch (engine_) {
    case Engine::kSync:
      done = write ? ::write(fd, buffer, bytes) : ::read(fd, buffer, bytes);
      position_ = done >= 0 ? offset + static_cast<uint64_t>(done) : UINT64_MAX;
      break;
    case Engine::kPvsync:
      done = write ? pwritev(fd, &vector, 1, at) : preadv(fd, &vector, 1, at);
      break;
    case Engine::kPvsync2:
      done = write ? pwritev2(fd, &vector, 1, at, flags_) : preadv2(fd, &vector, 1, at, flags_);
      break;
    default:
      done = write ? pwrite(fd, buffer, bytes, at) : pread(fd, buffer, bytes, at);
  }
  return done < 0 ? -errno : done;
}

}  // namespace stalltrace::workloads

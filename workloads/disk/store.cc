#include "workloads/disk/store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "userspace/base/error.h"
#include "userspace/base/units.h"

namespace stalltrace::disk {
namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

Store::Store(uint64_t size_bytes) : size_bytes_(size_bytes), memory_(nullptr) {
  // Anonymous and private: reading a page that was never written maps the shared zero page, where
  // a memfd would allocate one.
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw refused_error("no address space for a disk of {}: {} (see vm.overcommit_memory)",
                        format_size(size_bytes), std::strerror(errno));
  }
  memory_ = static_cast<char*>(memory);
  madvise(memory, size_bytes, MADV_NOHUGEPAGE);
  madvise(memory, size_bytes, MADV_DONTDUMP);
}

Store::~Store() {
  munmap(memory_, size_bytes_);
}

void Store::write(uint64_t offset, const char* data, size_t bytes) {
  std::memcpy(memory_ + offset, data, bytes);
}

void Store::discard(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  const uint64_t first_page = std::min((offset + kPage - 1) / kPage * kPage, end);
  const uint64_t last_page = std::max(end / kPage * kPage, first_page);
  std::memset(memory_ + offset, 0, first_page - offset);
  std::memset(memory_ + last_page, 0, end - last_page);
  if (last_page > first_page) {
    madvise(memory_ + first_page, last_page - first_page, MADV_DONTNEED);
  }
}

}  // namespace stalltrace::disk

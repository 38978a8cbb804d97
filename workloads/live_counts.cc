#include "workloads/live_counts.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "userspace/base/error.h"

namespace stalltrace::workloads {

LiveCounts::LiveCounts() {
  void* memory =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw failed_error("no shared memory: {}", std::strerror(errno));
  counts_ = new (memory) Counts{};
}

LiveCounts::~LiveCounts() {
  munmap(counts_, sizeof(Counts));
}

}  // namespace stalltrace::workloads

// Durable writes, one system call each, waited for one by one or several in flight.
#pragma once

#include <cstdint>
#include <memory>

#include "workloads/ops_log.h"
#include "workloads/osync_spec.h"

namespace stalltrace::workloads {

class DurableWriter {
 public:
  struct Done {
    unsigned slot = 0;
    int64_t result = 0;  // bytes, or a negative errno
  };

  DurableWriter() = default;
  DurableWriter(const DurableWriter&) = delete;
  DurableWriter& operator=(const DurableWriter&) = delete;
  virtual ~DurableWriter() = default;

  // 0, or a negative errno with nothing submitted. `slot` is below the depth and has no write in
  // flight.
  virtual int submit(unsigned slot, const void* buffer, uint32_t bytes, uint64_t offset) = 0;
  // The next one that is done; waits for it. A negative result without a slot cannot happen but
  // where the kernel refuses to wait: `done.slot` is the depth then.
  virtual Done wait() = 0;

  // The submitting call, and the write as a whole; both kWrite where they are one.
  [[nodiscard]] virtual OpKind call_kind() const = 0;
  [[nodiscard]] virtual OpKind write_kind() const = 0;
};

// Throws a refused Error where the kernel does not allow it.
std::unique_ptr<DurableWriter> make_durable_writer(const OsyncSpec& spec, int fd);

}  // namespace stalltrace::workloads

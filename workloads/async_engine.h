// Asynchronous I/O as fio's engines do it: one system call submits one request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "workloads/ops_log.h"
#include "workloads/scenario.h"

namespace stalltrace::workloads {

struct IoRequest {
  uint64_t id = 0;  // make_op_id(); goes into aio_data or user_data
  void* buffer = nullptr;
  uint64_t offset = 0;
  uint32_t bytes = 0;
  int fd = -1;
  bool write = false;
};

struct Completion {
  uint64_t id;
  int64_t result;  // bytes, or a negative errno
};

// Used by one thread at a time. Holds at most `depth` requests, which the caller sees to.
class AsyncEngine {
 public:
  AsyncEngine() = default;
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;
  virtual ~AsyncEngine() = default;

  // Exactly one io_submit or io_uring_enter. 1, or a negative errno with nothing submitted.
  virtual int submit(const IoRequest& request) = 0;

  // Completions that are there, or, where `wait`, at least one. Without one and without `wait` no
  // system call is made. Negative errno if the kernel refuses.
  virtual int reap(std::span<Completion> completions, bool wait) = 0;

  [[nodiscard]] virtual OpKind call_kind() const = 0;
  [[nodiscard]] virtual OpKind request_kind() const = 0;
};

// Throws a refused Error where the kernel does not allow it.
std::unique_ptr<AsyncEngine> make_libaio_engine(unsigned depth);
std::unique_ptr<AsyncEngine> make_uring_engine(unsigned depth);
std::unique_ptr<AsyncEngine> make_async_engine(Engine engine, unsigned depth);

}  // namespace stalltrace::workloads

// Asynchronous I/O as fio's engines do it: requests are queued, one system call submits them all.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>

#include "workloads/ops_log.h"
#include "workloads/scenario.h"

namespace stalltrace::workloads {

enum class IoAction : uint8_t { kTransfer, kFsync, kFdatasync };

struct IoRequest {
  uint64_t id = 0;  // make_op_id(); goes into aio_data or user_data
  void* buffer = nullptr;
  uint64_t offset = 0;
  uint32_t bytes = 0;
  int fd = -1;
  bool write = false;
  IoAction action = IoAction::kTransfer;  // the others in io_uring only
  unsigned file = 0;                      // its place in register_files()
};

struct Completion {
  uint64_t id;
  int64_t result;  // bytes, or a negative errno
};

// Used by one thread at a time. Holds at most `depth` requests, which the caller sees to. Nothing
// is allocated once it is set up.
class AsyncEngine {
 public:
  AsyncEngine() = default;
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;
  virtual ~AsyncEngine() = default;

  // Puts a request, in the slot that its id names, before the next commit().
  virtual void queue(const IoRequest& request) = 0;

  // Exactly one io_submit or io_uring_enter for all that is queued. How many were taken, in their
  // order; or a negative errno with none taken. What was not taken stays queued.
  virtual int commit() = 0;

  // Gives up what is queued.
  virtual void drop_queued() = 0;

  // One request at once: 1, or a negative errno with nothing submitted.
  int submit(const IoRequest& request);

  // Completions that are there, or, where fewer, at least `least` of them. Where nothing has to be
  // waited for, no system call is made. Negative errno if the kernel refuses.
  virtual int reap(std::span<Completion> completions, unsigned least) = 0;

  // Called once by the thread that will use it, before it queues anything. 0 or a negative errno.
  virtual int begin_in_this_thread() { return 0; }

  // For all requests from then on, where the setup asked for it.
  virtual void register_files(std::span<const int> /*fds*/) {}
  virtual void register_buffers(std::span<const iovec> /*buffers*/) {}

  [[nodiscard]] virtual OpKind call_kind() const = 0;
  [[nodiscard]] virtual OpKind request_kind() const = 0;

  // Whether there is a completion to take, without a system call.
  [[nodiscard]] virtual bool any_ready() const = 0;

  // Whether a completion can be seen as soon as there is one.
  [[nodiscard]] virtual bool posts_at_once() const { return true; }
};

struct EngineSetup {
  unsigned depth = 1;
  UringModes uring;
  bool hipri = false;
  bool nowait = false;
};

// Throws a refused Error where the kernel does not allow it.
std::unique_ptr<AsyncEngine> make_libaio_engine(const EngineSetup& setup);
std::unique_ptr<AsyncEngine> make_uring_engine(const EngineSetup& setup);
std::unique_ptr<AsyncEngine> make_async_engine(Engine engine, const EngineSetup& setup);
inline std::unique_ptr<AsyncEngine> make_libaio_engine(unsigned depth) {
  return make_libaio_engine(EngineSetup{.depth = depth, .uring = {}});
}
inline std::unique_ptr<AsyncEngine> make_async_engine(Engine engine, unsigned depth) {
  return make_async_engine(engine, EngineSetup{.depth = depth, .uring = {}});
}

}  // namespace stalltrace::workloads

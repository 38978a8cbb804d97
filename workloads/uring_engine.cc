#include <liburing.h>

#include <cerrno>
#include <cstring>

#include "userspace/base/error.h"
#include "workloads/async_engine.h"

namespace stalltrace::workloads {
namespace {

class UringEngine : public AsyncEngine {
 public:
  explicit UringEngine(unsigned depth) {
    int error = -io_uring_queue_init(depth, &ring_, 0);
    if (error == EPERM) {
      throw refused_error(
          "io_uring is not permitted here (sysctl kernel.io_uring_disabled, or a container's "
          "seccomp profile): allow it, or use --engine libaio");
    }
    if (error == ENOSYS) {
      throw refused_error("this kernel has no io_uring: use --engine libaio");
    }
    if (error == ENOMEM) {
      throw refused_error(
          "no memory for io_uring's rings: raise the memlock limit (ulimit -l), or lower --jobs "
          "or --iodepth");
    }
    if (error != 0) {
      throw refused_error("io_uring cannot be set up ({}): use --engine libaio",
                          std::strerror(error));
    }
  }
  ~UringEngine() override { io_uring_queue_exit(&ring_); }

  int submit(const IoRequest& request) override {
    // An entry that the kernel did not take stays in the ring: the caller tries again under the
    // same id, and then it is not queued twice.
    if (refused_id_ != request.id) {
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      if (sqe == nullptr) return -EBUSY;
      if (request.write) {
        io_uring_prep_write(sqe, request.fd, request.buffer, request.bytes, request.offset);
      } else {
        io_uring_prep_read(sqe, request.fd, request.buffer, request.bytes, request.offset);
      }
      io_uring_sqe_set_data64(sqe, request.id);
    }
    int submitted = io_uring_submit(&ring_);
    refused_id_ = submitted > 0 ? 0 : request.id;
    return submitted == 0 ? -EAGAIN : submitted;
  }

  int reap(std::span<Completion> completions, bool wait) override {
    if (wait) {
      io_uring_cqe* first = nullptr;
      int error = io_uring_wait_cqe(&ring_, &first);
      if (error == -EINTR) return 0;
      if (error < 0) return error;
    }
    int count = 0;
    io_uring_cqe* cqe = nullptr;
    while (static_cast<size_t>(count) < completions.size() &&
           io_uring_peek_cqe(&ring_, &cqe) == 0) {
      completions[static_cast<size_t>(count++)] = {.id = io_uring_cqe_get_data64(cqe),
                                                   .result = cqe->res};
      io_uring_cqe_seen(&ring_, cqe);
    }
    return count;
  }

  [[nodiscard]] OpKind call_kind() const override { return OpKind::kIoUringEnter; }
  [[nodiscard]] OpKind request_kind() const override { return OpKind::kUring; }

 private:
  io_uring ring_{};
  uint64_t refused_id_ = 0;  // ids are never 0
};

}  // namespace

std::unique_ptr<AsyncEngine> make_uring_engine(unsigned depth) {
  return std::make_unique<UringEngine>(depth);
}

}  // namespace stalltrace::workloads

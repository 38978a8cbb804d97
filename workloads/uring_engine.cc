#include <fcntl.h>
#include <liburing.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "userspace/base/error.h"
#include "workloads/async_engine.h"

namespace stalltrace::workloads {
namespace {

[[noreturn]] void cannot_set_up(int error) {
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
  throw refused_error("io_uring cannot be set up ({}): use --engine libaio", std::strerror(error));
}

class UringEngine : public AsyncEngine {
 public:
  explicit UringEngine(const EngineSetup& setup)
      : nowait_(setup.nowait),
        poll_(setup.uring.sq_poll),
        fixed_buffers_(setup.uring.fixed_buffers),
        fixed_files_(setup.uring.fixed_files),
        seen_(setup.depth) {
    io_uring_params params{};
    if (setup.hipri) params.flags |= IORING_SETUP_IOPOLL;
    if (setup.uring.sq_poll) {
      params.flags |= IORING_SETUP_SQPOLL;
      if (setup.uring.sq_cpu >= 0) {
        params.flags |= IORING_SETUP_SQ_AFF;
        params.sq_thread_cpu = static_cast<unsigned>(setup.uring.sq_cpu);
      }
    }
    int error = EINVAL;
    if (setup.uring.cooperative && !poll_) error = set_up_deferred(setup, params);
    // Linux 6.1 has what that needs.
    if (error == EINVAL) error = -io_uring_queue_init_params(setup.depth, &ring_, &params);
    if (error != 0) cannot_set_up(error);
  }
  ~UringEngine() override { io_uring_queue_exit(&ring_); }

  int begin_in_this_thread() override {
    if (!deferred_) return 0;
    // liburing 2.3 declares io_uring_enable_rings() and does not have it.
    long result =
        syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    return result < 0 ? -errno : 0;
  }

  void register_files(std::span<const int> fds) override {
    if (!fixed_files_) return;
    int error = -io_uring_register_files(&ring_, fds.data(), static_cast<unsigned>(fds.size()));
    if (error != 0) {
      throw refused_error("io_uring cannot register {} files: {}", fds.size(),
                          std::strerror(error));
    }
  }

  void register_buffers(std::span<const iovec> buffers) override {
    if (!fixed_buffers_) return;
    int error =
        -io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size()));
    if (error != 0) {
      throw refused_error(
          "io_uring cannot register {} buffers ({}): raise the memlock limit (ulimit -l), or drop "
          "fixedbufs",
          buffers.size(), std::strerror(error));
    }
  }

  void queue(const IoRequest& request) override {
    // The ring has an entry for each request that the caller may have in flight.
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
      // The polling thread has not taken its entries yet.
      io_uring_sqring_wait(&ring_);
      sqe = io_uring_get_sqe(&ring_);
    }
    int fd = fixed_files_ ? static_cast<int>(request.file) : request.fd;
    if (request.action != IoAction::kTransfer) {
      unsigned flags = request.action == IoAction::kFdatasync ? IORING_FSYNC_DATASYNC : 0;
      io_uring_prep_fsync(sqe, fd, flags);
    } else if (fixed_buffers_) {
      auto index = static_cast<int>(slot_of(request.id));
      if (request.write) {
        io_uring_prep_write_fixed(sqe, fd, request.buffer, request.bytes, request.offset, index);
      } else {
        io_uring_prep_read_fixed(sqe, fd, request.buffer, request.bytes, request.offset, index);
      }
    } else if (request.write) {
      io_uring_prep_write(sqe, fd, request.buffer, request.bytes, request.offset);
    } else {
      io_uring_prep_read(sqe, fd, request.buffer, request.bytes, request.offset);
    }
    if (fixed_files_) sqe->flags |= IOSQE_FIXED_FILE;
    if (nowait_ && request.action == IoAction::kTransfer) sqe->rw_flags |= RWF_NOWAIT;
    io_uring_sqe_set_data64(sqe, request.id);
    ++queued_;
  }

  int commit() override {
    // An entry that the kernel did not take stays in the ring for the next time.
    int taken = deferred_ ? io_uring_submit_and_get_events(&ring_) : io_uring_submit(&ring_);
    if (taken < 0) return taken;
    // With a polling thread liburing counts all that it has not taken yet, of earlier calls too.
    taken = poll_ ? static_cast<int>(queued_) : taken;
    if (taken == 0) return -EAGAIN;
    queued_ -= static_cast<unsigned>(taken);
    return taken;
  }

  void drop_queued() override {
    // A polling thread takes them by itself; else they are the kernel's only once a call takes
    // them.
    if (poll_ || queued_ == 0) return;
    io_uring_sq& sq = ring_.sq;
    sq.sqe_tail -= queued_;
    sq.sqe_head = sq.sqe_tail;
    __atomic_store_n(sq.ktail, sq.sqe_tail, __ATOMIC_RELEASE);
    queued_ = 0;
  }

  int reap(std::span<Completion> completions, unsigned least) override {
    if (least > 0) {
      io_uring_cqe* first = nullptr;
      int error = io_uring_wait_cqe_nr(&ring_, &first, least);
      if (error == -EINTR) return 0;
      if (error < 0) return error;
    }
    auto room = static_cast<unsigned>(std::min(completions.size(), seen_.size()));
    unsigned count = io_uring_peek_batch_cqe(&ring_, seen_.data(), room);
    for (unsigned i = 0; i < count; ++i) {
      completions[i] = {.id = io_uring_cqe_get_data64(seen_[i]), .result = seen_[i]->res};
    }
    io_uring_cq_advance(&ring_, count);
    return static_cast<int>(count);
  }

  [[nodiscard]] bool any_ready() const override { return io_uring_cq_ready(&ring_) > 0; }

  [[nodiscard]] OpKind call_kind() const override { return OpKind::kIoUringEnter; }
  [[nodiscard]] OpKind request_kind() const override { return OpKind::kUring; }

  [[nodiscard]] bool posts_at_once() const override { return !deferred_; }

 private:
  // Completions wait until this thread enters the kernel for them, which its next submission does:
  // no interrupts, and no more calls. The ring belongs to the thread that enables it.
  int set_up_deferred(const EngineSetup& setup, io_uring_params params) {
    params.flags |= IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER |
                    IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED;
    int error = -io_uring_queue_init_params(setup.depth, &ring_, &params);
    deferred_ = error == 0;
    return error;
  }

  io_uring ring_{};
  bool nowait_;
  bool poll_;
  bool fixed_buffers_;
  bool fixed_files_;
  std::vector<io_uring_cqe*> seen_;
  bool deferred_ = false;
  unsigned queued_ = 0;
};

}  // namespace

std::unique_ptr<AsyncEngine> make_uring_engine(const EngineSetup& setup) {
  return std::make_unique<UringEngine>(setup);
}

}  // namespace stalltrace::workloads

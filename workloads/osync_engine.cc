#include "workloads/osync_engine.h"

#include <libaio.h>
#include <liburing.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

class PsyncWriter : public DurableWriter {
 public:
  PsyncWriter(int fd, int flags) : fd_(fd), flags_(flags) {}

  int submit(unsigned slot, const void* buffer, uint32_t bytes, uint64_t offset) override {
    iovec vector{const_cast<void*>(buffer), bytes};
    ssize_t result = flags_ != 0 ? pwritev2(fd_, &vector, 1, static_cast<off_t>(offset), flags_)
                                 : pwrite(fd_, buffer, bytes, static_cast<off_t>(offset));
    done_ = {slot, result < 0 ? -int64_t{errno} : result};
    return 0;
  }
  Done wait() override { return done_; }
  [[nodiscard]] OpKind call_kind() const override { return OpKind::kWrite; }
  [[nodiscard]] OpKind write_kind() const override { return OpKind::kWrite; }

 private:
  int fd_;
  int flags_;
  Done done_;
};

class LibaioWriter : public DurableWriter {
 public:
  LibaioWriter(int fd, int flags, unsigned depth) : fd_(fd), flags_(flags), iocbs_(depth) {
    if (int error = -io_setup(static_cast<int>(depth), &context_); error != 0) {
      throw refused_error(
          "no AIO context (io_setup: {}): raise fs.aio-max-nr (sysctl) or lower --threads",
          std::strerror(error));
    }
  }
  ~LibaioWriter() override { io_destroy(context_); }

  int submit(unsigned slot, const void* buffer, uint32_t bytes, uint64_t offset) override {
    iocb& control = iocbs_[slot];
    io_prep_pwrite(&control, fd_, const_cast<void*>(buffer), bytes, static_cast<long long>(offset));
    control.aio_rw_flags = flags_;
    iocb* list[] = {&control};
    int result = io_submit(context_, 1, list);
    return result == 1 ? 0 : result < 0 ? result : -EAGAIN;
  }
  Done wait() override {
    io_event event{};
    int count = 0;
    do {
      count = io_getevents(context_, 1, 1, &event, nullptr);
    } while (count == -EINTR || count == 0);
    if (count < 0) return {static_cast<unsigned>(iocbs_.size()), count};
    return {static_cast<unsigned>(event.obj - iocbs_.data()), static_cast<int64_t>(event.res)};
  }
  [[nodiscard]] OpKind call_kind() const override { return OpKind::kIoSubmit; }
  [[nodiscard]] OpKind write_kind() const override { return OpKind::kAio; }

 private:
  int fd_;
  int flags_;
  io_context_t context_ = nullptr;
  std::vector<iocb> iocbs_;
};

class UringWriter : public DurableWriter {
 public:
  UringWriter(int fd, int flags, unsigned depth) : fd_(fd), flags_(flags), depth_(depth) {
    if (int error = -io_uring_queue_init(depth, &ring_, 0); error != 0) {
      throw refused_error("io_uring cannot be set up ({}): use --engine libaio",
                          std::strerror(error));
    }
  }
  ~UringWriter() override { io_uring_queue_exit(&ring_); }

  int submit(unsigned slot, const void* buffer, uint32_t bytes, uint64_t offset) override {
    // An entry that the kernel did not take stays in the ring.
    if (!refused_) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      if (entry == nullptr) return -EBUSY;
      io_uring_prep_write(entry, fd_, buffer, bytes, offset);
      entry->rw_flags = flags_;
      io_uring_sqe_set_data64(entry, slot);
    }
    int submitted = io_uring_submit(&ring_);
    refused_ = submitted <= 0;
    return submitted > 0 ? 0 : submitted < 0 ? submitted : -EAGAIN;
  }
  Done wait() override {
    io_uring_cqe* completion = nullptr;
    int error = 0;
    do {
      error = io_uring_wait_cqe(&ring_, &completion);
    } while (error == -EINTR);
    if (error < 0) return {depth_, error};
    Done done{static_cast<unsigned>(io_uring_cqe_get_data64(completion)), completion->res};
    io_uring_cqe_seen(&ring_, completion);
    return done;
  }
  [[nodiscard]] OpKind call_kind() const override { return OpKind::kIoUringEnter; }
  [[nodiscard]] OpKind write_kind() const override { return OpKind::kUring; }

 private:
  int fd_;
  int flags_;
  unsigned depth_;
  io_uring ring_{};
  bool refused_ = false;
};

}  // namespace

std::unique_ptr<DurableWriter> make_durable_writer(const OsyncSpec& spec, int fd) {
  int flags = spec.sync == WriteSync::kRwfDsync ? RWF_DSYNC : 0;
  switch (spec.engine) {
    case WriteEngine::kLibaio:
      return std::make_unique<LibaioWriter>(fd, flags, spec.iodepth);
    case WriteEngine::kIoUring:
      return std::make_unique<UringWriter>(fd, flags, spec.iodepth);
    case WriteEngine::kPsync:
      break;
  }
  return std::make_unique<PsyncWriter>(fd, flags);
}

}  // namespace stalltrace::workloads

#include <libaio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "userspace/base/error.h"
#include "workloads/async_engine.h"

namespace stalltrace::workloads {
namespace {

class LibaioEngine : public AsyncEngine {
 public:
  explicit LibaioEngine(unsigned depth) : events_(depth), iocbs_(depth) {
    int error = -io_setup(static_cast<int>(depth), &context_);
    if (error == EAGAIN) {
      throw refused_error(
          "no more AIO contexts: raise fs.aio-max-nr (sysctl), or lower --jobs or --iodepth");
    }
    if (error != 0) {
      throw refused_error("this kernel refuses AIO (io_setup: {}): try --engine io_uring",
                          std::strerror(error));
    }
  }
  ~LibaioEngine() override { io_destroy(context_); }

  int submit(const IoRequest& request) override {
    iocb& control = iocbs_[slot_of(request.id)];
    if (request.write) {
      io_prep_pwrite(&control, request.fd, request.buffer, request.bytes,
                     static_cast<long long>(request.offset));
    } else {
      io_prep_pread(&control, request.fd, request.buffer, request.bytes,
                    static_cast<long long>(request.offset));
    }
    // aio_data is a pointer in libaio's struct; the kernel hands it back untouched.
    static_assert(sizeof(control.data) == sizeof(request.id));
    std::memcpy(&control.data, &request.id, sizeof(request.id));
    iocb* list[] = {&control};
    return io_submit(context_, 1, list);
  }

  int reap(std::span<Completion> completions, bool wait) override {
    // With a zero timeout libaio looks at the ring in user space and makes no call if it is empty.
    timespec none{};
    auto room = static_cast<long>(std::min(completions.size(), events_.size()));
    int count = io_getevents(context_, wait ? 1 : 0, room, events_.data(), wait ? nullptr : &none);
    if (count == -EINTR) return 0;
    for (int i = 0; i < count; ++i) {
      const io_event& event = events_[static_cast<size_t>(i)];
      Completion& completion = completions[static_cast<size_t>(i)];
      std::memcpy(&completion.id, &event.data, sizeof(completion.id));
      completion.result = static_cast<int64_t>(event.res);
    }
    return count;
  }

  [[nodiscard]] OpKind call_kind() const override { return OpKind::kIoSubmit; }
  [[nodiscard]] OpKind request_kind() const override { return OpKind::kAio; }

 private:
  io_context_t context_ = nullptr;
  std::vector<io_event> events_;
  std::vector<iocb> iocbs_;
};

}  // namespace

std::unique_ptr<AsyncEngine> make_libaio_engine(unsigned depth) {
  return std::make_unique<LibaioEngine>(depth);
}

std::unique_ptr<AsyncEngine> make_async_engine(Engine engine, unsigned depth) {
  return engine == Engine::kIoUring ? make_uring_engine(depth) : make_libaio_engine(depth);
}

}  // namespace stalltrace::workloads

#include <libaio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "userspace/base/error.h"
#include "workloads/async_engine.h"

namespace stalltrace::workloads {
namespace {

// What io_setup maps into the process: completions can be taken from it without a system call.
// libaio itself only looks whether it is empty.
class CompletionRing {
 public:
  explicit CompletionRing(io_context_t context)
      : head_(reinterpret_cast<Header*>(context)),
        usable_(head_->magic == kMagic && head_->incompat_features == 0) {}

  [[nodiscard]] bool usable() const { return usable_; }
  [[nodiscard]] bool empty() const {
    return head_->head == __atomic_load_n(&head_->tail, __ATOMIC_ACQUIRE);
  }

  int take(std::span<Completion> completions) {
    const auto* events = reinterpret_cast<const io_event*>(reinterpret_cast<const char*>(head_) +
                                                           head_->header_length);
    unsigned head = head_->head;
    unsigned tail = __atomic_load_n(&head_->tail, __ATOMIC_ACQUIRE);
    size_t count = 0;
    for (; count < completions.size() && head != tail; ++count) {
      const io_event& event = events[head];
      std::memcpy(&completions[count].id, &event.data, sizeof(completions[count].id));
      completions[count].result = static_cast<int64_t>(event.res);
      head = (head + 1) % head_->nr;
    }
    if (count > 0) __atomic_store_n(&head_->head, head, __ATOMIC_RELEASE);
    return static_cast<int>(count);
  }

 private:
  static constexpr unsigned kMagic = 0xa10a10a1;
  // struct aio_ring of the kernel's fs/aio.c; libaio and others rely on it.
  struct Header {
    unsigned id;
    unsigned nr;
    unsigned head;
    unsigned tail;
    unsigned magic;
    unsigned compat_features;
    unsigned incompat_features;
    unsigned header_length;
  };

  Header* head_;
  bool usable_;
};

io_context_t make_context(unsigned depth) {
  io_context_t context = nullptr;
  int error = -io_setup(static_cast<int>(depth), &context);
  if (error == EAGAIN) {
    throw refused_error(
        "no more AIO contexts: raise fs.aio-max-nr (sysctl), or lower --jobs or --iodepth");
  }
  if (error != 0) {
    throw refused_error("this kernel refuses AIO (io_setup: {}): try --engine io_uring",
                        std::strerror(error));
  }
  return context;
}

class LibaioEngine : public AsyncEngine {
 public:
  explicit LibaioEngine(const EngineSetup& setup)
      : nowait_(setup.nowait),
        context_(make_context(setup.depth)),
        ring_(context_),
        events_(setup.depth),
        iocbs_(setup.depth) {
    queued_.reserve(setup.depth);
  }
  ~LibaioEngine() override { io_destroy(context_); }

  void queue(const IoRequest& request) override {
    iocb& control = iocbs_[slot_of(request.id)];
    if (request.write) {
      io_prep_pwrite(&control, request.fd, request.buffer, request.bytes,
                     static_cast<long long>(request.offset));
    } else {
      io_prep_pread(&control, request.fd, request.buffer, request.bytes,
                    static_cast<long long>(request.offset));
    }
    if (nowait_) control.aio_rw_flags = RWF_NOWAIT;
    // aio_data is a pointer in libaio's struct; the kernel hands it back untouched.
    static_assert(sizeof(control.data) == sizeof(request.id));
    std::memcpy(&control.data, &request.id, sizeof(request.id));
    queued_.push_back(&control);
  }

  int commit() override {
    int taken = io_submit(context_, static_cast<long>(queued_.size()), queued_.data());
    if (taken > 0) queued_.erase(queued_.begin(), queued_.begin() + taken);
    return taken;
  }

  void drop_queued() override { queued_.clear(); }

  int reap(std::span<Completion> completions, unsigned least) override {
    int taken = ring_.usable() ? ring_.take(completions) : 0;
    if (static_cast<unsigned>(taken) >= least && ring_.usable()) return taken;
    // Without a wait libaio looks at the ring in user space and makes no call if it is empty.
    timespec none{};
    auto rest = completions.subspan(static_cast<size_t>(taken));
    long wanted = static_cast<long>(least) - taken;
    auto room = static_cast<long>(std::min(rest.size(), events_.size()));
    int count = io_getevents(context_, std::max(wanted, 0L), room, events_.data(),
                             wanted > 0 ? nullptr : &none);
    if (count == -EINTR) return taken;
    if (count < 0) return count;
    for (int i = 0; i < count; ++i) {
      const io_event& event = events_[static_cast<size_t>(i)];
      Completion& completion = rest[static_cast<size_t>(i)];
      std::memcpy(&completion.id, &event.data, sizeof(completion.id));
      completion.result = static_cast<int64_t>(event.res);
    }
    return taken + count;
  }

  [[nodiscard]] bool any_ready() const override { return !ring_.usable() || !ring_.empty(); }

  [[nodiscard]] OpKind call_kind() const override { return OpKind::kIoSubmit; }
  [[nodiscard]] OpKind request_kind() const override { return OpKind::kAio; }

 private:
  bool nowait_;
  io_context_t context_;
  CompletionRing ring_;
  std::vector<io_event> events_;
  std::vector<iocb> iocbs_;
  std::vector<iocb*> queued_;
};

}  // namespace

std::unique_ptr<AsyncEngine> make_libaio_engine(const EngineSetup& setup) {
  return std::make_unique<LibaioEngine>(setup);
}

}  // namespace stalltrace::workloads

#include "workloads/probe_worker.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "workloads/block_order.h"

namespace stalltrace::workloads {
namespace {

constexpr size_t kAlignment = 4096;

}  // namespace

ProbeWorker::ProbeWorker(unsigned index, const OpsLogSpec& log, const ProbeSpec& probe,
                         StopSignal& stop)
    : Worker("probe", index, log),
      probe_(probe),
      stop_(stop),
      engine_(make_libaio_engine(1)),
      buffer_(std::aligned_alloc(kAlignment, probe.block_bytes)) {
  if (!buffer_) throw failed_error("no memory for the probe's buffer");
  std::memset(buffer_.get(), 0x5a, probe.block_bytes);
}

ProbeRequest ProbeWorker::request(uint64_t offset) {
  IoRequest io{.id = next_id(),
               .buffer = buffer_.get(),
               .offset = offset,
               .bytes = static_cast<uint32_t>(probe_.block_bytes),
               .fd = fd_,
               .write = true};
  ProbeRequest request;
  request.start_ns = monotonic_ns();
  int submitted = engine_->submit(io);
  request.submitted_ns = monotonic_ns();
  record(OpKind::kProbeSubmit, io.id, request.start_ns, request.submitted_ns, submitted);
  request.result = submitted;
  request.completed_ns = request.submitted_ns;
  uint64_t reap_from_ns = request.submitted_ns;
  if (submitted > 0) {
    Completion completion{};
    int reaped = 0;
    while (reaped == 0) reaped = engine_->reap({&completion, 1}, true);
    request.completed_ns = monotonic_ns();
    request.result = reaped < 0 ? reaped : completion.result;
    reap_from_ns = request.start_ns;
  }
  recorder_ref().add({.id = io.id,
                      .start_ns = request.start_ns,
                      .end_ns = request.completed_ns,
                      .reap_from_ns = reap_from_ns,
                      .result = request.result,
                      .kind = OpKind::kProbeRequest});
  return request;
}

void ProbeWorker::run(uint64_t start_ns) {
  uint64_t deadline = probe_.runtime_ns > 0 ? start_ns + probe_.runtime_ns : UINT64_MAX;
  BlockOrder order(OrderKind::kIndependent, probe_.size_bytes / probe_.block_bytes, start_ns);
  while (!stop_.requested() && monotonic_ns() < deadline) {
    // Grown between two requests, when nothing is being timed.
    ProbeRequest done = request(order.next() * probe_.block_bytes);
    requests_.push_back(done);
    if (done.result != static_cast<int64_t>(probe_.block_bytes)) {
      add_error("write to " + probe_.path(),
                done.result < 0 ? static_cast<int>(-done.result) : EIO);
      break;
    }
    // The interval is from start to start; a request that took longer is followed at once.
    if (!stop_.sleep_until(std::min(done.start_ns + probe_.interval_ns, deadline))) break;
  }
}

}  // namespace stalltrace::workloads

// What each thread of a load did, on its own clock: latencies of everything, and the single
// operations of a minimum length, kept in memory until the run is over.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/distribution.h"

namespace stalltrace::workloads {

enum class OpKind : uint8_t {
  kIoSubmit,
  kIoUringEnter,  // the submitting call; waiting for completions is on purpose and not an operation
  kWrite,
  kRead,
  kFsync,
  kFdatasync,
  kAio,           // one iocb, from before its io_submit until its completion was seen
  kUring,         // one SQE, likewise
  kProbeSubmit,   // the probe's io_submit
  kProbeRequest,  // the probe's write, from before its io_submit until it was seen complete
  kAck,           // a write, from its submission until the sync that covers it returned
  kOpen,
  kClose,
  kSync,
  kSyncfs,
  kSyncFileRange,
  kUringSync  // a sync as a request in io_uring's queue: it blocks nobody
};
inline constexpr size_t kOpKinds = 17;
std::string_view op_kind_name(OpKind kind);

// An operation's id says who issued it and, for requests, in which slot of its queue: it is what
// iocb.aio_data and sqe.user_data hold. A call that submits one request has the request's id.
inline constexpr unsigned kSlotBits = 12;
inline constexpr unsigned kSequenceBits = 36;
inline constexpr unsigned kMaxDepth = 1U << kSlotBits;
constexpr uint64_t make_op_id(unsigned worker, uint64_t sequence, unsigned slot) {
  return (uint64_t{worker} << (kSlotBits + kSequenceBits)) | (sequence << kSlotBits) | slot;
}
constexpr unsigned slot_of(uint64_t id) {
  return static_cast<unsigned>(id & (kMaxDepth - 1));
}

struct OpRecord {
  uint64_t id;
  uint64_t start_ns;
  uint64_t end_ns;
  // An async request became complete somewhere in [reap_from_ns, end_ns]: its thread last looked
  // and did not see it at reap_from_ns. A thread blocked in a call looks late. Calls: end_ns.
  uint64_t reap_from_ns;
  int64_t result;  // as the kernel returned it: bytes, or a negative errno
  OpKind kind;
};

// One thread's record. Not shared while the thread runs; add() neither allocates nor calls the
// kernel.
class OpRecorder {
 public:
  static constexpr size_t kLogCapacity = size_t{1} << 17;

  // With `log`, operations of at least `floor_ns` are kept (the probe's always); room for so many
  // of them is made, and touched, now. What exceeds it is counted in dropped().
  OpRecorder(bool log, uint64_t floor_ns, size_t room = kLogCapacity);

  void set_tid(pid_t tid) { tid_ = tid; }
  [[nodiscard]] pid_t tid() const { return tid_; }

  void add(const OpRecord& record);
  // What came before does not count: the latencies begin anew. The log keeps its records.
  void forget_latencies();

  [[nodiscard]] const LatencyHistogram& latency(OpKind kind) const {
    return histograms_[static_cast<size_t>(kind)];
  }
  [[nodiscard]] std::span<const OpRecord> records() const { return {records_.data(), used_}; }
  [[nodiscard]] uint64_t dropped() const { return dropped_; }

 private:
  std::vector<LatencyHistogram> histograms_;
  std::vector<OpRecord> records_;
  size_t used_ = 0;
  uint64_t dropped_ = 0;
  uint64_t floor_ns_;
  pid_t tid_ = 0;
  bool log_;
};

// The log as CSV, ordered by start:
// id,kind,tid,start_ns,end_ns,result,reap_from_ns
// Throws a failed Error that names `path` if it cannot be written.
void write_ops_log(int fd, const std::string& path,
                   const std::vector<const OpRecorder*>& recorders);

}  // namespace stalltrace::workloads

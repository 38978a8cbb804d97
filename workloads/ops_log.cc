#include "workloads/ops_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

constexpr std::array<std::string_view, kOpKinds> kNames{
    "io_submit", "io_uring_enter",  "write",         "read", "fsync", "fdatasync", "aio",
    "uring",     "probe_submit",    "probe_request", "ack",  "open",  "close",     "sync",
    "syncfs",    "sync_file_range", "uring_sync"};

void write_all(int fd, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw failed_error("cannot write the operations log {}: {}", path, std::strerror(errno));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string_view op_kind_name(OpKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

OpRecorder::OpRecorder(bool log, uint64_t floor_ns, size_t room)
    : histograms_(kOpKinds), floor_ns_(floor_ns), log_(log) {
  if (log) records_.resize(room);
}

void OpRecorder::add(const OpRecord& record) {
  uint64_t duration = record.end_ns - record.start_ns;
  histograms_[static_cast<size_t>(record.kind)].add(duration);
  if (!log_) return;
  bool probe = record.kind == OpKind::kProbeSubmit || record.kind == OpKind::kProbeRequest;
  if (duration < floor_ns_ && !probe) return;
  if (used_ == records_.size()) {
    ++dropped_;
    return;
  }
  records_[used_++] = record;
}

void OpRecorder::forget_latencies() {
  for (LatencyHistogram& histogram : histograms_) histogram.clear();
}

void write_ops_log(int fd, const std::string& path,
                   const std::vector<const OpRecorder*>& recorders) {
  struct Line {
    const OpRecord* record;
    pid_t tid;
  };
  std::vector<Line> lines;
  for (const OpRecorder* recorder : recorders) {
    for (const OpRecord& record : recorder->records()) {
      lines.push_back({.record = &record, .tid = recorder->tid()});
    }
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return a.record->start_ns < b.record->start_ns;
  });

  constexpr size_t kFlushAt = size_t{1} << 16;
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "id,kind,tid,start_ns,end_ns,result,reap_from_ns\n");
  for (const Line& line : lines) {
    const OpRecord& record = *line.record;
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{}\n", record.id,
                   op_kind_name(record.kind), line.tid, record.start_ns, record.end_ns,
                   record.result, record.reap_from_ns);
    if (text.size() >= kFlushAt) {
      write_all(fd, path, {text.data(), text.size()});
      text.clear();
    }
  }
  write_all(fd, path, {text.data(), text.size()});
}

}  // namespace stalltrace::workloads

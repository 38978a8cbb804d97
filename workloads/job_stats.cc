#include "workloads/job_stats.h"

#include <sys/resource.h>

#include <algorithm>
#include <bit>

namespace stalltrace::workloads {
namespace {

uint64_t timeval_ns(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_usec) * 1000;
}

}  // namespace

void DirectionStats::merge(const DirectionStats& other) {
  ios += other.ios;
  bytes += other.bytes;
  submit.merge(other.submit);
  complete.merge(other.complete);
  total.merge(other.total);
}

void SizeClasses::add_depth(uint64_t depth) {
  if (depth == 0) return;
  ++counts_[std::min(kClasses - 1, static_cast<size_t>(std::bit_width(depth)) - 1)];
  ++total_;
}

void SizeClasses::add_batch(uint64_t size) {
  size_t index = size == 0 ? 0 : size <= 4 ? 1 : static_cast<size_t>(std::bit_width(size - 1)) - 1;
  ++counts_[std::min(kClasses - 1, index)];
  ++total_;
}

void SizeClasses::merge(const SizeClasses& other) {
  for (size_t i = 0; i < kClasses; ++i) counts_[i] += other.counts_[i];
  total_ += other.total_;
}

double SizeClasses::percent(size_t index) const {
  if (total_ == 0) return 0;
  return 100.0 * static_cast<double>(counts_[index]) / static_cast<double>(total_);
}

CpuTimes CpuTimes::of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {.user_ns = timeval_ns(usage.ru_utime),
          .system_ns = timeval_ns(usage.ru_stime),
          .switches = static_cast<uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw),
          .major_faults = static_cast<uint64_t>(usage.ru_majflt),
          .minor_faults = static_cast<uint64_t>(usage.ru_minflt)};
}

CpuTimes CpuTimes::since(const CpuTimes& earlier) const {
  return {.user_ns = user_ns - earlier.user_ns,
          .system_ns = system_ns - earlier.system_ns,
          .switches = switches - earlier.switches,
          .major_faults = major_faults - earlier.major_faults,
          .minor_faults = minor_faults - earlier.minor_faults};
}

void CpuTimes::add(const CpuTimes& other) {
  user_ns += other.user_ns;
  system_ns += other.system_ns;
  switches += other.switches;
  major_faults += other.major_faults;
  minor_faults += other.minor_faults;
}

JobStats::JobStats(const JobSpec& job) {
  if (job.reads()) directions_[0] = std::make_unique<DirectionStats>();
  if (job.writes()) directions_[1] = std::make_unique<DirectionStats>();
}

void JobStats::begin(uint64_t now_ns) {
  for (auto& direction : directions_) {
    if (direction) *direction = {};
  }
  sync_.clear();
  due_sync_.clear();
  due_fsyncs_ = 0;
  depth = {};
  batch = {};
  reaped = {};
  nowait.clear();
  begin_ns_ = now_ns;
  cpu_begin_ = CpuTimes::of_this_thread();
}

void JobStats::end(uint64_t now_ns) {
  end_ns_ = now_ns;
  runtime_ns_ = now_ns - begin_ns_;
  thread_ns_ = runtime_ns_;
  cpu_ = CpuTimes::of_this_thread().since(cpu_begin_);
}

void JobStats::merge(const JobStats& other) {
  for (size_t i = 0; i < directions_.size(); ++i) {
    if (!other.directions_[i]) continue;
    if (!directions_[i]) directions_[i] = std::make_unique<DirectionStats>();
    directions_[i]->merge(*other.directions_[i]);
  }
  sync_.merge(other.sync_);
  due_sync_.merge(other.due_sync_);
  due_fsyncs_ += other.due_fsyncs_;
  depth.merge(other.depth);
  batch.merge(other.batch);
  reaped.merge(other.reaped);
  nowait.merge(other.nowait);
  // One that never began has no time.
  if (other.end_ns_ > 0) {
    begin_ns_ = end_ns_ == 0 ? other.begin_ns_ : std::min(begin_ns_, other.begin_ns_);
    end_ns_ = std::max(end_ns_, other.end_ns_);
  }
  runtime_ns_ = std::max(runtime_ns_, other.runtime_ns_);
  thread_ns_ += other.thread_ns_;
  cpu_.add(other.cpu_);
}

uint64_t JobStats::ios() const {
  uint64_t sum = 0;
  for (const auto& direction : directions_) sum += direction ? direction->ios : 0;
  return sum;
}

uint64_t JobStats::bytes() const {
  uint64_t sum = 0;
  for (const auto& direction : directions_) sum += direction ? direction->bytes : 0;
  return sum;
}

}  // namespace stalltrace::workloads

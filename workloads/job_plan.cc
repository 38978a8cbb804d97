#include "workloads/job_plan.h"

#include <algorithm>
#include <bit>

namespace stalltrace::workloads {
namespace {

bool one_size(const JobSpec& job) {
  return job.min_block() == job.max_block();
}

OrderKind order_kind(const JobSpec& job) {
  if (!job.random()) return OrderKind::kSequential;
  // Blocks of several sizes overlap: there is no visiting each of them once.
  return job.shuffle && one_size(job) ? OrderKind::kShuffled : OrderKind::kIndependent;
}

}  // namespace

JobPlan::JobPlan(const JobSpec& job, const std::vector<JobFile>& files, uint64_t seed)
    : job_(job), random_(seed + 1), unit_(job.min_block()) {
  files_.reserve(files.size());
  uint64_t all = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    uint64_t blocks = std::max<uint64_t>(1, files[i].bytes / unit_);
    files_.push_back({.begin = files[i].begin,
                      .bytes = blocks * unit_,
                      .left = blocks * unit_,
                      .order = BlockOrder(order_kind(job), blocks, seed + i),
                      .skewed = {}});
    if (job.random() && job.skew != Skew::kNone) {
      files_.back().skewed.emplace(job.skew, job.skew_by, blocks, seed + i);
    }
    all += blocks * unit_;
  }
  // As fio has it: `io_size` is how much is done in all, `size` how much before it begins anew.
  pass_bytes_ = std::min(all, std::max(job.size_bytes, unit_));
  uint64_t once = job.io_bytes > 0 ? job.io_bytes : pass_bytes_;
  if (job.random() && !job.shuffle) pass_bytes_ = std::max(pass_bytes_, job.io_bytes);
  if (job.time_based || __builtin_mul_overflow(once, uint64_t{job.loops}, &left_)) {
    left_ = UINT64_MAX;
  }
  if (job.time_based) pass_bytes_ = UINT64_MAX;
  pass_left_ = pass_bytes_;
  run_left_ = job.file_run;
}

void JobPlan::begin_pass() {
  pass_left_ = pass_bytes_;
  rewind();
}

void JobPlan::rewind() {
  for (FileState& file : files_) {
    file.left = file.bytes;
    file.position = {};
  }
  current_ = 0;
}

bool JobPlan::take_turn(size_t file) {
  if (files_[file].left < unit_) return false;
  if (file != current_) run_left_ = job_.file_run;
  current_ = file;
  --run_left_;
  return true;
}

// False: every file of the pass is done.
bool JobPlan::choose_file() {
  size_t first = current_;
  if (run_left_ == 0) {
    run_left_ = job_.file_run;
    if (job_.file_order == FileOrder::kRandom) first = random_.below(files_.size());
    if (job_.file_order == FileOrder::kRoundRobin) first = current_ + 1;
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    if (take_turn((first + i) % files_.size())) return true;
  }
  return false;
}

uint64_t JobPlan::block_size(bool write) {
  uint64_t least = job_.min_block(write);
  uint64_t most = job_.max_block(write);
  if (least == most) return least;
  const BlockSizes& sizes = job_.blocks[write ? 1 : 0];
  if (!sizes.split.empty()) {
    uint64_t draw = random_.below(100);
    for (const BlockShare& share : sizes.split) {
      if (draw < share.percent) return share.bytes;
      draw -= share.percent;
    }
    return sizes.split.back().bytes;
  }
  if (job_.any_size) return least + random_.below(most - least + 1);
  return least * (1 + random_.below(most / least));
}

uint64_t JobPlan::place(FileState& file, bool write, uint64_t bytes) {
  uint64_t& position = file.position[write ? 1 : 0];
  bool random =
      job_.random() && (job_.random_percent == 100 || random_.below(100) < job_.random_percent);
  if (!random) {
    if (position + bytes > file.bytes) position = 0;
  } else {
    position = (file.skewed ? file.skewed->next() : file.order.next()) * unit_;
    if (position + bytes > file.bytes) position = (file.bytes - bytes) / unit_ * unit_;
  }
  uint64_t offset = position;
  position += bytes;
  return file.begin + offset;
}

bool JobPlan::draw_write() {
  return job_.writes() && !(job_.reads() && random_.below(100) < job_.read_percent);
}

PlannedIo JobPlan::next(bool write) {
  if (!choose_file()) {
    rewind();
    choose_file();
  }
  FileState& file = files_[current_];
  PlannedIo io{.file = static_cast<unsigned>(current_), .write = write};
  uint64_t bytes = std::min(block_size(io.write), file.bytes);
  io.bytes = static_cast<uint32_t>(bytes);
  io.offset = place(file, io.write, bytes);
  file.left -= std::min(file.left, bytes);
  for (uint64_t* left : {&left_, &pass_left_}) {
    if (*left != UINT64_MAX) *left -= std::min(*left, bytes);
  }
  return io;
}

}  // namespace stalltrace::workloads

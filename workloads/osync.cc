#include "workloads/osync.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/units.h"

namespace stalltrace::workloads {
namespace {

constexpr size_t kBufferAlign = 4096;

int open_flag(WriteSync sync) {
  switch (sync) {
    case WriteSync::kOSync:
      return O_SYNC;
    case WriteSync::kODsync:
      return O_DSYNC;
    case WriteSync::kRwfDsync:
      break;
  }
  return 0;
}

File open_durable(const OsyncSpec& spec) {
  const std::string path = spec.path();
  File file(open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC | open_flag(spec.sync)));
  if (file.get() >= 0) return file;
  if (errno == EINVAL) {
    throw usage_error("the file system of {} has no direct I/O (O_DIRECT): use another directory",
                      path);
  }
  throw failed_error("cannot open {}: {}", path, std::strerror(errno));
}

}  // namespace

OsyncWorker::OsyncWorker(unsigned thread, const OpsLogSpec& log, const OsyncSpec& spec, int fd,
                         uint64_t region_start, uint64_t region_bytes, const StopSignal& stop)
    : Worker(fmt::format("osync-{:02}", thread), thread + 1, log),
      spec_(spec),
      region_start_(region_start),
      order_(spec.random ? OrderKind::kShuffled : OrderKind::kSequential,
             region_bytes / spec.block_bytes, thread + 1),
      stop_(stop),
      writer_(make_durable_writer(spec, fd)),
      buffer_(std::aligned_alloc(
          kBufferAlign, (spec.block_bytes + kBufferAlign - 1) / kBufferAlign * kBufferAlign)),
      slots_(spec.iodepth) {
  if (buffer_ == nullptr) throw std::bad_alloc();
  std::memset(buffer_, 'o', spec.block_bytes);
}

OsyncWorker::~OsyncWorker() {
  join();
  std::free(buffer_);
}

bool OsyncWorker::submit(unsigned slot) {
  const uint64_t offset = region_start_ + order_.next() * spec_.block_bytes;
  slots_[slot] = {next_id(slot), monotonic_ns()};
  int error = 0;
  do {
    error = writer_->submit(slot, buffer_, static_cast<uint32_t>(spec_.block_bytes), offset);
  } while (error == -EAGAIN || error == -EINTR);
  if (error < 0) {
    add_error("submitting a write to " + spec_.path(), -error);
    return false;
  }
  if (writer_->call_kind() != writer_->write_kind()) {
    record(writer_->call_kind(), slots_[slot].id, slots_[slot].start_ns, monotonic_ns(), 1);
  }
  return true;
}

bool OsyncWorker::finish_one(unsigned& slot) {
  const DurableWriter::Done done = writer_->wait();
  if (done.slot >= slots_.size()) {
    add_error("waiting for a write to " + spec_.path(), static_cast<int>(-done.result));
    return false;
  }
  slot = done.slot;
  record(writer_->write_kind(), slots_[slot].id, slots_[slot].start_ns, monotonic_ns(),
         done.result);
  if (done.result != static_cast<int64_t>(spec_.block_bytes)) {
    add_error("writing to " + spec_.path(),
              done.result < 0 ? static_cast<int>(-done.result) : ENOSPC);
    return false;
  }
  ++writes_;
  bytes_ += spec_.block_bytes;
  if (spec_.live) spec_.live->add(spec_.block_bytes);
  return true;
}

void OsyncWorker::run(uint64_t start_ns) {
  const uint64_t end_ns = spec_.runtime_ns == 0 ? UINT64_MAX : start_ns + spec_.runtime_ns;
  auto over = [&] { return stop_.requested() || monotonic_ns() >= end_ns; };
  unsigned in_flight = 0;
  bool failed = false;
  unsigned slot = 0;
  for (; slot < slots_.size() && !failed && !over(); ++slot) {
    failed = !submit(slot);
    if (!failed) ++in_flight;
  }
  while (in_flight > 0) {
    unsigned done = 0;
    --in_flight;
    failed = !finish_one(done) || failed;
    if (failed || over()) continue;
    failed = !submit(done);
    if (!failed) ++in_flight;
  }
}

bool OsyncLoad::prepare(const LayoutHooks& hooks) {
  uint64_t bytes = spec_.size_bytes;
  if (spec_.raw()) {
    claim_ = claim_device(spec_.device, spec_.destroy_data);
    const uint64_t all = device_bytes(claim_, spec_.device);
    if (bytes > all) {
      throw usage_error("--size {}: {} has {}", format_size(bytes), spec_.device, format_size(all));
    }
    if (bytes == 0) bytes = all;
  } else {
    files_.check({{.path = spec_.path(),
                   .bytes = bytes,
                   .fill = spec_.fallocated ? Fill::kPreallocate : Fill::kWrite}});
    if (!files_.create(hooks)) return false;
  }
  const uint64_t region = bytes / spec_.threads / spec_.block_bytes * spec_.block_bytes;
  if (region == 0) {
    throw usage_error("{} is too small for {} threads with blocks of {}", spec_.path(),
                      spec_.threads, format_size(spec_.block_bytes));
  }
  try {
    file_ = open_durable(spec_);
    for (unsigned thread = 0; thread < spec_.threads; ++thread) {
      workers_.push_back(std::make_unique<OsyncWorker>(thread, log_, spec_, file_.get(),
                                                       thread * region, region, stop_));
    }
  } catch (...) {
    files_.remove_created();
    throw;
  }
  return true;
}

nlohmann::json OsyncLoad::figures(uint64_t elapsed_ns) const {
  uint64_t writes = 0;
  uint64_t bytes = 0;
  nlohmann::json by_thread = nlohmann::json::array();
  for (const auto& worker : workers_) {
    const auto& writer = static_cast<const OsyncWorker&>(*worker);
    writes += writer.writes();
    bytes += writer.bytes();
    by_thread.push_back(writer.writes());
  }
  const double elapsed = static_cast<double>(elapsed_ns) / 1e9;
  return {{"iops", elapsed > 0 ? static_cast<double>(writes) / elapsed : 0},
          {"mb_per_s", elapsed > 0 ? static_cast<double>(bytes) / elapsed / 1e6 : 0},
          {"writes", writes},
          {"bytes_written", bytes},
          {"writes_by_thread", by_thread}};
}

}  // namespace stalltrace::workloads

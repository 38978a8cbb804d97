#define FUSE_USE_VERSION 312

#include "workloads/disk/server.h"

#include <fuse_lowlevel.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "userspace/base/error.h"
#include "workloads/disk/process.h"

namespace stalltrace::disk {
namespace {

constexpr fuse_ino_t kFileInode = 2;
constexpr const char* kFileName = "disk";
constexpr unsigned kMaxWrite = 1U << 20;
// More than a loop device's requests, each of which may become two: FUSE's default of 12 in the
// background would serialize the disk.
constexpr unsigned kMaxBackground = 1024;
constexpr double kForever = 1e9;
// A wait so short is slept through where the request arrived: handing it to the timer's thread and
// waking that would take as long again. A profile's requests of that kind are a fast device's, of
// which a few threads serve tens of thousands a second.
constexpr uint64_t kShortNs = 150'000;

void sleep_until_ns(uint64_t due_ns) {
  const timespec due{static_cast<time_t>(due_ns / 1'000'000'000),
                     static_cast<long>(due_ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) == EINTR) {
  }
}

}  // namespace

struct ServerOperations {
  static Server& server(fuse_req_t request) {
    return *static_cast<Server*>(fuse_req_userdata(request));
  }

  static void init(void* /*server*/, fuse_conn_info* connection) {
    connection->want |= connection->capable & FUSE_CAP_ASYNC_DIO;
    connection->want &= ~static_cast<unsigned>(FUSE_CAP_WRITEBACK_CACHE);
    connection->max_write = kMaxWrite;
    connection->max_background = kMaxBackground;
    connection->congestion_threshold = kMaxBackground;
  }

  static struct stat attributes(const Server& server, fuse_ino_t inode) {
    struct stat attributes {};
    attributes.st_ino = inode;
    attributes.st_blksize = 4096;
    if (inode == kFileInode) {
      attributes.st_mode = S_IFREG | 0600;
      attributes.st_nlink = 1;
      attributes.st_size = static_cast<off_t>(server.store().size_bytes());
    } else {
      attributes.st_mode = S_IFDIR | 0700;
      attributes.st_nlink = 2;
    }
    return attributes;
  }

  static void lookup(fuse_req_t request, fuse_ino_t /*parent*/, const char* name) {
    if (std::strcmp(name, kFileName) != 0) {
      fuse_reply_err(request, ENOENT);
      return;
    }
    fuse_entry_param entry{};
    entry.ino = kFileInode;
    entry.attr = attributes(server(request), kFileInode);
    entry.attr_timeout = kForever;
    entry.entry_timeout = kForever;
    fuse_reply_entry(request, &entry);
  }

  static void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* /*file*/) {
    const struct stat result = attributes(server(request), inode);
    fuse_reply_attr(request, &result, kForever);
  }

  static void open(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* file) {
    file->direct_io = 1;
    fuse_reply_open(request, file);
  }

  static void statfs(fuse_req_t request, fuse_ino_t /*inode*/) {
    struct statvfs result {};
    // The loop driver takes its discard granularity from here.
    result.f_bsize = 4096;
    result.f_frsize = 4096;
    result.f_blocks = server(request).store().size_bytes() / 4096;
    result.f_files = 1;
    result.f_namemax = 255;
    fuse_reply_statfs(request, &result);
  }

  static void read(fuse_req_t request, fuse_ino_t /*inode*/, size_t bytes, off_t offset,
                   fuse_file_info* /*file*/) {
    const uint64_t now = monotonic_ns();
    Server& self = server(request);
    const auto from = std::min(static_cast<uint64_t>(offset), self.store().size_bytes());
    const uint64_t length = std::min<uint64_t>(bytes, self.store().size_bytes() - from);
    self.serve({request, Op::kRead, now, from, length, self.medium_.begin_read()});
  }

  static void write(fuse_req_t request, fuse_ino_t /*inode*/, const char* data, size_t bytes,
                    off_t offset, fuse_file_info* /*file*/) {
    const uint64_t now = monotonic_ns();
    Server& self = server(request);
    const auto from = static_cast<uint64_t>(offset);
    if (!self.store().contains(from, bytes)) {
      fuse_reply_err(request, ENOSPC);
      return;
    }
    std::vector<Extent> pushed_out;
    const auto ticket = self.medium_.write(from, data, bytes, pushed_out);
    self.serve({request, Op::kWrite, now, from, bytes, ticket}, pushed_out);
  }

  static void fsync(fuse_req_t request, fuse_ino_t /*inode*/, int /*datasync*/,
                    fuse_file_info* /*file*/) {
    const uint64_t now = monotonic_ns();
    Server& self = server(request);
    std::vector<Extent> to_drain;
    const auto ticket = self.medium_.begin_flush(to_drain);
    self.serve({request, Op::kFlush, now, 0, 0, ticket}, to_drain);
  }

  static void fallocate(fuse_req_t request, fuse_ino_t /*inode*/, int mode, off_t offset,
                        off_t bytes, fuse_file_info* /*file*/) {
    const uint64_t now = monotonic_ns();
    Server& self = server(request);
    const auto from = static_cast<uint64_t>(offset);
    const auto length = static_cast<uint64_t>(bytes);
    if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) == 0) {
      fuse_reply_err(request, EOPNOTSUPP);
      return;
    }
    if (!self.store().contains(from, length)) {
      fuse_reply_err(request, EINVAL);
      return;
    }
    self.serve({request, Op::kDiscard, now, from, length, self.medium_.discard(from, length)});
  }
};

Server::Server(const DiskOptions& options, const Profile& profile, Schedule schedule,
               const TruthWriter* truth)
    : medium_(options.size_bytes, profile.cache == Cache::kVolatile ? profile.cache_bytes : 0,
              options.lie_one_in, options.seed),
      profile_(profile),
      seed_(options.seed),
      truth_(truth) {
  if (!profile.name.empty()) model_.emplace(profile, options.seed);
  set_schedule(std::move(schedule));
}

Server::~Server() {
  if (session_ != nullptr) fuse_session_destroy(session_);
}

void Server::mount(const std::string& folder, const std::string& label) {
  fuse_lowlevel_ops operations{};
  operations.init = ServerOperations::init;
  operations.lookup = ServerOperations::lookup;
  operations.getattr = ServerOperations::getattr;
  operations.open = ServerOperations::open;
  operations.statfs = ServerOperations::statfs;
  operations.read = ServerOperations::read;
  operations.write = ServerOperations::write;
  operations.fsync = ServerOperations::fsync;
  operations.fallocate = ServerOperations::fallocate;

  std::string program = "stalltrace";
  std::string flag = "-o";
  std::string options = "fsname=" + label + ",subtype=stalltrace,nosuid,nodev,noexec";
  std::vector<char*> words{program.data(), flag.data(), options.data()};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), words.data());
  session_ = fuse_session_new(&arguments, &operations, sizeof operations, this);
  fuse_opt_free_args(&arguments);
  errno = 0;
  if (session_ == nullptr || fuse_session_mount(session_, folder.c_str()) != 0) {
    throw refused_error("cannot mount the disk's file system: {}",
                        errno != 0 ? std::strerror(errno) : "libfuse gave no reason");
  }
  created_ns_ = monotonic_ns();
}

void Server::run() {
  const unsigned threads = std::clamp(2 * std::thread::hardware_concurrency(), 4U, 16U);
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_clone_fd(config, 1);
  fuse_loop_cfg_set_max_threads(config, threads);
  // As many idle as there are: threads that come and go cost more than they save.
  fuse_loop_cfg_set_idle_threads(config, threads);
  fuse_session_loop_mt(session_, config);
  fuse_loop_cfg_destroy(config);
}

void Server::set_schedule(Schedule schedule) {
  const std::lock_guard lock(schedule_mutex_);
  schedules_.push_back(std::make_unique<const Schedule>(std::move(schedule)));
  schedule_.store(schedules_.back().get(), std::memory_order_release);
}

void Server::hurry() {
  hurried_.store(true);
  queue_.hurry();
}

std::optional<CutOutcome> Server::cut(std::optional<uint64_t> seed, bool only_undrained) {
  CutOutcome outcome;
  outcome.seed = seed.value_or(seed_ + cuts_);
  const auto cut = medium_.cut(outcome.seed, only_undrained);
  if (!cut) return std::nullopt;
  ++cuts_;
  outcome.at_ns = cut->at_ns;
  outcome.writes_dropped = cut->survival.writes_dropped;
  outcome.writes_kept = cut->survival.writes_kept;
  outcome.pages_dropped = cut->survival.pages_dropped;
  outcome.pages_kept = cut->survival.pages_kept;
  outcome.writes_in_flight = delayed_[static_cast<size_t>(Op::kWrite)];
  outcome.flushes_in_flight = delayed_[static_cast<size_t>(Op::kFlush)];
  queue_.run_all_now();
  return outcome;
}

uint64_t Server::plain_time_ns(Op op) const {
  switch (op) {
    case Op::kRead:
      return profile_.read.from_ns;
    case Op::kWrite:
      return profile_.write.from_ns;
    case Op::kFlush:
      return profile_.flush.from_ns;
    case Op::kDiscard:
      break;
  }
  return 0;
}

uint64_t Server::due_ns(const Request& request, const std::vector<Extent>& drained) {
  const uint64_t arrival_ns = request.start_ns;
  if (hurried_.load(std::memory_order_relaxed)) return arrival_ns;
  if (request.ticket.power == 0 || request.ticket.lies) return arrival_ns;
  const Schedule& schedule = *schedule_.load(std::memory_order_acquire);
  if (const auto delay = schedule.delay_ns(request.op, arrival_ns - created_ns_)) {
    return arrival_ns + *delay;
  }
  if (!model_) return arrival_ns + plain_time_ns(request.op);
  return model_->due_ns(request.op, {request.offset, request.bytes}, arrival_ns, drained);
}

void Server::serve(const Request& request, const std::vector<Extent>& drained) {
  const uint64_t due = due_ns(request, drained);
  if (due == request.start_ns) {
    complete(request);
    return;
  }
  ++delayed_[static_cast<size_t>(request.op)];
  if (model_ && due - request.start_ns < kShortNs) {
    sleep_until_ns(due);
    finish_delayed(request);
  } else {
    queue_.add(due, [this, request] { finish_delayed(request); });
  }
}

void Server::finish_delayed(const Request& request) {
  --delayed_[static_cast<size_t>(request.op)];
  complete(request);
}

void Server::complete(const Request& request) {
  const bool served = medium_.end(request.op, request.ticket);
  const uint64_t end_ns = monotonic_ns();
  if (truth_ != nullptr) {
    truth_->write({request.op, request.start_ns, end_ns, request.offset, request.bytes});
  }
  if (!served) {
    fuse_reply_err(request.handle, EIO);
    return;
  }
  switch (request.op) {
    case Op::kRead:
      fuse_reply_buf(request.handle, store().at(request.offset), request.bytes);
      break;
    case Op::kWrite:
      fuse_reply_write(request.handle, request.bytes);
      break;
    case Op::kFlush:
    case Op::kDiscard:
      fuse_reply_err(request.handle, 0);
      break;
  }
}

}  // namespace stalltrace::disk

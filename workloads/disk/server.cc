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
      attributes.st_size = static_cast<off_t>(server.store_.size_bytes());
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
    result.f_blocks = server(request).store_.size_bytes() / 4096;
    result.f_files = 1;
    result.f_namemax = 255;
    fuse_reply_statfs(request, &result);
  }

  static void read(fuse_req_t request, fuse_ino_t /*inode*/, size_t bytes, off_t offset,
                   fuse_file_info* /*file*/) {
    const uint64_t now = monotonic_ns();
    Server& self = server(request);
    const auto from = std::min(static_cast<uint64_t>(offset), self.store_.size_bytes());
    const uint64_t length = std::min<uint64_t>(bytes, self.store_.size_bytes() - from);
    self.serve({request, Op::kRead, now, from, length});
  }

  static void write(fuse_req_t request, fuse_ino_t /*inode*/, const char* data, size_t bytes,
                    off_t offset, fuse_file_info* /*file*/) {
    const uint64_t now = monotonic_ns();
    Server& self = server(request);
    const auto from = static_cast<uint64_t>(offset);
    if (!self.store_.contains(from, bytes)) {
      fuse_reply_err(request, ENOSPC);
      return;
    }
    self.store_.write(from, data, bytes);
    self.serve({request, Op::kWrite, now, from, bytes});
  }

  static void fsync(fuse_req_t request, fuse_ino_t /*inode*/, int /*datasync*/,
                    fuse_file_info* /*file*/) {
    server(request).serve({request, Op::kFlush, monotonic_ns(), 0, 0});
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
    if (!self.store_.contains(from, length)) {
      fuse_reply_err(request, EINVAL);
      return;
    }
    self.store_.discard(from, length);
    self.serve({request, Op::kDiscard, now, from, length});
  }
};

Server::Server(uint64_t size_bytes, const ServiceTimes& times, Schedule schedule,
               const TruthWriter* truth)
    : store_(size_bytes), times_(times), truth_(truth) {
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

uint64_t Server::delay_ns(Op op, uint64_t arrival_ns) const {
  if (hurried_.load(std::memory_order_relaxed)) return 0;
  const Schedule& schedule = *schedule_.load(std::memory_order_acquire);
  if (const auto delay = schedule.delay_ns(op, arrival_ns - created_ns_)) return *delay;
  switch (op) {
    case Op::kRead:
      return times_.read_ns;
    case Op::kWrite:
      return times_.write_ns;
    case Op::kFlush:
      return times_.flush_ns;
    case Op::kDiscard:
      break;
  }
  return 0;
}

void Server::serve(const Request& request) {
  const uint64_t delay = delay_ns(request.op, request.start_ns);
  if (delay == 0) {
    complete(request);
  } else {
    queue_.add(request.start_ns + delay, [this, request] { complete(request); });
  }
}

void Server::complete(const Request& request) const {
  const uint64_t end_ns = monotonic_ns();
  if (truth_ != nullptr) {
    truth_->write({request.op, request.start_ns, end_ns, request.offset, request.bytes});
  }
  switch (request.op) {
    case Op::kRead:
      fuse_reply_buf(request.handle, store_.at(request.offset), request.bytes);
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

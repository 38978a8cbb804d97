#include "workloads/nowait.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace stalltrace::workloads {
namespace {

constexpr std::array<std::string_view, kRefusedWhys> kWhyNames{
    "beyond_the_end", "hole",          "unwritten_extent", "cached_pages",
    "not_told",       "not_supported", "done_in_part",     "not_looked_at"};

long voluntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// cachestat(2), 6.5: younger than the C library's headers.
constexpr long kCachestat = 451;
struct CachestatRange {
  uint64_t offset, bytes;
};
struct Cachestat {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

// Direct I/O first writes out what is dirty there; a write drops what is clean as well
// (kiocb_write_and_wait and kiocb_invalidate_pages in mm/filemap.c).
bool waits_for_pages(const NowaitTally::Refused& call) {
  const int flags = fcntl(call.fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0) return false;
  CachestatRange range{call.offset, call.bytes};
  Cachestat pages{};
  if (syscall(kCachestat, call.fd, &range, &pages, 0) != 0) return false;
  return call.write ? pages.cached > 0 : pages.dirty + pages.writeback > 0;
}

// From "ext4: dio take shared inode lock when overwriting preallocated blocks" on they count as
// any other block.
bool refuses_unwritten(int fd) {
  static const bool before_6_3 = [] {
    utsname name{};
    unsigned major = 0;
    unsigned minor = 0;
    return uname(&name) == 0 && std::sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
           std::pair(major, minor) < std::pair(6U, 3U);
  }();
  struct statfs system {};
  return before_6_3 && fstatfs(fd, &system) == 0 && system.f_type == EXT4_SUPER_MAGIC;
}

RefusedWhy look_at_extent(const NowaitTally::Refused& call) {
  alignas(fiemap) std::array<char, sizeof(fiemap) + sizeof(fiemap_extent)> memory{};
  auto* map = reinterpret_cast<fiemap*>(memory.data());
  map->fm_start = call.offset;
  map->fm_length = call.bytes;
  map->fm_extent_count = 1;
  if (ioctl(call.fd, FS_IOC_FIEMAP, map) != 0) return RefusedWhy::kNotTold;
  if (map->fm_mapped_extents == 0) return RefusedWhy::kHole;
  fiemap_extent extent{};
  std::memcpy(&extent, memory.data() + sizeof(fiemap), sizeof(extent));
  if (extent.fe_logical > call.offset) return RefusedWhy::kHole;
  // Delayed: its pages are in the cache.
  const bool unwritten = (extent.fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0;
  return unwritten && refuses_unwritten(call.fd) ? RefusedWhy::kUnwritten : RefusedWhy::kNotTold;
}

RefusedWhy look_at(const NowaitTally::Refused& call) {
  RefusedWhy why = RefusedWhy::kNotTold;
  if (call.write) {
    struct stat status {};
    if (fstat(call.fd, &status) == 0 && S_ISREG(status.st_mode) &&
        call.offset + call.bytes > static_cast<uint64_t>(status.st_size)) {
      return RefusedWhy::kBeyondEnd;
    }
    why = look_at_extent(call);
  }
  if (why == RefusedWhy::kNotTold && waits_for_pages(call)) return RefusedWhy::kCached;
  return why;
}

}  // namespace

std::string_view refused_why_name(RefusedWhy why) {
  return kWhyNames[static_cast<size_t>(why)];
}

void NowaitTally::before_call() {
  switches_ = voluntary_switches();
}

void NowaitTally::after_call(uint64_t duration_ns) {
  ++calls_;
  if (voluntary_switches() == switches_) return;
  ++blocked_;
  longest_ns_ = std::max(longest_ns_, duration_ns);
}

bool NowaitTally::refused(int64_t result, uint64_t bytes) {
  return result == -EAGAIN || result == -EOPNOTSUPP ||
         (result > 0 && static_cast<uint64_t>(result) < bytes);
}

void NowaitTally::add_refused(const Refused& call) {
  ++refused_;
  RefusedWhy why = RefusedWhy::kNotLooked;
  if (call.result == -EOPNOTSUPP) {
    why = RefusedWhy::kUnsupported;
  } else if (call.result > 0) {
    why = RefusedWhy::kPartly;
  } else if (looks_ < kMostLooks) {
    ++looks_;
    why = look_at(call);
  }
  ++why_[static_cast<size_t>(why)];
}

void NowaitTally::merge(const NowaitTally& other) {
  calls_ += other.calls_;
  blocked_ += other.blocked_;
  longest_ns_ = std::max(longest_ns_, other.longest_ns_);
  refused_ += other.refused_;
  for (size_t i = 0; i < why_.size(); ++i) why_[i] += other.why_[i];
}

nlohmann::json NowaitTally::to_json() const {
  nlohmann::json why = nlohmann::json::object();
  for (size_t i = 0; i < why_.size(); ++i) {
    if (why_[i] > 0) why[std::string(kWhyNames[i])] = why_[i];
  }
  return {{"calls", calls_},
          {"blocked", blocked_},
          {"blocked_longest_us", static_cast<double>(longest_ns_) / 1e3},
          {"refused", refused_},
          {"refused_why", why}};
}

}  // namespace stalltrace::workloads

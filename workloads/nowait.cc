#include "workloads/nowait.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stalltrace::workloads {
namespace {

constexpr std::array<std::string_view, kRefusedWhys> kWhyNames{
    "beyond_the_end", "hole",         "unwritten_extent", "lock_journal_or_queue",
    "not_supported",  "done_in_part", "not_looked_at"};

long voluntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

RefusedWhy look_at_block(int fd, uint64_t offset, uint64_t bytes) {
  struct stat status {};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      offset + bytes > static_cast<uint64_t>(status.st_size)) {
    return RefusedWhy::kBeyondEnd;
  }
  alignas(fiemap) std::array<char, sizeof(fiemap) + sizeof(fiemap_extent)> memory{};
  auto* map = reinterpret_cast<fiemap*>(memory.data());
  map->fm_start = offset;
  map->fm_length = bytes;
  map->fm_extent_count = 1;
  if (ioctl(fd, FS_IOC_FIEMAP, map) != 0) return RefusedWhy::kMapped;
  if (map->fm_mapped_extents == 0) return RefusedWhy::kHole;
  fiemap_extent extent{};
  std::memcpy(&extent, memory.data() + sizeof(fiemap), sizeof(extent));
  if (extent.fe_logical > offset) return RefusedWhy::kHole;
  return (extent.fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0 ? RefusedWhy::kUnwritten
                                                          : RefusedWhy::kMapped;
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

void NowaitTally::add_refused(int fd, uint64_t offset, uint64_t bytes, int64_t result) {
  ++refused_;
  RefusedWhy why = RefusedWhy::kNotLooked;
  if (result == -EOPNOTSUPP) {
    why = RefusedWhy::kUnsupported;
  } else if (result > 0) {
    why = RefusedWhy::kPartly;
  } else if (looks_ < kMostLooks) {
    ++looks_;
    why = look_at_block(fd, offset, bytes);
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

// What became of I/O with RWF_NOWAIT: refused because it would have waited, or blocked all the
// same.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace stalltrace::workloads {

// The kernel says EAGAIN and no more. A reason is given only where the state in which the file was
// found right after it refuses such a call by itself.
enum class RefusedWhy {
  kBeyondEnd,    // a write: the file would have grown
  kHole,         // a write: no block was allocated there
  kUnwritten,    // a write, ext4 before 6.3: an extent that is reserved and not written
  kCached,       // pages in the cache that have to be written out, or dropped for a write, first
  kNotTold,      // none of these: a lock, the journal or the queue was not free
  kUnsupported,  // EOPNOTSUPP: the file system cannot do it so
  kPartly,       // a part was done
  kNotLooked     // beyond what is looked at
};
inline constexpr size_t kRefusedWhys = 8;
std::string_view refused_why_name(RefusedWhy why);

class NowaitTally {
 public:
  // Around a submitting call: whether its thread went to sleep in it.
  void before_call();
  void after_call(uint64_t duration_ns);

  // Whether `result` is a refusal of `bytes` and not a failure.
  static bool refused(int64_t result, uint64_t bytes);
  struct Refused {
    int fd;
    bool write;
    uint64_t offset;
    uint64_t bytes;
    int64_t result;
  };
  void add_refused(const Refused& call);

  void merge(const NowaitTally& other);
  void clear() { *this = {}; }

  // {"calls","blocked","blocked_longest_us","refused","refused_why":{...}}
  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] uint64_t refused_count() const { return refused_; }

 private:
  // FIEMAP is a call of its own, which takes the inode's lock as well: a few tell enough.
  static constexpr uint64_t kMostLooks = 256;

  uint64_t calls_ = 0;
  uint64_t blocked_ = 0;
  uint64_t longest_ns_ = 0;
  uint64_t refused_ = 0;
  uint64_t looks_ = 0;
  long switches_ = 0;
  std::array<uint64_t, kRefusedWhys> why_{};
};

}  // namespace stalltrace::workloads

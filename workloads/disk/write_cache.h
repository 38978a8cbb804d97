// A volatile write cache, by pages of 4 KiB: for each page the newest contents (which lie in the
// store, where reads find them), those it had since the last flush, and the stable one below.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workloads/disk/extent.h"
#include "workloads/disk/random.h"
#include "workloads/disk/store.h"

namespace stalltrace::disk {

// What a power cut did to the writes that had been completed and not drained.
struct Survival {
  uint64_t writes_dropped = 0;  // of which at least a page lost what was written
  uint64_t writes_kept = 0;
  uint64_t pages_dropped = 0;  // that went back to older contents
  uint64_t pages_kept = 0;
};

// Not synchronized: its owner holds a lock.
class WriteCache {
 public:
  // Beyond `capacity_bytes` the oldest pages are pushed out and thereby stable.
  WriteCache(Store& store, uint64_t capacity_bytes);

  // Writes are numbered in the order in which they begin. A write is in the store at once, but no
  // flush drains it that began before it was completed. Returns its number; `pushed_out` takes
  // what had to leave.
  uint64_t begin_write(uint64_t offset, const char* data, uint64_t bytes,
                       std::vector<Extent>& pushed_out);
  void end_write(uint64_t number) { in_flight_.erase(number); }

  // Zeros, stable at once (a disk may drain when it likes); parts of pages are written instead.
  void discard(uint64_t offset, uint64_t bytes);

  // `to_drain` takes what will be stable at its end, in order.
  uint64_t begin_flush(std::vector<Extent>& to_drain);
  void end_flush(uint64_t number);
  // A flush that is acknowledged and drains nothing. What it should have drained counts as drained
  // from now on: later flushes pass it over, until it is written anew or pushed out.
  void lie();
  // As after some time without a request.
  void drain();

  // Some completed write waits for a flush.
  [[nodiscard]] bool has_undrained() const;

  // Each page keeps any of its contents, those of writes in flight too; a fresh likelihood for each
  // cut. If there was something to lose, something is lost. Nothing is cached afterwards.
  Survival cut(Random& random);

 private:
  using Page = std::array<char, 4096>;
  struct Version {
    uint64_t number;                 // of the write
    std::unique_ptr<Page> contents;  // none: in the store (the newest)
  };
  struct Entry {
    std::unique_ptr<Page> stable;
    std::vector<Version> versions;  // at least one, oldest first
    uint64_t birth = 0;
    uint64_t passed_over = 0;  // versions up to this number count as drained, and are not
  };
  struct Flush {
    uint64_t last_number;  // of the writes begun before it
    std::set<uint64_t> in_flight;
  };
  struct Choice {
    uint64_t page;
    size_t keep;  // how many of its versions; 0: the stable contents only
    bool may_lose;
  };

  void note(uint64_t page, uint64_t number);
  [[nodiscard]] std::unique_ptr<Page> copy(uint64_t page) const;
  // The versions that `flush` drains; 0: none.
  [[nodiscard]] static size_t drained_versions(const Entry& entry, const Flush& flush);
  [[nodiscard]] bool is_completed(const Version& version) const {
    return in_flight_.count(version.number) == 0;
  }
  void make_stable(Entry& entry, size_t versions);
  void push_out(std::vector<Extent>& pushed_out);
  void forget(uint64_t page);
  [[nodiscard]] std::vector<uint64_t> sorted_pages() const;
  [[nodiscard]] std::vector<Choice> choose(Random& random) const;
  [[nodiscard]] Survival count(const std::vector<Choice>& choices) const;
  void clear();

  Store& store_;
  uint64_t capacity_pages_;
  uint64_t copies_ = 0;  // pages of memory
  uint64_t last_number_ = 0;
  uint64_t last_flush_ = 0;
  uint64_t last_birth_ = 0;
  std::set<uint64_t> in_flight_;
  std::map<uint64_t, Flush> flushes_;
  std::unordered_map<uint64_t, Entry> pages_;
  std::deque<std::pair<uint64_t, uint64_t>> oldest_;  // page and birth; some are stable by now
};

}  // namespace stalltrace::disk

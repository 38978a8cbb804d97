// What keeps the data: the store, a volatile cache above it where the disk has one, and the power
// that both need.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "workloads/disk/extent.h"
#include "workloads/disk/schedule.h"
#include "workloads/disk/store.h"
#include "workloads/disk/write_cache.h"

namespace stalltrace::disk {

class Medium {
 public:
  // What a request has to show at its end.
  struct Ticket {
    uint64_t power = 0;   // the time of power that it arrived in; 0: there was none
    uint64_t number = 0;  // the cache's, of a write or a flush
    bool lies = false;    // a flush that drains nothing
  };

  // `cache_bytes` 0: no volatile cache, a write is stable at once. `lie_one_in` 0: never.
  Medium(uint64_t size_bytes, uint64_t cache_bytes, uint64_t lie_one_in, uint64_t seed);

  [[nodiscard]] const Store& store() const { return store_; }

  // Where there is no power, nothing happens and the ticket has none. From any thread.
  Ticket begin_read() { return {power_.load(), 0, false}; }
  // `pushed_out` takes what left a full cache.
  Ticket write(uint64_t offset, const char* data, uint64_t bytes, std::vector<Extent>& pushed_out);
  Ticket discard(uint64_t offset, uint64_t bytes);
  // `to_drain` takes what will be stable at its end.
  Ticket begin_flush(std::vector<Extent>& to_drain);

  // False if the power was cut since the request arrived: it must fail. Once it is true of a
  // flush, what that drained survives any cut.
  bool end(Op op, const Ticket& ticket);

  [[nodiscard]] bool has_power() const { return power_.load() != 0; }
  struct Cut {
    uint64_t at_ns;  // no request that ends later succeeds
    Survival survival;
  };
  // None if there is no power, or if nothing waits for a flush and `only_undrained`.
  std::optional<Cut> cut(uint64_t seed, bool only_undrained);
  // False if it is on.
  bool power_on();
  // What is cached becomes stable.
  void drain();

 private:
  std::shared_mutex mutex_;  // shared where there is no cache: its requests do not wait for another
  Store store_;
  std::unique_ptr<WriteCache> cache_;
  uint64_t lie_one_in_;
  Random lies_;
  uint64_t cuts_ = 0;
  std::atomic<uint64_t> power_{1};
};

}  // namespace stalltrace::disk

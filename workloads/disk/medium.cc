#include "workloads/disk/medium.h"

#include <mutex>

#include "userspace/base/clock.h"

namespace stalltrace::disk {

Medium::Medium(uint64_t size_bytes, uint64_t cache_bytes, uint64_t lie_one_in, uint64_t seed)
    : store_(size_bytes), lie_one_in_(lie_one_in), lies_(seed) {
  if (cache_bytes > 0) cache_ = std::make_unique<WriteCache>(store_, cache_bytes);
}

Medium::Ticket Medium::write(uint64_t offset, const char* data, uint64_t bytes,
                             std::vector<Extent>& pushed_out) {
  if (!cache_) {
    const std::shared_lock lock(mutex_);
    const Ticket ticket = begin_read();
    if (ticket.power != 0) store_.write(offset, data, bytes);
    return ticket;
  }
  const std::lock_guard lock(mutex_);
  Ticket ticket = begin_read();
  if (ticket.power != 0) ticket.number = cache_->begin_write(offset, data, bytes, pushed_out);
  return ticket;
}

Medium::Ticket Medium::discard(uint64_t offset, uint64_t bytes) {
  if (!cache_) {
    const std::shared_lock lock(mutex_);
    const Ticket ticket = begin_read();
    if (ticket.power != 0) store_.discard(offset, bytes);
    return ticket;
  }
  const std::lock_guard lock(mutex_);
  const Ticket ticket = begin_read();
  if (ticket.power != 0) cache_->discard(offset, bytes);
  return ticket;
}

Medium::Ticket Medium::begin_flush(std::vector<Extent>& to_drain) {
  if (!cache_) return begin_read();
  const std::lock_guard lock(mutex_);
  Ticket ticket = begin_read();
  if (ticket.power == 0) return ticket;
  ticket.lies = lie_one_in_ > 0 && lies_.below(lie_one_in_) == 0;
  if (ticket.lies) {
    cache_->lie();
  } else {
    ticket.number = cache_->begin_flush(to_drain);
  }
  return ticket;
}

bool Medium::end(Op op, const Ticket& ticket) {
  if (!cache_ || op == Op::kRead || op == Op::kDiscard) {
    return ticket.power != 0 && ticket.power == power_.load();
  }
  const std::lock_guard lock(mutex_);
  if (ticket.power == 0 || ticket.power != power_.load()) return false;
  if (op == Op::kWrite) cache_->end_write(ticket.number);
  if (op == Op::kFlush && !ticket.lies) cache_->end_flush(ticket.number);
  return true;
}

std::optional<Medium::Cut> Medium::cut(uint64_t seed, bool only_undrained) {
  const std::lock_guard lock(mutex_);
  if (!has_power()) return std::nullopt;
  if (only_undrained && (!cache_ || !cache_->has_undrained())) return std::nullopt;
  power_.store(0);
  Cut cut{monotonic_ns(), {}};
  ++cuts_;
  Random random(seed);
  if (cache_) cut.survival = cache_->cut(random);
  return cut;
}

bool Medium::power_on() {
  const std::lock_guard lock(mutex_);
  if (has_power()) return false;
  power_.store(cuts_ + 1);
  return true;
}

void Medium::drain() {
  const std::lock_guard lock(mutex_);
  if (cache_ && has_power()) cache_->drain();
}

}  // namespace stalltrace::disk

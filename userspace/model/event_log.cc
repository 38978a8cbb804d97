#include "userspace/model/event_log.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "bpf/wire.h"

namespace stalltrace::model {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

// What makes two events tell of the same thing: its kind, whose it is, and when it began.
using Identity = std::tuple<uint32_t, uint64_t, uint64_t, uint64_t>;

template <typename Event>
std::optional<Identity> identity_of(std::span<const std::byte> bytes, size_t fixed,
                                    Identity (*make)(const Event&)) {
  if (bytes.size() < fixed) return std::nullopt;
  Event event{};
  std::memcpy(&event, bytes.data(), std::min(bytes.size(), sizeof(event)));
  return make(event);
}

// None for kinds that only come when what they tell is over.
std::optional<Identity> identity_of(std::span<const std::byte> bytes) {
  wire::wire_header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const uint32_t kind = header.kind;
  switch (kind) {
    case wire::WIRE_CALL:
      return identity_of<wire::wire_call>(
          bytes, sizeof(wire::wire_call), [](const wire::wire_call& e) -> Identity {
            return {wire::WIRE_CALL, e.task.tid, e.start_ns, e.call};
          });
    case wire::WIRE_WAIT:
      return identity_of<wire::wire_wait>(bytes, offsetof(wire::wire_wait, stack),
                                          [](const wire::wire_wait& e) -> Identity {
                                            return {wire::WIRE_WAIT, e.task.tid, e.out_ns, 0};
                                          });
    case wire::WIRE_COMMIT:
      return identity_of<wire::wire_commit>(bytes, sizeof(wire::wire_commit),
                                            [](const wire::wire_commit& e) -> Identity {
                                              return {wire::WIRE_COMMIT, e.journal, e.tid, 0};
                                            });
    case wire::WIRE_HANDLE:
      return identity_of<wire::wire_handle>(bytes, sizeof(wire::wire_handle),
                                            [](const wire::wire_handle& e) -> Identity {
                                              return {wire::WIRE_HANDLE, e.task.tid, e.start_ns, 0};
                                            });
    case wire::WIRE_FLUSH:
      return identity_of<wire::wire_flush>(bytes, sizeof(wire::wire_flush),
                                           [](const wire::wire_flush& e) -> Identity {
                                             return {wire::WIRE_FLUSH, e.disk, e.issue_ns, e.queue};
                                           });
    case wire::WIRE_REQUEST:
      return identity_of<wire::wire_request>(
          bytes, sizeof(wire::wire_request), [](const wire::wire_request& e) -> Identity {
            return {wire::WIRE_REQUEST, e.times.disk, e.times.issue_ns, e.times.sector};
          });
    case wire::WIRE_ASYNC:
      return identity_of<wire::wire_async>(
          bytes, sizeof(wire::wire_async), [](const wire::wire_async& e) -> Identity {
            return {wire::WIRE_ASYNC, e.iocb, e.call_ns, e.user_id};
          });
    case wire::WIRE_FREEZE:
      return identity_of<wire::wire_freeze>(bytes, sizeof(wire::wire_freeze),
                                            [](const wire::wire_freeze& e) -> Identity {
                                              return {wire::WIRE_FREEZE, e.dev, e.start_ns, 0};
                                            });
    default:
      return std::nullopt;
  }
}

}  // namespace

void each_event(std::span<const std::byte> bytes, const TakeEvent& take) {
  while (bytes.size() >= sizeof(wire::wire_header)) {
    wire::wire_header header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.size < sizeof(header) || header.size > bytes.size()) return;
    take(bytes.first(header.size));
    bytes = bytes.subspan(header.size);
  }
}

void EventLog::add(std::span<const std::byte> event, uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (chunks_.empty() || chunks_.back()->bytes.size() + event.size() > kChunkBytes) {
    chunks_.push_back(std::make_shared<Chunk>());
    chunks_.back()->bytes.reserve(kChunkBytes);
    drop_old(now_ns);
  }
  Chunk& last = *chunks_.back();
  last.bytes.insert(last.bytes.end(), event.begin(), event.end());
  last.last_ns = now_ns;
  bytes_ += event.size();
}

void EventLog::drop_old(uint64_t now_ns) {
  while (chunks_.size() > 1 &&
         (bytes_ > most_bytes_ || chunks_.front()->last_ns + keep_ns_ < now_ns)) {
    bytes_ -= chunks_.front()->bytes.size();
    dropped_ns_ = chunks_.front()->last_ns;
    chunks_.pop_front();
  }
}

void EventLog::each_since(uint64_t since_ns, const TakeEvent& take) const {
  // Full chunks do not change any more; of the last one a copy is taken.
  std::vector<std::shared_ptr<const Chunk>> full;
  std::vector<std::byte> growing;
  {
    std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Chunk>& chunk : chunks_) {
      if (chunk->last_ns < since_ns) continue;
      if (chunk == chunks_.back()) {
        growing = chunk->bytes;
      } else {
        full.push_back(chunk);
      }
    }
  }
  for (const std::shared_ptr<const Chunk>& chunk : full) each_event(chunk->bytes, take);
  each_event(growing, take);
}

uint64_t EventLog::whole_since_ns() const {
  std::lock_guard lock(mutex_);
  return dropped_ns_;
}

size_t EventLog::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void each_with_standing(const EventLog& log, uint64_t since_ns, std::span<const std::byte> standing,
                        const TakeEvent& take) {
  std::map<Identity, std::span<const std::byte>> left;
  each_event(standing, [&](std::span<const std::byte> event) {
    if (std::optional<Identity> identity = identity_of(event)) left.emplace(*identity, event);
  });
  log.each_since(since_ns, [&](std::span<const std::byte> event) {
    if (std::optional<Identity> identity = identity_of(event)) left.erase(*identity);
    take(event);
  });
  for (const auto& [identity, event] : left) take(event);
}

}  // namespace stalltrace::model

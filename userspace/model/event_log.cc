#include "userspace/model/event_log.h"

#include <cstring>

#include "bpf/wire.h"

namespace stalltrace::model {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

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
    chunks_.back()->first_ns = now_ns;
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

uint64_t EventLog::oldest_ns() const {
  std::lock_guard lock(mutex_);
  return chunks_.empty() ? 0 : chunks_.front()->first_ns;
}

size_t EventLog::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace stalltrace::model

// The wire events of the last while, as they came, in bounded memory: what stands or has just
// happened is explained from it while tracing goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace stalltrace::model {

using TakeEvent = std::function<void(std::span<const std::byte> event)>;

// Events one after another, each as long as its header says; stops at one that cannot be.
void each_event(std::span<const std::byte> bytes, const TakeEvent& take);

class EventLog {
 public:
  // Keeps what came in the last `keep_ns`, and of that the last `most_bytes`.
  EventLog(uint64_t keep_ns, size_t most_bytes) : keep_ns_(keep_ns), most_bytes_(most_bytes) {}

  // From one thread; `now_ns` never goes back.
  void add(std::span<const std::byte> event, uint64_t now_ns);

  // From any thread, in order: what came at `since_ns` or later, and perhaps something before. An
  // event comes when what it tells has ended, so that whatever overlaps a time came after it.
  void each_since(uint64_t since_ns, const TakeEvent& take) const;

  // Since when nothing is missing; 0: all is kept that ever came.
  [[nodiscard]] uint64_t whole_since_ns() const;
  [[nodiscard]] size_t bytes() const;

 private:
  struct Chunk {
    std::vector<std::byte> bytes;
    uint64_t last_ns = 0;  // when the last of them came
  };
  void drop_old(uint64_t now_ns);

  const uint64_t keep_ns_;
  const size_t most_bytes_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<Chunk>> chunks_;  // the last one grows
  size_t bytes_ = 0;
  uint64_t dropped_ns_ = 0;  // when the last that was dropped had come
};

// What the log has since `since_ns`, then what `standing` tells of things that had not ended when
// it was taken and that the log does not know the end of, either. `standing` must be the older.
void each_with_standing(const EventLog& log, uint64_t since_ns, std::span<const std::byte> standing,
                        const TakeEvent& take);

}  // namespace stalltrace::model

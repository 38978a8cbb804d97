// Service times at known times: lines `FROM TO OP DELAY`, in time since the disk's creation
// (`5s 5.5s flush 1.5s`), `#` begins a comment.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::disk {

enum class Op { kRead, kWrite, kFlush, kDiscard };
inline constexpr std::array<const char*, 4> kOpNames{"read", "write", "flush", "discard"};

struct ScheduleWindow {
  uint64_t from_ns;
  uint64_t to_ns;
  Op op;
  uint64_t delay_ns;
};

class Schedule {
 public:
  Schedule() = default;

  // Throws a usage Error that names `name` and the line.
  static Schedule parse(std::string_view text, std::string_view name);
  // A file that cannot be read is a usage Error too.
  static Schedule load(const std::string& path);

  // The delay of a request that arrives at `at_ns` since creation: FROM is within a window, TO is
  // not. Where windows overlap the later line wins.
  [[nodiscard]] std::optional<uint64_t> delay_ns(Op op, uint64_t at_ns) const;
  [[nodiscard]] const std::vector<ScheduleWindow>& windows() const { return windows_; }

 private:
  std::vector<ScheduleWindow> windows_;
};

}  // namespace stalltrace::disk

// Steps that may sleep uninterruptibly for as long as a slow or dead disk takes.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <functional>
#include <optional>

namespace stalltrace::disk {

// Runs in a child process, so that we can give up waiting for it. The step returns errno and must
// be async-signal-safe: the parent may have threads.
class BlockingStep {
 public:
  explicit BlockingStep(const std::function<int()>& step);
  BlockingStep(const BlockingStep&) = delete;
  BlockingStep& operator=(const BlockingStep&) = delete;
  // A step that has not ended is left to itself.
  ~BlockingStep();

  // The step's errno; none while it has not ended after `timeout_ns`.
  std::optional<int> wait(uint64_t timeout_ns);

 private:
  pid_t child_ = -1;
  int result_fd_ = -1;
};

}  // namespace stalltrace::disk

// Which frames of a kernel stack a person should see.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

namespace stalltrace::kernel {

// Is the function anywhere on the stack?
inline bool has_frame(std::span<const std::string_view> frames, std::string_view name) {
  return std::find(frames.begin(), frames.end(), name) != frames.end();
}

// The scheduler, the tracer and the bit-wait helpers: on every stack, telling nothing.
bool is_generic(std::string_view frame);

// At most `limit` frames, innermost first: the function that sleeps, then what led there without
// wrappers and syscall entry; the outermost of those is kept when some must go. Never empty for a
// stack that is not.
std::vector<std::string_view> meaningful(std::span<const std::string_view> frames,
                                         size_t limit = 5);

// "jbd2__journal_start.isra.0" -> "jbd2__journal_start".
std::string_view fold_suffix(std::string_view symbol);

}  // namespace stalltrace::kernel

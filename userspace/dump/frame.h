// One frame of a stack in the forms that kernels and tools print.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace stalltrace::dump {

enum class Shape : uint8_t {
  kOffsets,    // sym+0x8b/0xe0 [jbd2]
  kAddress,    // [<ffffffff81597b84>] sym+0x73/0xc0
  kProc,       // [<0>] sym+0xcf/0x180
  kSource,     // sym (fs/jbd2/transaction.c:152), sym fs/jbd2/transaction.c:152 [inline]
  kCrash,      // #7 [ffffb7b0] sym+913 at ffffffffbb28d741
  kPerf,       //   7fff92878491 sym ([kernel.kallsyms])
  kSystemtap,  //  0xffffffff816acfc5 : sym+0x225/0x3a0 [kernel]
  kArrow,      //  => sym
  kDecimal,    // sym+1
  kBcc,        // b'sym', sym+0x1 [kernel]
  kBare,       // sym
};

struct FrameLine {
  std::string_view symbol;  // empty: an address without a name, or a frame of user space
  bool unreliable = false;
  Shape shape = Shape::kOffsets;
};

// `text`: a line without prefixes. Nothing when it is no frame. kDecimal and kBare are single
// words, which other text may be as well.
std::optional<FrameLine> parse_frame(std::string_view text);

// The symbol of a word like "jbd2__journal_start.isra.0+0x12/0x34"; nothing when it is none.
// Offsets may be missing.
std::optional<std::string_view> symbol_of(std::string_view word);

// Several frames in one line: "a < b < c", or the strings of a JSON list. Empty when it is neither.
std::vector<FrameLine> parse_chain(std::string_view text);
std::vector<FrameLine> parse_strings(std::string_view text);

}  // namespace stalltrace::dump

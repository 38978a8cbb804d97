#include "userspace/dump/frame.h"

#include <algorithm>
#include <array>

#include "userspace/dump/line.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::dump {
namespace {

constexpr size_t kLongestFrame = 400;

bool is_symbol_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '$';
}
bool is_symbol_char(char c) {
  return is_symbol_start(c) || (c >= '0' && c <= '9');
}

enum class Offset : uint8_t { kNone, kDecimal, kHex, kHexAndSize };

struct Word {
  std::string_view symbol;
  Offset offset = Offset::kNone;
  bool at_entry = false;  // an offset of 0 is no return address but a stray pointer to a function
};

std::optional<Word> parse_word(std::string_view word) {
  // 2.6.18: ":jbd2:kjournald2+0x9a/0x1ec".
  if (word.starts_with(':')) {
    size_t second = word.find(':', 1);
    if (second == std::string_view::npos) return {};
    word.remove_prefix(second + 1);
  }
  if (word.empty() || !is_symbol_start(word[0])) return {};
  size_t end = 1;
  while (end < word.size() && is_symbol_char(word[end])) ++end;
  Word result;
  result.symbol = word.substr(0, end);
  while (result.symbol.starts_with('.')) result.symbol.remove_prefix(1);  // PowerPC entry points
  result.symbol = kernel::fold_suffix(result.symbol);
  if (result.symbol.empty()) return {};
  std::string_view rest = word.substr(end);
  if (rest.empty()) return result;
  if (rest[0] != '+') return {};
  rest.remove_prefix(1);
  if (!rest.starts_with("0x")) {
    auto decimal = to_number(rest);
    if (!decimal) return {};
    result.offset = Offset::kDecimal;
    return result;
  }
  rest.remove_prefix(2);
  size_t slash = rest.find('/');
  std::string_view digits = rest.substr(0, slash);
  if (!is_hex(digits)) return {};
  result.at_entry = digits.find_first_not_of('0') == std::string_view::npos;
  if (slash == std::string_view::npos) {
    result.offset = Offset::kHex;
    return result;
  }
  std::string_view size = rest.substr(slash + 1);
  if (!size.starts_with("0x") || !is_hex(size.substr(2))) return {};
  result.offset = Offset::kHexAndSize;
  return result;
}

// Names that a compiler emits beside a function; calls never return into them.
bool is_never_a_caller(std::string_view symbol) {
  return symbol.starts_with("__pfx_") || symbol.starts_with("__cfi_");
}

bool is_kernel_object(std::string_view dso) {
  return dso.starts_with("[kernel") || dso.starts_with("[guest") || dso.starts_with("[k]") ||
         dso.find("vmlinux") != std::string_view::npos || dso.ends_with(".ko") ||
         dso.find(".ko.") != std::string_view::npos ||
         (dso.starts_with('[') && dso.ends_with(']') && dso != "[unknown]" && dso != "[vdso]" &&
          dso != "[stack]" && dso != "[heap]" && dso != "[vsyscall]");
}

bool is_source_place(std::string_view text) {
  if (text.starts_with('(')) text.remove_prefix(1);
  for (std::string_view ending : {".c:", ".h:", ".S:", ".rs:"}) {
    size_t at = text.find(ending);
    if (at != std::string_view::npos && at + ending.size() < text.size()) {
      char next = text[at + ending.size()];
      return (next >= '0' && next <= '9') || next == '?';
    }
  }
  return false;
}

// What may follow "sym+0x1/0x2": "[mod]", "[mod 0123abc]", "(P)", "(unreliable)", a source line.
bool is_frame_tail(std::string_view tail) {
  tail = trimmed(tail);
  if (tail.empty() || is_source_place(tail)) return true;
  char first = tail.front();
  return first == '[' || first == '(';
}

FrameLine made(const Word& word, Shape shape, bool unreliable) {
  FrameLine frame{word.symbol, unreliable || word.at_entry, shape};
  if (is_never_a_caller(frame.symbol)) frame.symbol = {};
  return frame;
}

bool take_question_mark(std::string_view& text) {
  if (!text.starts_with("? ")) return false;
  text.remove_prefix(2);
  text = trimmed(text);
  return true;
}

std::optional<FrameLine> parse_crash(std::string_view text) {
  // A lock of lockdep's list is "#0: ffff...", a frame of gdb has no bracket.
  text.remove_prefix(1);
  std::string_view number = take_word(text);
  if (!to_number(number)) return {};
  text = trimmed(text);
  if (!text.starts_with('[')) return {};
  size_t close = text.find(']');
  if (close == std::string_view::npos || !is_hex(text.substr(1, close - 1))) return {};
  text.remove_prefix(close + 1);
  std::string_view name = take_word(text);
  auto word = parse_word(name);
  if (!word) return FrameLine{{}, false, Shape::kCrash};
  return made(*word, Shape::kCrash, false);
}

// "[<ffffffff81597b84>] ? io_schedule+0x73/0xc0", "[<0>] sym+0x1/0x2" and, on PowerPC,
// "[c0000000] [c0000001] .sym+0x1/0x2".
std::optional<FrameLine> parse_bracketed(std::string_view text) {
  Shape shape = Shape::kAddress;
  bool seen = false;
  while (text.starts_with('[')) {
    size_t close = text.find(']');
    if (close > 24) return {};  // or no bracket at all
    std::string_view address = text.substr(1, close - 1);
    if (address.starts_with('<') && address.ends_with('>') && address.size() > 2) {
      address = address.substr(1, address.size() - 2);
      if (address == "0") shape = Shape::kProc;
    } else if (address.size() < 8) {
      return {};
    }
    if (address.starts_with("0x")) address.remove_prefix(2);
    if (!is_hex(address)) return {};
    text = trimmed(text.substr(close + 1));
    seen = true;
  }
  if (!seen) return {};
  bool unreliable = take_question_mark(text);
  std::string_view name = take_word(text);
  if (name.ends_with(')')) name.remove_suffix(1);  // s390
  auto word = parse_word(name);
  if (!word || word->offset == Offset::kDecimal) {
    // "[<ffffffffffffffff>] 0xffffffffffffffff" ends each /proc/PID/stack of old kernels.
    if (name.empty() || name.starts_with("0x")) return FrameLine{{}, false, shape};
    return {};
  }
  return made(*word, shape, unreliable || text.find("(unreliable)") != std::string_view::npos);
}

std::optional<FrameLine> parse_address_first(std::string_view text) {
  std::string_view rest = text;
  std::string_view first = take_word(rest);
  rest = trimmed(rest);
  bool prefixed = first.starts_with("0x");
  std::string_view digits = prefixed ? first.substr(2) : first;
  if (digits.size() < 6 || digits.size() > 16 || !is_hex(digits)) return {};
  if (prefixed) {
    if (rest.empty()) return FrameLine{{}, false, Shape::kSystemtap};
    if (!rest.starts_with(": ")) return {};
    rest.remove_prefix(2);
    std::string_view name = take_word(rest);
    auto word = parse_word(name);
    if (!word) return FrameLine{{}, false, Shape::kSystemtap};
    return made(*word, Shape::kSystemtap, text.find("(inexact)") != std::string_view::npos);
  }
  size_t paren = rest.rfind('(');
  if (!rest.ends_with(')') || paren == std::string_view::npos) return {};
  std::string_view dso = rest.substr(paren + 1, rest.size() - paren - 2);
  std::string_view name = take_word(rest);
  auto word = parse_word(name);
  if (!word || !is_kernel_object(dso)) return FrameLine{{}, false, Shape::kPerf};
  return made(*word, Shape::kPerf, false);
}

}  // namespace

std::optional<FrameLine> parse_frame(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text.size() > kLongestFrame) return {};
  switch (text.front()) {
    case '#':
      return parse_crash(text);
    case '(':
      if (text.starts_with("([<")) return parse_bracketed(text.substr(1));
      return {};
    case '[':
      return parse_bracketed(text);
    case '=':
      if (text.starts_with("=> ")) {
        text.remove_prefix(3);
        auto word = parse_word(take_word(text));
        if (word && trimmed(text).empty()) return made(*word, Shape::kArrow, false);
      }
      return {};
    default:
      break;
  }
  if (text.starts_with("b'")) {
    size_t quote = text.find('\'', 2);
    if (quote == std::string_view::npos) return {};
    auto word = parse_word(text.substr(2, quote - 2));
    if (!word) return FrameLine{{}, false, Shape::kBcc};
    return made(*word, Shape::kBcc, false);
  }
  if (auto frame = parse_address_first(text)) return frame;
  bool unreliable = take_question_mark(text);
  std::string_view rest = text;
  auto word = parse_word(take_word(rest));
  if (!word) return {};
  rest = trimmed(rest);
  switch (word->offset) {
    case Offset::kHexAndSize:
      if (!is_frame_tail(rest)) return {};
      return made(*word, Shape::kOffsets,
                  unreliable || rest.find("(unreliable)") != std::string_view::npos);
    case Offset::kHex:
      if (rest == "[kernel]" || rest == "[k]") {
        return FrameLine{word->symbol, unreliable, Shape::kBcc};
      }
      if (!is_frame_tail(rest)) return {};
      return made(*word, Shape::kOffsets, unreliable);
    case Offset::kDecimal:
      if (!rest.empty()) return {};
      return FrameLine{word->symbol, unreliable, Shape::kDecimal};
    case Offset::kNone:
      break;
  }
  if (rest == "[kernel]" || rest == "[k]") return made(*word, Shape::kBcc, unreliable);
  std::string_view after = rest;
  if (is_source_place(take_word(after)) && text.find(' ') >= 3)
    return made(*word, Shape::kSource, unreliable);
  if (!rest.empty() || text.ends_with('.')) return {};
  return made(*word, Shape::kBare, unreliable);
}

std::optional<std::string_view> symbol_of(std::string_view word) {
  auto parsed = parse_word(word);
  if (!parsed) return {};
  return parsed->symbol;
}

std::vector<FrameLine> parse_chain(std::string_view text) {
  constexpr std::string_view kBetween = " < ";
  std::vector<FrameLine> frames;
  size_t at = text.find(kBetween);
  if (at == std::string_view::npos) return frames;
  std::string_view head = last_word(text.substr(0, at));
  while (true) {
    auto word = parse_word(head);
    if (word) {
      frames.push_back(made(*word, Shape::kBare, false));
    } else if (head != "..." && head != "\xe2\x80\xa6") {
      return {};
    }
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + kBetween.size());
    at = text.find(kBetween);
    std::string_view part = text.substr(0, at);
    head = take_word(part);
    if (at != std::string_view::npos && !trimmed(part).empty()) return {};
  }
  if (frames.size() < 2) frames.clear();
  return frames;
}

std::vector<FrameLine> parse_strings(std::string_view text) {
  std::vector<FrameLine> frames;
  size_t at = text.find('"');
  while (at != std::string_view::npos) {
    size_t end = text.find('"', at + 1);
    if (end == std::string_view::npos) break;
    std::string_view item = trimmed(text.substr(at + 1, end - at - 1));
    auto frame = parse_frame(item);
    if (frame) frames.push_back(*frame);
    at = text.find('"', end + 1);
  }
  return frames;
}

}  // namespace stalltrace::dump

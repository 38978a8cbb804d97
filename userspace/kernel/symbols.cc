#include "userspace/kernel/symbols.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

#include "userspace/base/error.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::kernel {
namespace {

// An address further than this behind the last symbol is in no function we know: a BPF program or
// a trampoline that came later. The largest functions of 6.18 have about 30 KiB.
constexpr uint64_t kLargestFunction = 256 * 1024;

constexpr size_t kReadSize = 256 * 1024;

// Several names can share an address: linker marks (6.1's io_schedule_timeout is also
// __sched_text_start) and entry points of other ABIs. Lower is what a person expects to read.
int alias_rank(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kMarks{
      "_text",       "_stext", "_etext", "_sinittext", "_einittext", "_end", "__init_scratch_end",
      "__entry_text"};
  if (std::find(kMarks.begin(), kMarks.end(), name) != kMarks.end()) return 3;
  if (name.starts_with("__") && (name.ends_with("_start") || name.ends_with("_end"))) return 3;
  if (name.starts_with("__ia32_") || name.starts_with("__do_sys_") ||
      name.starts_with("__do_compat_sys_") || name.starts_with("__se_sys_") ||
      name.starts_with("__pi_")) {
    return 2;
  }
  if (name.find('.') != std::string_view::npos) return 1;
  return 0;
}

// Padding before functions, never on a stack: __pfx_ (6.2 on) and __cfi_ (clang).
bool is_padding(std::string_view name) {
  return name.starts_with("__pfx_") || name.starts_with("__cfi_");
}

}  // namespace

SymbolTable::SymbolTable(std::istream& kallsyms) {
  // Read in large pieces by hand: getline alone takes longer than everything else together.
  std::string buffer(kReadSize, '\0');
  size_t kept = 0;
  while (kallsyms.good()) {
    if (kept == buffer.size()) buffer.resize(buffer.size() * 2);
    kallsyms.read(buffer.data() + kept, static_cast<std::streamsize>(buffer.size() - kept));
    size_t filled = kept + static_cast<size_t>(kallsyms.gcount());
    std::string_view rest(buffer.data(), filled);
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      add_line(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    kept = rest.size();
    std::memmove(buffer.data(), rest.data(), kept);
  }
  add_line(std::string_view(buffer.data(), kept));
  finish();
}

SymbolTable SymbolTable::load(const std::string& path) {
  std::ifstream file;
  file.rdbuf()->pubsetbuf(nullptr, 0);
  file.open(path, std::ios::binary);
  if (!file) {
    throw refused_error("{}: {}; run as root on a kernel with CONFIG_KALLSYMS", path,
                        std::strerror(errno));
  }
  return SymbolTable(file);
}

void SymbolTable::add_line(std::string_view line) {
  // "ffffffff81200000 T name" with "\t[module]" behind it for what is not built in.
  uint64_t address = 0;
  size_t at = 0;
  for (; at < line.size() && line[at] != ' '; ++at) {
    char c = line[at];
    unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                     : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a' + 10)
                                            : 16;
    if (digit == 16) return;
    address = address << 4 | digit;
  }
  if (at == 0 || at + 3 >= line.size() || line[at + 2] != ' ') return;
  ++lines_;
  any_address_ |= address != 0;
  char type = line[at + 1];
  if (address == 0 || (type != 't' && type != 'T' && type != 'w' && type != 'W')) return;
  std::string_view name = line.substr(at + 3);
  name = name.substr(0, name.find('\t'));
  if (name.empty() || name.size() > std::numeric_limits<uint16_t>::max() || is_padding(name)) {
    return;
  }
  symbols_.push_back({address, static_cast<uint32_t>(names_.size()),
                      static_cast<uint16_t>(name.size()),
                      static_cast<uint16_t>(fold_suffix(name).size())});
  names_ += name;
}

void SymbolTable::finish() {
  if (!any_address_) {
    if (lines_ == 0) throw refused_error("the kernel lists no symbols: it needs CONFIG_KALLSYMS");
    throw refused_error(
        "the kernel hides its symbol addresses: run as root with CAP_SYSLOG, or first: "
        "sysctl kernel.kptr_restrict=0");
  }
  // Modules and BPF programs come behind the kernel in their own order.
  auto by_address = [](const Symbol& a, const Symbol& b) { return a.address < b.address; };
  if (!std::is_sorted(symbols_.begin(), symbols_.end(), by_address)) {
    std::stable_sort(symbols_.begin(), symbols_.end(), by_address);
  }
  // Of the names at one address the best goes last, where name_of() looks; the others stay for
  // address_of().
  for (auto group = symbols_.begin(); group != symbols_.end();) {
    auto best = group;
    auto end = std::next(group);
    for (; end != symbols_.end() && end->address == group->address; ++end) {
      if (alias_rank(full_name(*end)) < alias_rank(full_name(*best))) best = end;
    }
    std::iter_swap(best, std::prev(end));
    group = end;
  }
  symbols_.shrink_to_fit();
  names_.shrink_to_fit();
}

std::string_view SymbolTable::name_of(uint64_t address) const {
  auto next =
      std::upper_bound(symbols_.begin(), symbols_.end(), address,
                       [](uint64_t value, const Symbol& symbol) { return value < symbol.address; });
  if (next == symbols_.begin()) return {};
  const Symbol& symbol = *std::prev(next);
  if (address - symbol.address >= kLargestFunction) return {};
  return full_name(symbol).substr(0, symbol.folded);
}

uint64_t SymbolTable::address_of(std::string_view name) const {
  uint64_t cold = 0;
  uint64_t suffixed = 0;
  for (const Symbol& symbol : symbols_) {
    if (symbol.length != name.size() && symbol.folded != name.size()) continue;
    std::string_view full = full_name(symbol);
    if (!full.starts_with(name)) continue;
    if (full.size() == name.size()) return symbol.address;
    if (symbol.folded != name.size()) continue;
    bool is_cold = full.find(".cold", symbol.folded) != std::string_view::npos;
    uint64_t& found = is_cold ? cold : suffixed;
    if (found == 0) found = symbol.address;
  }
  return suffixed != 0 ? suffixed : cold;
}

}  // namespace stalltrace::kernel

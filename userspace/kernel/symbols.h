// Kernel function names for addresses on stacks, from /proc/kallsyms.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::kernel {

class SymbolTable {
 public:
  // Reads text in the format of /proc/kallsyms. Throws a refused Error when every address in it
  // is zero: that is how kptr_restrict hides them.
  explicit SymbolTable(std::istream& kallsyms);

  // This kernel's table. Throws a refused Error when it cannot be read or is hidden. BPF programs
  // and modules loaded later are not in it: load it after them.
  static SymbolTable load(const std::string& path = "/proc/kallsyms");

  // The function that contains `address`, compiler suffixes (from the first '.') cut off; empty
  // for an address in no function. The view lives as long as the table.
  [[nodiscard]] std::string_view name_of(uint64_t address) const;

  // The same for an address taken from a stack, which is where the call returns to: that may be
  // the first byte of the next function when the callee never returns.
  [[nodiscard]] std::string_view name_of_return(uint64_t address) const {
    return address == 0 ? std::string_view() : name_of(address - 1);
  }

  // Where a function starts, or 0. A name with its suffix finds just that symbol; without, a
  // suffixed one ("f.constprop.0") stands in when the plain one does not exist, cold parts last.
  // Takes about a millisecond.
  [[nodiscard]] uint64_t address_of(std::string_view name) const;

  // Function names kept.
  [[nodiscard]] size_t size() const { return symbols_.size(); }

 private:
  struct Symbol {
    uint64_t address;
    uint32_t name;    // where in names_
    uint16_t length;  // with suffix
    uint16_t folded;  // length up to the first '.'
  };

  void add_line(std::string_view line);
  void finish();
  [[nodiscard]] std::string_view full_name(const Symbol& symbol) const {
    return std::string_view(names_).substr(symbol.name, symbol.length);
  }

  std::vector<Symbol> symbols_;  // by address
  std::string names_;
  size_t lines_ = 0;
  bool any_address_ = false;
};

}  // namespace stalltrace::kernel

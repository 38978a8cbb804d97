// Lists of function names, separated by blanks; a trailing '*' stands for any rest.
#pragma once

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace stalltrace::dump {

class Patterns {
 public:
  // `list` must outlive the object: use literals.
  explicit Patterns(std::string_view list) {
    while (!list.empty()) {
      size_t end = std::min(list.find(' '), list.size());
      std::string_view pattern = list.substr(0, end);
      list.remove_prefix(std::min(end + 1, list.size()));
      if (pattern.ends_with('*')) {
        prefixes_.push_back(pattern.substr(0, pattern.size() - 1));
      } else if (!pattern.empty()) {
        exact_.insert(pattern);
      }
    }
  }

  [[nodiscard]] bool match(std::string_view name) const {
    return exact_.contains(name) ||
           std::any_of(prefixes_.begin(), prefixes_.end(),
                       [name](std::string_view prefix) { return name.starts_with(prefix); });
  }

  // The first name that matches; empty if none does.
  [[nodiscard]] std::string_view find_in(const std::vector<std::string_view>& names) const {
    auto at = std::find_if(names.begin(), names.end(),
                           [this](std::string_view name) { return match(name); });
    return at == names.end() ? std::string_view() : *at;
  }

 private:
  std::unordered_set<std::string_view> exact_;
  std::vector<std::string_view> prefixes_;
};

}  // namespace stalltrace::dump

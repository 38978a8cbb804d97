// Kernel stacks, kept once each and named only when somebody asks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace stalltrace::model {

class StackResolver {
 public:
  StackResolver() = default;
  StackResolver(const StackResolver&) = delete;
  StackResolver& operator=(const StackResolver&) = delete;
  virtual ~StackResolver() = default;

  // One name per address, innermost first, "" where there is none. The views must live as long as
  // the resolver.
  virtual std::vector<std::string_view> frames(std::span<const uint64_t> addresses) = 0;
};

class StackTable {
 public:
  // `resolver` may be null (no names then) and must outlive the table.
  explicit StackTable(StackResolver* resolver) : resolver_(resolver) {}

  // 0 for an empty stack.
  uint32_t intern(std::span<const uint64_t> addresses);

  [[nodiscard]] std::span<const uint64_t> addresses(uint32_t id) const;
  [[nodiscard]] std::span<const std::string_view> frames(uint32_t id) const;
  [[nodiscard]] size_t size() const { return by_id_.size(); }

 private:
  struct Named {
    bool done = false;
    std::vector<std::string_view> frames;
  };
  using Known = std::map<std::vector<uint64_t>, uint32_t>;

  StackResolver* resolver_;
  Known known_;
  std::vector<Known::const_iterator> by_id_;  // of id - 1
  mutable std::vector<Named> named_;
};

}  // namespace stalltrace::model

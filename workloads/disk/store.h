// The disk's contents, in memory. Pages never written take none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stalltrace::disk {

class Store {
 public:
  // Throws a refused Error if the address space is not to be had.
  explicit Store(uint64_t size_bytes);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] bool contains(uint64_t offset, uint64_t bytes) const {
    return offset <= size_bytes_ && bytes <= size_bytes_ - offset;
  }

  // The caller has checked contains(). Requests that overlap may mix, as on a real disk.
  [[nodiscard]] const char* at(uint64_t offset) const { return memory_ + offset; }
  void write(uint64_t offset, const char* data, size_t bytes);
  // The range reads as zeros afterwards and its whole pages are given back.
  void discard(uint64_t offset, uint64_t bytes);

 private:
  uint64_t size_bytes_;
  char* memory_;
};

}  // namespace stalltrace::disk

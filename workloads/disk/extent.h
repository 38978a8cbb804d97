#pragma once

#include <cstdint>

namespace stalltrace::disk {

struct Extent {
  uint64_t offset;
  uint64_t bytes;
};

}  // namespace stalltrace::disk

// Devices that only map (dm, md): down to the lowest one that was slow.
#include <algorithm>

#include "userspace/blame/explainer.h"

namespace stalltrace::blame {
namespace {

bool contains(const std::vector<uint32_t>& devs, uint32_t dev) {
  return std::find(devs.begin(), devs.end(), dev) != devs.end();
}

DeviceWait on(const DeviceWait& wait, uint32_t disk) {
  DeviceWait other = wait;
  other.disk = disk;
  if (disk != wait.disk) other.request.reset();
  return other;
}

}  // namespace

bool Explainer::is_on(uint32_t dev, uint32_t disk) const {
  if (trace_.disk_of(dev) == disk) return true;
  model::Mapping mapping = trace_.mapping(dev);
  return contains(mapping.disks, disk) || contains(mapping.maps, disk);
}

bool Explainer::is_mapped(uint32_t disk) const {
  return contains(trace_.mapping(disk).maps, disk);
}

// The longest that one thing took on the disk, within `span`.
uint64_t Explainer::longest_on(uint32_t disk, Span span) const {
  uint64_t longest_ns = 0;
  for (const model::Flush* flush : trace_.flushes(disk, span)) {
    longest_ns = std::max(longest_ns, flush->device.clip(span).ns());
  }
  for (const model::Request* request : trace_.requests(disk, span)) {
    longest_ns = std::max(longest_ns, request->span.clip(span).ns());
  }
  return longest_ns;
}

// First the disk whose request ended the wait, then the others, the slowest first: of two mirrors
// the slower one is waited for. What no disk explains, while the mapped device had a bio, it took
// itself: dm-delay, encryption, a suspended table.
void Explainer::put_mapped(Tiling& tiling, const DeviceWait& wait, const model::Mapping& mapping) {
  Span whole = tiling.whole();
  std::vector<uint32_t> disks = mapping.disks;
  std::stable_sort(disks.begin(), disks.end(), [&](uint32_t a, uint32_t b) {
    if (wait.request && (a == wait.disk) != (b == wait.disk)) return a == wait.disk;
    return longest_on(a, whole) > longest_on(b, whole);
  });
  for (uint32_t disk : disks) put_disk(tiling, on(wait, disk));
  for (uint32_t map : mapping.maps) {
    DeviceWait itself = on(wait, map);
    put_request(tiling, itself);
    put_slow_requests(tiling, itself);
  }
}

}  // namespace stalltrace::blame

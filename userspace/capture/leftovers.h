// What was still in flight when the window closed: commits, flushes and requests without an end.
// Sent to the sink as unfinished events, so that a device that hangs is seen hanging.
#pragma once

#include <cstdint>

#include "userspace/capture/capture.h"

namespace stalltrace::capture {

struct LeftoverMaps {
  int commits, flushes, requests, mapped_bios, asyncs, freezes;  // map fds
  uint64_t request_floor_ns;
  uint64_t threshold_ns;
  uint64_t now_ns;
};

// `flushes`: the map's fd.
bool has_flush_of(int flushes, uint32_t disk);

void send_leftovers(const LeftoverMaps& maps, const Capture::Sink& sink);

}  // namespace stalltrace::capture

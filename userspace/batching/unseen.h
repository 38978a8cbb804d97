// What could not be counted, for want of hooks of the kernel: figures made of it are left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::batching {

struct MissingHook {
  std::string name;
  std::string why;
};

struct Unseen {
  bool syncs = false;     // not all of them
  bool commits = false;   // likewise
  bool flushes = false;   // likewise
  bool requests = false;  // who asked for which flush
  bool handles = false;   // how long commits waited for open handles
  std::vector<std::string> reasons;

  // Is the gain's division into factors missing something?
  [[nodiscard]] bool factors() const { return syncs || commits || flushes || requests; }
  // Is it known when a sync waited and no flush was in the device?
  [[nodiscard]] bool idle() const { return syncs || flushes; }
  Unseen& operator|=(const Unseen& other);
};

// "fsync and the like (ext4_sync_file_enter: disabled with --disable-hook)" for each reason.
Unseen unseen_without(const std::vector<MissingHook>& hooks);

}  // namespace stalltrace::batching

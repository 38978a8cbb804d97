// What a sync had to have written before it could return: its own metadata and data, and others',
// since a commit writes its whole transaction whoever waits for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/model/trace.h"

namespace stalltrace::batching {

// Of one sync, or summed over `syncs` of them.
struct Paid {
  uint64_t syncs = 0;
  uint64_t own_blocks = 0;     // metadata that its own task put into the transaction
  uint64_t others_blocks = 0;  // ... and all other tasks
  uint64_t own_bytes = 0;      // data that the sync wrote itself, or the commit, of its own file
  uint64_t others_bytes = 0;   // data of other files that the commit wrote first (data=ordered)

  Paid& operator+=(const Paid& other);
};

// All zero for a sync that waited for no commit, or whose commit was not seen.
Paid paid_by(const model::Trace& trace, const model::Sync& sync);

// Who put metadata into the transactions that were committed.
struct Dirtier {
  wire::wire_task task{};
  std::string path;  // of the file that it dirtied most for; "" unknown
  uint64_t ino = 0;  // of that; 0: of none
  uint64_t blocks = 0;
  uint64_t handles = 0;
  uint64_t commits = 0;
  uint64_t most_blocks = 0;  // of one handle, for `path`
};
using Dirtiers = std::vector<Dirtier>;  // the most first, one per task

void add_dirtied(const model::Trace& trace, const model::Commit& commit, Dirtiers& dirtiers);
// One entry per task, the most first.
void merge(Dirtiers& dirtiers);

}  // namespace stalltrace::batching

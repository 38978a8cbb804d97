#include "userspace/batching/paid.h"

#include <algorithm>
#include <tuple>

namespace stalltrace::batching {

Paid& Paid::operator+=(const Paid& other) {
  syncs += other.syncs;
  own_blocks += other.own_blocks;
  others_blocks += other.others_blocks;
  own_bytes += other.own_bytes;
  others_bytes += other.others_bytes;
  return *this;
}

Paid paid_by(const model::Trace& trace, const model::Sync& sync) {
  const model::Commit* commit = trace.commit(sync.dev, sync.wanted_tid);
  if (!model::waited_for_commit(sync) || commit == nullptr) return {};
  Paid paid{.syncs = 1, .own_bytes = sync.data_bytes};
  for (const model::Dirtied& dirtied : trace.dirtied(sync.dev, commit->event.tid)) {
    // A worker that writes for others (writeback, io_uring's) is told by the file.
    bool own = dirtied.task.tid == sync.task.tid || (sync.ino != 0 && dirtied.ino == sync.ino);
    (own ? paid.own_blocks : paid.others_blocks) += dirtied.blocks;
  }
  bool own_data = commit->event.data_inodes == 1 && commit->event.data_ino == sync.ino;
  (own_data ? paid.own_bytes : paid.others_bytes) += commit->event.data_bytes;
  return paid;
}

void add_dirtied(const model::Trace& trace, const model::Commit& commit, Dirtiers& dirtiers) {
  for (const model::Dirtied& one : trace.dirtied(commit.event.dev, commit.event.tid)) {
    dirtiers.push_back({.task = one.task,
                        .path = trace.path_of(one.dev, one.name),
                        .ino = one.ino,
                        .blocks = one.blocks,
                        .handles = one.handles,
                        .commits = 1,
                        .most_blocks = one.most_blocks});
  }
}

void merge(Dirtiers& dirtiers) {
  std::stable_sort(dirtiers.begin(), dirtiers.end(), [](const Dirtier& a, const Dirtier& b) {
    return std::tuple(a.task.tid, b.most_blocks) < std::tuple(b.task.tid, a.most_blocks);
  });
  Dirtiers merged;
  for (Dirtier& one : dirtiers) {
    if (merged.empty() || merged.back().task.tid != one.task.tid) {
      merged.push_back(std::move(one));
      continue;
    }
    merged.back().blocks += one.blocks;
    merged.back().handles += one.handles;
    merged.back().commits += one.commits;
  }
  std::stable_sort(merged.begin(), merged.end(),
                   [](const Dirtier& a, const Dirtier& b) { return a.blocks > b.blocks; });
  dirtiers = std::move(merged);
}

}  // namespace stalltrace::batching

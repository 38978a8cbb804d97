// Who put metadata into which transaction.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "userspace/model/trace.h"

namespace stalltrace::model {

// A task that works on two file systems in turn is told of in several events of one transaction.
void Trace::seal_dirtied() {
  auto key = [](const Dirtied& d) { return std::tie(d.dev, d.tid, d.task.tid); };
  std::sort(dirtied_.begin(), dirtied_.end(), [&](const Dirtied& a, const Dirtied& b) {
    if (key(a) != key(b)) return key(a) < key(b);
    if (a.most_blocks != b.most_blocks) return a.most_blocks > b.most_blocks;
    return std::memcmp(&a, &b, sizeof(Dirtied)) < 0;
  });
  std::vector<Dirtied> merged;
  for (const Dirtied& one : dirtied_) {
    if (!merged.empty() && key(merged.back()) == key(one)) {
      merged.back().blocks += one.blocks;
      merged.back().handles += one.handles;
    } else {
      merged.push_back(one);
    }
  }
  std::stable_sort(merged.begin(), merged.end(), [](const Dirtied& a, const Dirtied& b) {
    return std::tuple(a.dev, a.tid, b.blocks) < std::tuple(b.dev, b.tid, a.blocks);
  });
  dirtied_ = std::move(merged);
  for (size_t i = 0; i < dirtied_.size(); ++i) {
    Range& range = dirtied_of_[{dirtied_[i].dev, dirtied_[i].tid}];
    if (range.count++ == 0) range.first = i;
  }
}

std::span<const Dirtied> Trace::dirtied(uint32_t dev, uint32_t tid) const {
  auto range = dirtied_of_.find({dev, tid});
  if (range == dirtied_of_.end()) return {};
  return std::span(dirtied_).subspan(range->second.first, range->second.count);
}

}  // namespace stalltrace::model

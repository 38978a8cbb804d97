#include "userspace/blame/culprits.h"

#include <algorithm>

namespace stalltrace::blame {

void Culprits::add(const Stall& stall) {
  Tids met;
  for (const Part& part : stall.parts) visit(part.causes, stall, {}, met);
}

std::vector<CulpritSum> Culprits::take() && {
  std::vector<CulpritSum> culprits;
  for (auto& [key, sum] : sums_) culprits.push_back(std::move(sum));
  std::stable_sort(culprits.begin(), culprits.end(), [](const CulpritSum& a, const CulpritSum& b) {
    return a.others_ns > b.others_ns;
  });
  return culprits;
}

// Time is put down to the first task on each way down: what that one waited for is the next
// one's, but only through it.
void Culprits::visit(const Causes& causes, const Stall& stall, const Tids& above, Tids& met) {
  for (const Cause& cause : causes) {
    Tids here = above;
    bool servant = cause.kind == CauseKind::kCommit || trace_.journal_of(cause.task.tid) != 0;
    bool own = cause.task.tid == stall.task.tid;
    if (cause.task.tid != 0 && !servant && !own && here.insert(cause.task.tid).second) {
      count(cause, met);
    }
    bool owners = cause.owner.tid != 0 && cause.owner.tid != stall.task.tid;
    if (owners && here.insert(cause.owner.tid).second) count_owner(cause, met);
    visit(cause.causes, stall, here, met);
  }
}

// Not what it did then: what it had done before, or at the same time.
void Culprits::count_owner(const Cause& cause, Tids& met) {
  CulpritSum& sum = sum_of(cause.owner, cause, met);
  if (sum.path.empty()) sum.path = cause.path;
  sum.what = cause.owns_metadata ? "dirtied most of the metadata that a commit had to write"
             : cause.kind == CauseKind::kCommit ? "wrote data that a commit had to write out first"
                                                : "kept the device busy";
}

CulpritSum& Culprits::sum_of(const TaskName& task, const Cause& cause, Tids& met) {
  CulpritSum& sum = sums_[{task.tid, cause.kind, cause.owns_metadata}];
  sum.task = task;
  sum.others_ns += cause.ns;
  if (met.insert(task.tid).second) ++sum.stalls;
  if (sum.path.empty()) {
    const model::Call* call = trace_.call_at(task.tid, cause.start_ns);
    if (call != nullptr) sum.path = trace_.path_of(*call);
  }
  return sum;
}

void Culprits::count(const Cause& cause, Tids& met) {
  CulpritSum& sum = sum_of(cause.task, cause, met);
  if (!sum.what.empty()) return;
  switch (cause.kind) {
    case CauseKind::kHandle:
      sum.what = "held a journal handle that a commit waited for";
      break;
    case CauseKind::kHolder:
      sum.what = "held a lock";
      break;
    case CauseKind::kFlush:
      sum.what = "asked for a flush";
      break;
    case CauseKind::kKnob:
      sum.what = "slept so that others could join its commit";
      break;
    default:
      sum.what = "was waited for";
      break;
  }
}

}  // namespace stalltrace::blame

#include "userspace/blame/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"
#include "userspace/model/call_names.h"

namespace stalltrace::blame {
namespace {

using kernel::WaitClass;
using model::Phase;

template <typename Sum>
void longest_first(std::vector<Sum>& sums, uint64_t Sum::*ns) {
  std::stable_sort(sums.begin(), sums.end(),
                   [ns](const Sum& a, const Sum& b) { return a.*ns > b.*ns; });
}

std::vector<WaitSum> sum_waits(const std::vector<Stall>& stalls) {
  std::map<std::pair<WaitClass, uint32_t>, WaitSum> sums;
  for (const Stall& stall : stalls) {
    std::set<WaitClass> met;
    for (const Part& part : stall.parts) {
      WaitSum& sum = sums[{part.wait_class, stall.dev}];
      sum.wait_class = part.wait_class;
      sum.dev = stall.dev;
      sum.ns += part.ns;
      if (met.insert(part.wait_class).second) ++sum.stalls;
    }
  }
  std::vector<WaitSum> waits;
  for (auto& [key, sum] : sums) waits.push_back(sum);
  longest_first(waits, &WaitSum::ns);
  return waits;
}

std::vector<RootSum> sum_roots(const std::vector<Stall>& stalls) {
  std::map<std::pair<RootKind, uint32_t>, RootSum> sums;
  for (const Stall& stall : stalls) {
    std::set<std::pair<RootKind, uint32_t>> met;
    for (const Root& root : stall.roots) {
      std::pair key{root.kind, root.dev};
      RootSum& sum = sums[key];
      sum.kind = root.kind;
      sum.dev = root.dev;
      sum.ns += root.ns;
      if (met.insert(key).second) ++sum.stalls;
    }
  }
  std::vector<RootSum> roots;
  for (auto& [key, sum] : sums) roots.push_back(sum);
  longest_first(roots, &RootSum::ns);
  return roots;
}

// By file system's device and transaction.
std::map<std::pair<uint32_t, uint32_t>, uint64_t> syncs_by_commit(const model::Trace& trace) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> syncs;
  for (const model::Sync& sync : trace.syncs()) {
    if (model::waited_for_commit(sync)) ++syncs[{sync.dev, sync.wanted_tid}];
  }
  return syncs;
}

std::vector<CommitSum> sum_commits(const model::Trace& trace, Explainer& explainer) {
  std::vector<CommitSum> sums;
  const auto syncs_of = syncs_by_commit(trace);
  for (uint32_t dev : trace.journals()) {
    CommitSum sum;
    sum.fs_dev = dev;
    sum.dev = trace.disk_of(dev);
    std::map<std::string, std::vector<uint64_t>> values;
    std::vector<uint64_t> syncs;
    for (const model::Commit& commit : trace.commits(dev)) {
      uint64_t end_ns = commit.span().end_ns;
      if (commit.unfinished() || end_ns < trace.window().start_ns ||
          end_ns > trace.window().end_ns) {
        continue;
      }
      ++sum.count;
      auto shared = syncs_of.find({dev, commit.event.tid});
      syncs.push_back(shared != syncs_of.end() ? shared->second : 0);
      if ((commit.event.flags & wire::COMMIT_CUT_START) != 0) continue;
      uint64_t handles_ns = explainer.handles_end_ns(commit) - commit.locked().start_ns;
      uint64_t run_ns = commit.phase(Phase::kRunning).ns() + commit.locked().ns() - handles_ns +
                        commit.phase(Phase::kFinish).ns();
      values["commit.checkpoint"].push_back(commit.phase(Phase::kPre).ns());
      values["commit.handles"].push_back(handles_ns);
      uint64_t data_end = explainer.data_end_ns(commit);
      values["commit.data"].push_back(data_end - commit.phase(Phase::kData).start_ns);
      values["commit.log"].push_back(commit.phase(Phase::kLog).end_ns - data_end);
      values["commit.record"].push_back(commit.phase(Phase::kRecord).ns());
      values["commit.run"].push_back(run_ns);
      values["total"].push_back(commit.span().ns());
    }
    sum.syncs = model::dist_of_samples(std::move(syncs));
    for (auto& [name, list] : values) sum.phases_ns[name] = model::dist_of_samples(std::move(list));
    sums.push_back(std::move(sum));
  }
  return sums;
}

std::vector<FlushSum> sum_flushes(const model::Trace& trace) {
  std::vector<FlushSum> sums;
  for (uint32_t disk : trace.disks()) {
    FlushSum sum;
    sum.dev = disk;
    std::vector<uint64_t> callers, queue, device;
    for (const model::Flush& flush : trace.flushes(disk)) {
      uint64_t end_ns = flush.device.end_ns;
      if (flush.unfinished() || end_ns < trace.window().start_ns ||
          end_ns > trace.window().end_ns) {
        continue;
      }
      ++sum.count;
      if (flush.event.members != 0) callers.push_back(flush.event.members);
      if (flush.event.first_queued_ns != 0) {
        queue.push_back(flush.event.issue_ns - flush.event.first_queued_ns);
      }
      device.push_back(flush.device.ns());
    }
    if (sum.count == 0) continue;
    sum.callers = model::dist_of_samples(std::move(callers));
    sum.queue_ns = model::dist_of_samples(std::move(queue));
    sum.device_ns = model::dist_of_samples(std::move(device));
    sums.push_back(sum);
  }
  return sums;
}

std::vector<LockSum> sum_locks(const model::Trace& trace, Explainer& explainer) {
  struct Gathered {
    LockSum sum;
    std::map<uint32_t, LockHolderSum> holders;
    std::map<uint32_t, uint64_t> longest;
  };
  // Locks that are no inode's are told apart by address.
  std::map<std::tuple<WaitClass, uint32_t, uint64_t, uint64_t, bool>, Gathered> locks;
  for (const model::Wait& wait : trace.waits()) {
    WaitClass wait_class = explainer.class_of(wait);
    bool is_lock = wait_class >= WaitClass::kLockInode && wait_class <= WaitClass::kLockOther;
    if (!is_lock || wait.blocked().empty()) continue;
    bool inode = wait.lock_ino != 0;
    bool write = (wait.lock_flags & wire::LCB_READ) == 0;
    uint32_t dev = inode ? wait.lock_dev : wait.dev;
    Gathered& at = locks[{wait_class, dev, wait.lock_ino, inode ? 0 : wait.lock_addr, write}];
    at.sum.wait_class = wait_class;
    at.sum.dev = trace.disk_of(dev);
    at.sum.ino = wait.lock_ino;
    at.sum.write = write;
    if (inode && at.sum.path.empty()) at.sum.path = trace.path_of(dev, wait.lock_ino);
    uint64_t ns = wait.blocked().ns();
    ++at.sum.waits;
    at.sum.ns += ns;
    at.sum.max_ns = std::max(at.sum.max_ns, ns);
    for (const Explainer::Holding& holding : explainer.holdings(wait, wait.blocked())) {
      if (holding.task.tid == 0) continue;
      LockHolderSum& holder = at.holders[holding.task.tid];
      holder.task = holding.task;
      holder.ns += holding.span.ns();
      uint64_t& longest = at.longest[holding.task.tid];
      if (holding.span.ns() <= longest) continue;
      longest = holding.span.ns();
      const model::Call* call = trace.call_at(holding.task.tid, holding.span.start_ns);
      std::string did = explainer.doing(holding.task, holding.span);
      holder.doing = call == nullptr ? did
                                     : fmt::format("{}{}{}", model::call_name(call->kind()),
                                                   did.empty() ? "" : ", ", did);
    }
  }
  std::vector<LockSum> sums;
  for (auto& [key, at] : locks) {
    for (auto& [tid, holder] : at.holders) at.sum.holders.push_back(std::move(holder));
    longest_first(at.sum.holders, &LockHolderSum::ns);
    sums.push_back(std::move(at.sum));
  }
  longest_first(sums, &LockSum::ns);
  return sums;
}

std::vector<AsyncSum> sum_asyncs(const model::Trace& trace, Explainer& explainer) {
  std::vector<AsyncSum> sums;
  for (const model::Async& async : trace.asyncs()) {
    uint64_t start_ns = async.call_ns != 0 ? async.call_ns : async.begin_ns;
    AsyncSum sum;
    sum.unfinished = (async.flags & wire::ASYNC_UNFINISHED) != 0;
    uint64_t end_ns = sum.unfinished ? trace.window().end_ns : async.done_ns;
    if (end_ns < start_ns) continue;
    sum.uring = (async.flags & wire::ASYNC_URING) != 0;
    sum.task = task_name(async.task);
    sum.fs_dev = async.dev;
    sum.dev = trace.disk_of(async.dev);
    sum.ino = async.ino;
    sum.user_id = async.user_id;
    sum.start_ns = start_ns;
    sum.ns = end_ns - start_ns;
    sum.split = !sum.unfinished && start_ns <= async.queued_ns &&
                async.queued_ns <= async.issue_ns && async.issue_ns <= async.complete_ns &&
                async.complete_ns <= end_ns;
    if (sum.split) {
      sum.submit_ns = async.queued_ns - start_ns;
      sum.queue_ns = async.issue_ns - async.queued_ns;
      sum.device_ns = async.complete_ns - async.issue_ns;
      sum.complete_ns = end_ns - async.complete_ns;
    }
    sum.roots = explainer.explain_async(async, {start_ns, end_ns});
    sums.push_back(std::move(sum));
  }
  return sums;
}

}  // namespace

Summary summarize(const model::Trace& trace, const std::vector<Stall>& stalls) {
  Explainer explainer(trace);
  Summary summary;
  summary.waits = sum_waits(stalls);
  summary.roots = sum_roots(stalls);
  summary.folded_stalls =
      static_cast<uint64_t>(std::count_if(stalls.begin(), stalls.end(), [](const Stall& stall) {
        return stall.folded_ns * 10 > stall.ns;
      }));
  summary.commits = sum_commits(trace, explainer);
  summary.flushes = sum_flushes(trace);
  summary.locks = sum_locks(trace, explainer);
  summary.asyncs = sum_asyncs(trace, explainer);
  summary.odd_events = trace.oddities().total();
  return summary;
}

}  // namespace stalltrace::blame

#include "userspace/dump/explainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "userspace/dump/holders.h"

namespace stalltrace::dump {
namespace {

using kernel::WaitClass;

// Deeper than any real chain; a cycle is found before.
constexpr size_t kDeepest = 12;

}  // namespace

Explainer::Explainer(const Dump& dump, Explanation& result) : dump_(dump), result_(result) {
  for (size_t i = 0; i < dump.tasks.size(); ++i) {
    const Reading& one = result.readings[i];
    const Task& owner = dump.tasks[i];
    if (owner.pid != 0) by_pid_.emplace(owner.pid, i);
    for (size_t k = 0; k < owner.locks.size(); ++k) {
      by_lock_[owner.locks[k].address].push_back({i, k + 1 == owner.locks.size()});
    }
    if (one.of_the_dump) continue;
    if (one.handle == Handle::kOpen) open_handles_.push_back(i);
    if (one.idle) continue;
    if (one.handle == Handle::kPerhaps) perhaps_handles_.push_back(i);
    if (one.inode != HoldsInode::kNo) inode_holders_.push_back(i);
    if (is_flusher(one)) flushers_.push_back(i);
    if (!freezes_fs(one).empty()) fs_freezers_.push_back(i);
    if (!freezes_queue(one).empty()) queue_freezers_.push_back(i);
    if (is_log_worker(one)) log_workers_.push_back(i);
    if (is_tree_committer(one)) tree_committers_.push_back(i);
    if (is_checkpointer(one) && !one.journal_thread) checkpointers_.push_back(i);
    if (one.wait_class == WaitClass::kJournalBarrier &&
        has_frame(one, "jbd2_journal_lock_updates")) {
      lockers_.push_back(i);
    }
    if (!holds_group(one).empty()) group_holders_.push_back(i);
    if (!one.serves.empty()) loop_workers_.push_back(i);
    if (has_frame(one, "__iomap_dio_rw")) drainers_.push_back(i);
  }
}

bool Explainer::on_path(size_t at) const {
  return std::find(path_.begin(), path_.end(), at) != path_.end();
}

Explainer::End Explainer::unknown(std::string text) {
  End end;
  end.cause = "unexplained";
  end.sure = Sure::kGuess;
  end.text = std::move(text);
  return end;
}

Explainer::End Explainer::end_at(size_t at, std::string cause, std::string text, Sure sure) const {
  End end;
  end.cause = std::move(cause);
  end.text = std::move(text);
  end.sure = weaker(sure, reading(at).sure);
  end.dev = device_of(task(at));
  if (end.cause.starts_with("device.")) name_server(end);
  return end;
}

void Explainer::name_server(End& end) const {
  std::vector<size_t> workers;
  for (size_t i : loop_workers_) {
    if (end.dev.empty() || device_of(task(i)) == end.dev) workers.push_back(i);
  }
  if (workers.empty()) return;
  // Without a name it can only be meant if there is no other such device at work.
  std::string dev = device_of(task(workers.front()));
  bool one_device = std::all_of(workers.begin(), workers.end(),
                                [&](size_t i) { return device_of(task(i)) == dev; });
  if (end.dev.empty() && (!one_device || dev.empty())) return;
  // It does one thing at a time: while it flushes, whatever waits for the device waits for that.
  auto flushing = std::find_if(workers.begin(), workers.end(),
                               [this](size_t i) { return reading(i).serves == "flush"; });
  size_t worker = flushing == workers.end() ? workers.front() : *flushing;
  Sure sure = end.dev.empty() ? Sure::kGuess : Sure::kInferred;
  end.dev = dev;
  std::string_view work = reading(worker).serves;
  if (end.cause != "device.hung") {
    end.cause = fmt::format("device.{}", work);
    end.text = work == "flush" ? fmt::format("meanwhile, whatever waits for {} waits for that", dev)
                               : fmt::format("the device is busy with that {}", work);
  }
  end.sure = weaker(end.sure, sure);
  end.links.push_back({fmt::format("does {}'s work: a {}", dev, work), sure, worker, {}});
  end.task = worker;
}

Explainer::End Explainer::through(size_t from, size_t next, std::string text, Sure sure,
                                  std::vector<size_t> also) {
  edges_.push_back({from, next, text, sure});
  End end;
  if (on_path(next)) {
    end.cause = "cycle";
    end.text = "a deadlock: each waits for something that the next one has";
    size_t begin = 0;
    while (edges_[begin].from != next) ++begin;
    end.cycle.assign(edges_.begin() + static_cast<long>(begin), edges_.end());
    end.sure = Sure::kInferred;
    for (const Edge& edge : end.cycle) end.sure = weaker(end.sure, edge.sure);
  } else {
    end = follow(next);
    if (!end.task) end.task = next;
  }
  edges_.pop_back();
  end.sure = weaker(end.sure, sure);
  end.links.insert(end.links.begin(), {std::move(text), sure, next, std::move(also)});
  return end;
}

Explainer::End Explainer::through_any(size_t from, const std::vector<size_t>& candidates,
                                      const std::string& text, Sure sure) {
  size_t chosen = candidates.front();
  auto closing =
      std::find_if(candidates.begin(), candidates.end(), [this](size_t at) { return on_path(at); });
  if (closing != candidates.end()) {
    chosen = *closing;
  } else {
    std::unordered_map<std::string_view, size_t> count;
    for (size_t at : candidates) {
      std::string_view name = kernel::name_of(reading(at).wait_class);
      size_t now = ++count[name];
      if (now > count[kernel::name_of(reading(chosen).wait_class)]) chosen = at;
    }
  }
  std::vector<size_t> also;
  for (size_t at : candidates) {
    if (at != chosen) also.push_back(at);
  }
  bool one_device = std::all_of(also.begin(), also.end(), [&](size_t at) {
    return device_of(task(at)) == device_of(task(chosen));
  });
  End end = through(from, chosen, text, sure, std::move(also));
  if (!one_device) end.dev.clear();
  return end;
}

Explainer::End Explainer::follow(size_t at) {
  if (path_.size() >= kDeepest) return unknown("the chain goes on deeper than is followed");
  path_.push_back(at);
  End end;
  switch (reading(at).wait_class) {
    case WaitClass::kJournalLocked:
    case WaitClass::kJournalCredits:
    case WaitClass::kJournalCommit:
    case WaitClass::kJournalSpace:
    case WaitClass::kJournalBarrier:
    case WaitClass::kJournalBuffer:
    case WaitClass::kJournalFastcommit:
    case WaitClass::kJournalBatch:
      end = journal(at);
      break;
    case WaitClass::kCommitHandles:
    case WaitClass::kCommitData:
    case WaitClass::kCommitLog:
    case WaitClass::kCommitRecord:
    case WaitClass::kCommitCheckpoint:
    case WaitClass::kCommitRun:
      end = commit_phase(at);
      break;
    case WaitClass::kLockInode:
    case WaitClass::kLockExtent:
    case WaitClass::kLockMapping:
    case WaitClass::kLockOther:
      end = lock(at);
      break;
    case WaitClass::kBlockFlush:
    case WaitClass::kBlockRead:
    case WaitClass::kBlockWrite:
      end = device(at);
      break;
    case WaitClass::kBlockTag:
    case WaitClass::kBlockWbt:
    case WaitClass::kBlockThrottle:
    case WaitClass::kBlockFrozen:
    case WaitClass::kBlockDrain:
      end = queue(at);
      break;
    case WaitClass::kPageWriteback:
    case WaitClass::kPageLock:
    case WaitClass::kPageDirtyThrottle:
      end = pages(at);
      break;
    case WaitClass::kFsFrozen:
      end = frozen(at);
      break;
    case WaitClass::kLogForce:
    case WaitClass::kLogSpace:
    case WaitClass::kTreeLog:
    case WaitClass::kTreeCommit:
      end = others_log(at);
      break;
    case WaitClass::kMemoryReclaim:
      end = end_at(at, "memory",
                   reading(at).runnable ? "it is freeing memory" : "memory has to be freed first",
                   Sure::kInferred);
      break;
    case WaitClass::kCpuWait:
      end = end_at(at, "task.runnable", "it is runnable: it waits for a CPU, not for a device",
                   Sure::kInferred);
      break;
    case WaitClass::kCpuRun:
      end = end_at(at, "task.cpu", "it was running on a CPU", Sure::kInferred);
      break;
    default:
      end = unnamed(at);
      break;
  }
  path_.pop_back();
  return end;
}

Explainer::End Explainer::unnamed(size_t at) {
  if (reading(at).frames.empty()) {
    return unknown("its stack is not in this text");
  }
  if (reading(at).row == "37") {
    return end_at(at, "user", "the user-space server of a FUSE file system has not answered",
                  Sure::kInferred);
  }
  if (auto owner = named_owner(at)) return *owner;
  return unknown("waits that the stack table does not know; their stacks tell");
}

// ---- locks

// The owner that the kernel or lockdep names.
std::optional<Explainer::End> Explainer::named_owner(size_t at) {
  const Task& waiter = task(at);
  if (waiter.blocked_by) {
    const BlockedBy& by = *waiter.blocked_by;
    auto owner = by_pid_.find(by.owner_pid);
    if (owner != by_pid_.end() && owner->second != at) {
      std::string text = fmt::format("{} the {}, the kernel says",
                                     by.owner_reads ? "reads under" : "likely owns", by.lock);
      return through(at, owner->second, text, Sure::kInferred);
    }
    End end =
        unknown(fmt::format("the kernel says that {}[{}] likely owns the {}; its stack is "
                            "not in this text",
                            by.owner_comm, by.owner_pid, by.lock));
    end.sure = Sure::kInferred;
    if (by.owner_reads) end.cause = "readers";
    return end;
  }
  if (waiter.locks.empty()) return {};
  // lockdep lists a lock from the moment a task asks for it: the last is the one it waits for.
  std::string_view wanted = waiter.locks.back().address;
  if (wanted.empty()) return {};
  std::vector<size_t> owners;
  for (const Listed& one : by_lock_[wanted]) {
    bool waits_itself = one.last && reading(one.task).wait_class == reading(at).wait_class;
    if (one.task != at && !waits_itself) owners.push_back(one.task);
  }
  if (owners.empty()) return {};
  return through_any(at, owners, fmt::format("has {} by lockdep's list", waiter.locks.back().name),
                     Sure::kInferred);
}

Explainer::End Explainer::lock(size_t at) {
  if (auto owner = named_owner(at)) return *owner;
  if (reading(at).wait_class == WaitClass::kLockInode) return inode_lock(at);
  if (reading(at).meaning.find("allocation group") != std::string_view::npos) {
    std::vector<size_t> holders;
    std::copy_if(group_holders_.begin(), group_holders_.end(), std::back_inserter(holders),
                 [at](size_t i) { return i != at; });
    if (!holders.empty()) {
      return through_any(at, holders,
                         fmt::format("may hold the group's lock: it is inside {}",
                                     holds_group(reading(holders.front()))),
                         Sure::kGuess);
    }
  }
  return unknown(
      fmt::format("a stack does not tell who holds this lock ({})", reading(at).meaning));
}

Explainer::End Explainer::inode_lock(size_t at) {
  std::vector<size_t> holders;
  std::string_view wanted = file_system_of(reading(at));
  for (size_t i : inode_holders_) {
    std::string_view its = file_system_of(reading(i));
    bool same = wanted.empty() || its.empty() || wanted == its;
    if (i != at && same) holders.push_back(i);
  }
  if (holders.empty()) {
    bool ilock = reading(at).meaning.find("ILOCK") != std::string_view::npos;
    return unknown(fmt::format("who holds the {} is not in this text",
                               ilock ? "XFS inode's ILOCK" : "inode's lock"));
  }
  bool closes =
      std::any_of(holders.begin(), holders.end(), [this](size_t i) { return on_path(i); });
  bool shared = std::all_of(holders.begin(), holders.end(),
                            [this](size_t i) { return reading(i).inode == HoldsInode::kShared; });
  bool exclusive_wait =
      !reading(at).frames.empty() &&
      std::any_of(reading(at).frames.begin(), reading(at).frames.end(),
                  [](std::string_view frame) { return frame.starts_with("rwsem_down_write"); });
  if (shared && exclusive_wait && !closes && holders.size() > 1) {
    End end = end_at(at, "readers", "readers hold the inode's lock; nobody keeps a list of them",
                     Sure::kGuess);
    std::vector<size_t> also(holders.begin() + 1, holders.end());
    end.links.push_back({fmt::format("may be one of the readers: it is inside {}",
                                     reading(holders.front()).inode_frame),
                         Sure::kGuess, holders.front(), std::move(also)});
    return end;
  }
  size_t first = holders.front();
  std::string text =
      fmt::format("may hold the inode's lock: it is inside {}", reading(first).inode_frame);
  return through_any(at, holders, text, Sure::kGuess);
}

}  // namespace stalltrace::dump

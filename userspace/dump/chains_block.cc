// Waits that lead to devices, pages, and the logs of XFS and btrfs.
#include <fmt/format.h>

#include <algorithm>

#include "userspace/dump/explainer.h"
#include "userspace/dump/holders.h"

namespace stalltrace::dump {

using kernel::WaitClass;

Explainer::End Explainer::device(size_t at) {
  const Reading& one = reading(at);
  std::string_view what = one.wait_class == WaitClass::kBlockFlush  ? "flush"
                          : one.wait_class == WaitClass::kBlockRead ? "read"
                                                                    : "write";
  if (task(at).blocked_s > 0) {
    // The detector speaks up only if the task did not run once in all that time.
    return end_at(at, "device.hung",
                  fmt::format("a device has not answered a {} for {} s", what, task(at).blocked_s),
                  Sure::kInferred);
  }
  return end_at(at, fmt::format("device.{}", what), fmt::format("a device is busy with a {}", what),
                Sure::kInferred);
}

Explainer::End Explainer::queue(size_t at) {
  switch (reading(at).wait_class) {
    case WaitClass::kBlockTag:
      if (task(at).blocked_s > 0) {
        return end_at(at, "device.hung",
                      fmt::format("all requests of a device are taken, and none came back for {} s",
                                  task(at).blocked_s),
                      Sure::kInferred);
      }
      return end_at(at, "device.queue",
                    "all requests of a device are taken: it is slow, or completes nothing",
                    Sure::kInferred);
    case WaitClass::kBlockWbt:
      return end_at(at, "throttle",
                    "writeback throttling holds writes back: a slow device, a lost wakeup, or a "
                    "broken counter of what is in flight",
                    Sure::kInferred);
    case WaitClass::kBlockThrottle:
      return end_at(at, "throttle", "a limit of its cgroup holds it back", Sure::kInferred);
    case WaitClass::kBlockDrain: {
      std::vector<size_t> others;
      std::copy_if(drainers_.begin(), drainers_.end(), std::back_inserter(others),
                   [at](size_t i) { return i != at; });
      if (!others.empty()) {
        return through_any(at, others, "may have direct I/O on the inode in flight", Sure::kGuess);
      }
      return end_at(at, "device.write", "direct I/O on the inode is in flight", Sure::kGuess);
    }
    default:
      break;
  }
  // A frozen queue. Who freezes it waits for the requests in flight.
  if (!freezes_queue(reading(at)).empty()) {
    return end_at(at, "device.queue",
                  fmt::format("the queue's requests in flight have to end before it is frozen ({})",
                              freezes_queue(reading(at))),
                  Sure::kInferred);
  }
  std::vector<size_t> others;
  std::copy_if(queue_freezers_.begin(), queue_freezers_.end(), std::back_inserter(others),
               [at](size_t i) { return i != at; });
  if (!others.empty()) {
    size_t first = others.front();
    std::string text =
        fmt::format("keeps a queue frozen: it is inside {}", freezes_queue(reading(first)));
    End end = through_any(at, others, text, Sure::kInferred);
    if (end.cause == "unexplained") end.cause = "frozen";
    return end;
  }
  return end_at(at, "frozen", "a device's queue is frozen; who froze it is not in this text",
                Sure::kInferred);
}

Explainer::End Explainer::pages(size_t at) {
  std::vector<size_t> others;
  switch (reading(at).wait_class) {
    case WaitClass::kPageDirtyThrottle: {
      std::copy_if(flushers_.begin(), flushers_.end(), std::back_inserter(others),
                   [at](size_t i) { return i != at; });
      if (!others.empty()) {
        return through_any(at, others, "writes dirty pages back, and is held up itself",
                           others.size() == 1 ? Sure::kInferred : Sure::kGuess);
      }
      return end_at(at, "throttle", "pages are dirtied faster than they are written",
                    Sure::kInferred);
    }
    case WaitClass::kPageWriteback: {
      // Pages count as written only when their extents are converted, which needs a handle.
      for (size_t i = 0; i < dump_.tasks.size(); ++i) {
        const Reading& one = reading(i);
        bool converts = has_frame(one, "ext4_convert_unwritten_extents") ||
                        has_frame(one, "ext4_end_io_rsv_work") || has_frame(one, "ext4_end_io");
        if (i != at && converts && one.wait_class != WaitClass::kPageWriteback) others.push_back(i);
      }
      if (!others.empty()) {
        return through_any(at, others, "ends the write of pages, and is held up itself",
                           Sure::kGuess);
      }
      if (task(at).blocked_s > 0) {
        return end_at(at, "device.hung",
                      fmt::format("a page's write has not ended for {} s", task(at).blocked_s),
                      Sure::kGuess);
      }
      return end_at(at, "device.write", "pages are being written", Sure::kGuess);
    }
    default:
      return unknown("a stack does not tell who has the page locked");
  }
}

Explainer::End Explainer::frozen(size_t at) {
  std::vector<size_t> others;
  std::copy_if(fs_freezers_.begin(), fs_freezers_.end(), std::back_inserter(others),
               [at](size_t i) { return i != at; });
  if (!others.empty()) {
    size_t first = others.front();
    std::string text = fmt::format("freezes or thaws the file system: it is inside {}",
                                   freezes_fs(reading(first)));
    End end = through_any(at, others, text, Sure::kInferred);
    if (end.cause == "unexplained") {
      end.cause = "frozen";
      end.text = "the file system is frozen or being frozen";
    }
    return end;
  }
  return end_at(at, "frozen",
                "the file system is frozen; who froze it left no stack (a freeze needs no task to "
                "last)",
                Sure::kInferred);
}

Explainer::End Explainer::others_log(size_t at) {
  WaitClass wait_class = reading(at).wait_class;
  bool btrfs = wait_class == WaitClass::kTreeLog || wait_class == WaitClass::kTreeCommit;
  std::vector<size_t> others;
  for (size_t i : btrfs ? tree_committers_ : log_workers_) {
    // Those who wait as this one does lead nowhere.
    bool same = reading(i).wait_class == wait_class;
    if (i != at && !same) others.push_back(i);
  }
  if (!others.empty()) {
    return through_any(at, others,
                       btrfs ? "commits the transaction or the log tree" : "writes the XFS log",
                       others.size() == 1 ? Sure::kInferred : Sure::kGuess);
  }
  if (!btrfs) {
    return end_at(at, task(at).blocked_s > 0 ? "device.hung" : "device.flush",
                  "the XFS log is being written; each of its writes carries a flush", Sure::kGuess);
  }
  if (is_tree_committer(reading(at))) {
    return end_at(at, task(at).blocked_s > 0 ? "device.hung" : "device.write",
                  "the btrfs commit waits for its devices", Sure::kGuess);
  }
  return unknown("the task that commits the btrfs transaction is not in this text");
}

}  // namespace stalltrace::dump

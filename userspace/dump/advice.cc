// What the reader should know of the text, and what to do next.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "userspace/dump/explainer.h"

namespace stalltrace::dump {
namespace {

using kernel::WaitClass;

// Short enough for a terminal of 80 columns, to be copied in one piece; any shell takes them. The
// pattern matches stack, stat (for names and states), statm and status.
constexpr const char* kAllStacks = "grep -s . /proc/[0-9]*/task/*/sta[ct]* | stalltrace explain";
constexpr const char* kAllTasks = "echo t > /proc/sysrq-trigger; dmesg | stalltrace explain";
constexpr const char* kOnCpus = "echo l > /proc/sysrq-trigger; dmesg | stalltrace explain";

void advise_missing_holder(const Dump& dump, Explanation& result) {
  std::string why =
      "A task that runs, is runnable (reclaim, a busy loop) or sleeps only for moments may keep "
      "its handle open; no list of blocked tasks (sysrq-w, hung-task reports) shows it.";
  if (dump.sysrq_all) {
    why = "No stack in this list of all tasks shows an open handle.";
    if (result.without_stack > 0) {
      why += fmt::format(" {} of them ran or were runnable and show no stack: look at those first.",
                         result.without_stack);
    }
  }
  result.advice.push_back(
      {why + " Take all tasks, and what the CPUs run, a few times while it lasts:",
       {kAllTasks, kOnCpus, kAllStacks}});
  result.advice.push_back(
      {"Or see it happen: this names the handle's task, what it did and for how long:",
       {"stalltrace trace -d 60s"}});
  result.advice.push_back({"In a crash dump, a task whose journal_info is not 0 has a handle open:",
                           {"crash> foreach task -R journal_info"}});
}

Advice advice_for(const Root& root, const Dump& dump, const Explanation& result) {
  const std::string cause = root.cause;
  if (cause == "device.hung") {
    return {"See whether the device answers at all, and what the driver said:",
            {"grep . /sys/block/*/inflight", "grep -s . /sys/kernel/debug/block/*/hctx*/busy",
             "dmesg | grep -iE 'time(d )?out|reset|I/O error|offline'"}};
  }
  if (cause.starts_with("device.")) {
    return {
        "A stack does not tell a slow device from a busy one. See what it does, and follow it "
        "while it lasts:",
        {"grep . /sys/block/*/inflight", "stalltrace trace -d 30s"}};
  }
  if (cause == "memory") {
    return {"See how hard memory is being freed, and for whom:",
            {"cat /proc/pressure/memory",
             "grep -E '^(allocstall|pgscan_direct|pgsteal_direct)' /proc/vmstat",
             "grep -rs . /sys/fs/cgroup --include=memory.events"}};
  }
  if (cause == "throttle") {
    bool wbt = std::any_of(root.waiting.begin(), root.waiting.end(), [&](size_t at) {
      return result.readings[at].wait_class == WaitClass::kBlockWbt;
    });
    if (wbt) {
      return {
          "If nothing is in flight and tasks are still held back, it is the kernel's error, not "
          "the device's. 0 turns the throttling off:",
          {"grep . /sys/block/*/inflight /sys/block/*/queue/wbt_lat_usec"}};
    }
    return {"See the limits, and how much is dirty:",
            {"grep -E '^(Dirty|Writeback):' /proc/meminfo",
             "grep -rs . /sys/fs/cgroup --include=io.max --include=io.latency"}};
  }
  if (cause == "frozen") {
    bool fs = std::any_of(root.waiting.begin(), root.waiting.end(), [&](size_t at) {
      return result.readings[at].wait_class == WaitClass::kFsFrozen ||
             result.readings[at].wait_class == WaitClass::kJournalBarrier;
    });
    if (fs) {
      return {"Look for snapshots, backups and guest agents that freeze; then thaw:",
              {"ps -ef | grep -E 'fsfreeze|xfs_freeze|qemu-ga|lvcreate|dmsetup'",
               "findmnt -t ext4,xfs,btrfs", "fsfreeze -u MOUNTPOINT"}};
    }
    return {"See what is in flight, and who changes the queue:",
            {"grep . /sys/block/*/inflight", kAllStacks}};
  }
  if (cause == "cycle") {
    return {"A deadlock does not end by itself. Keep the evidence before a reboot:",
            {"echo t > /proc/sysrq-trigger; dmesg > all-tasks.txt",
             "echo c > /proc/sysrq-trigger    # only with kdump set up: crashes the machine"}};
  }
  if (cause == "task.cpu" || cause == "task.runnable") {
    return {"See what the CPUs run, and who shares them with it:",
            {kOnCpus, "stalltrace trace -d 30s"}};
  }
  if (cause == "readers") {
    return {"Only a trace sees readers come and go:", {"stalltrace trace -d 30s"}};
  }
  if (cause == "user") {
    return {"See what the server of the FUSE file system does:",
            {"grep ' fuse' /proc/mounts", kAllStacks}};
  }
  if (cause == "unexplained" && !result.holder_missing) {
    std::string text = "A trace names what a stack does not, the holders of locks too:";
    if (dump.lists_blocked_only) {
      return {"Take all tasks, not only the blocked ones, while it lasts; or see it happen:",
              {kAllTasks, kAllStacks, "stalltrace trace -d 60s"}};
    }
    return {text, {"stalltrace trace -d 60s"}};
  }
  return {};
}

void note(const Dump& dump, Explanation& result) {
  auto& notes = result.notes;
  if (dump.cut) notes.emplace_back("The text ends within a stack: tasks may be missing.");
  size_t again = std::count_if(dump.tasks.begin(), dump.tasks.end(),
                               [](const Task& task) { return task.times_seen > 1; });
  if (again > 0) {
    size_t moved = std::count_if(dump.tasks.begin(), dump.tasks.end(),
                                 [](const Task& task) { return task.moved; });
    notes.push_back(fmt::format(
        "{} task{} reported several times: the last report counts. {}", again,
        again == 1 ? " is" : "s are",
        moved == 0 ? "Their stacks did not change."
                   : fmt::format("{} had another stack before: not all is one long wait.", moved)));
  }
  bool hung = std::any_of(dump.tasks.begin(), dump.tasks.end(),
                          [](const Task& task) { return task.blocked_s > 0; });
  if (hung && dump.first_s >= 0 && dump.last_s - dump.first_s > 5) {
    notes.push_back(fmt::format(
        "These reports span {:.0f} s: they are no picture of one moment, and a task may "
        "have moved on between two of them.",
        dump.last_s - dump.first_s));
  }
  bool waits_for_commit =
      std::any_of(result.groups.begin(), result.groups.end(), [](const Group& group) {
        return group.wait_class == WaitClass::kJournalLocked ||
               group.wait_class == WaitClass::kJournalCommit;
      });
  if (waits_for_commit && !result.committers.empty() &&
      std::all_of(result.committers.begin(), result.committers.end(),
                  [](const Committer& one) { return one.idle; })) {
    notes.emplace_back(
        "The journal's thread is idle here although tasks wait for a commit: the stacks are of "
        "different moments, or the journal is another one.");
  }
  size_t busy = std::count_if(result.committers.begin(), result.committers.end(),
                              [](const Committer& one) { return !one.idle; });
  if (busy > 1 && waits_for_commit) {
    notes.push_back(fmt::format(
        "{} journals are committing. A stack does not tell whose journal a task waits for.", busy));
  }
  bool unreliable = std::any_of(dump.tasks.begin(), dump.tasks.end(), [](const Task& task) {
    return task.frames.size() > 2 &&
           std::all_of(task.frames.begin(), task.frames.end(),
                       [](const Frame& frame) { return frame.unreliable; });
  });
  if (unreliable) {
    notes.emplace_back(
        "Stacks without one reliable frame (all marked '?') may show calls that ended long ago.");
  }
}

}  // namespace

void advise(const Dump& dump, Explanation& result) {
  note(dump, result);
  if (result.holder_missing) advise_missing_holder(dump, result);
  std::set<std::string> said;
  size_t looked_at = 0;
  for (const Root& root : result.roots) {
    if (++looked_at > 3) break;
    if (root.cause == "unexplained" && result.holder_missing) continue;
    Advice advice = advice_for(root, dump, result);
    if (!advice.text.empty() && said.insert(advice.text).second) {
      result.advice.push_back(std::move(advice));
    }
  }
}

}  // namespace stalltrace::dump

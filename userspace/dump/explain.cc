#include "userspace/dump/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "userspace/dump/explainer.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::dump {
namespace {

using kernel::WaitClass;

// All that a reading depends on; tasks that agree in it are read once.
std::string key_of(const Task& task) {
  std::string key;
  key.reserve(task.frames.size() * 24 + 8);
  key += task.state == 0 ? '-' : task.state;
  key += task.on_cpu ? '+' : '-';
  key += task.comm.starts_with("jbd2/") || task.comm.starts_with("kjournald") ? 'j' : '-';
  bool handle = std::any_of(task.locks.begin(), task.locks.end(),
                            [](const HeldLock& lock) { return lock.name == "jbd2_handle"; });
  key += handle ? 'h' : '-';
  for (const Frame& frame : task.frames) {
    key += frame.unreliable ? '?' : ' ';
    key += frame.symbol;
  }
  return key;
}

struct StackShape {
  size_t first = 0;
  std::vector<size_t> tasks;
};

bool waits(const Reading& reading) {
  return !reading.idle && !reading.of_the_dump && !reading.journal_thread &&
         reading.serves.empty() && reading.wait_class != WaitClass::kCpuRun &&
         reading.wait_class != WaitClass::kCpuWait &&
         !(reading.runnable && reading.wait_class == WaitClass::kMemoryReclaim);
}

// Chains that end in the same place are one root's.
std::string root_key(const Explainer::End& end) {
  std::string key = end.cause + '|' + end.dev + '|';
  if (!end.cycle.empty()) {
    std::vector<size_t> members;
    for (const Edge& edge : end.cycle) members.push_back(edge.from);
    std::sort(members.begin(), members.end());
    for (size_t member : members) key += fmt::format("{},", member);
  } else if (!end.links.empty()) {
    key += fmt::format("{}", end.links.back().task.value_or(0));
    if (end.cause == "unexplained") key += end.text;
  } else if (end.cause == "unexplained" || end.cause == "frozen") {
    key += end.text;
  }
  return key;
}

Cycle rotated(Cycle cycle) {
  auto least = std::min_element(cycle.begin(), cycle.end(),
                                [](const Edge& a, const Edge& b) { return a.from < b.from; });
  std::rotate(cycle.begin(), least, cycle.end());
  return cycle;
}

void find_committers(const Dump& dump, Explanation& result) {
  for (size_t i = 0; i < dump.tasks.size(); ++i) {
    const Reading& reading = result.readings[i];
    if (!reading.journal_thread || reading.of_the_dump) continue;
    result.committers.push_back(
        {i, device_of(dump.tasks[i]), reading.wait_class, reading.sure, reading.idle});
  }
}

// Roots of device waits are told apart by device only where the text knows it.
void add_root(Explanation& result, std::map<std::string, size_t>& by_key, Explainer::End end,
              const std::vector<size_t>& tasks, Group& group, Link first) {
  auto [at, is_new] = by_key.try_emplace(root_key(end), result.roots.size());
  if (is_new) {
    Root root;
    root.cause = std::move(end.cause);
    root.sure = end.sure;
    root.text = std::move(end.text);
    // The journal's thread that lacks a handle is the last of a chain, but no root.
    if (!end.holder_missing) root.task = end.task;
    root.dev = std::move(end.dev);
    result.roots.push_back(std::move(root));
    if (!end.cycle.empty()) result.cycles.push_back(rotated(std::move(end.cycle)));
  }
  Root& root = result.roots[at->second];
  // The group with most tasks gives the chain; groups come in that order.
  if (root.chain.empty()) {
    root.chain.push_back(std::move(first));
    for (Link& link : end.links) root.chain.push_back(std::move(link));
  }
  root.waiting.insert(root.waiting.end(), tasks.begin(), tasks.end());
  group.root = at->second;
  result.holder_missing |= end.holder_missing;
}

// A task that others wait for has a chain of its own, which is the end of theirs: one root.
void join_roots(Explanation& result) {
  std::vector<std::optional<size_t>> joined(result.roots.size());
  for (size_t i = 0; i < result.roots.size(); ++i) {
    const Root& one = result.roots[i];
    for (size_t k = 0; k < result.roots.size() && !joined[i]; ++k) {
      const Root& longer = result.roots[k];
      if (i == k || longer.cause != one.cause || longer.chain.size() <= one.chain.size()) continue;
      bool inside = std::all_of(one.waiting.begin(), one.waiting.end(), [&](size_t at) {
        return std::any_of(longer.chain.begin(), longer.chain.end(),
                           [at](const Link& link) { return link.task == at; });
      });
      if (inside) joined[i] = k;
    }
  }
  std::vector<Root> kept;
  std::vector<size_t> now_at(result.roots.size());
  for (size_t i = 0; i < result.roots.size(); ++i) {
    if (joined[i]) continue;
    now_at[i] = kept.size();
    kept.push_back(std::move(result.roots[i]));
  }
  for (Group& group : result.groups) {
    if (!group.root) continue;
    size_t at = *group.root;
    while (joined[at]) at = *joined[at];
    group.root = now_at[at];
  }
  result.roots = std::move(kept);
}

}  // namespace

Explanation explain(const Dump& dump) {
  Explanation result;
  result.readings.resize(dump.tasks.size());
  std::unordered_map<std::string, size_t> shape_of;
  std::vector<StackShape> shapes;
  for (size_t i = 0; i < dump.tasks.size(); ++i) {
    auto [at, is_new] = shape_of.try_emplace(key_of(dump.tasks[i]), shapes.size());
    if (is_new) {
      shapes.push_back({i, {}});
      result.readings[i] = read_stack(dump.tasks[i], dump.kernel);
    } else {
      result.readings[i] = result.readings[shapes[at->second].first];
    }
    shapes[at->second].tasks.push_back(i);
  }
  find_committers(dump, result);
  Explainer explainer(dump, result);
  explainer.settle_classes();

  for (const StackShape& shape : shapes) {
    const Reading& reading = result.readings[shape.first];
    if (reading.of_the_dump) continue;
    if (reading.runnable && !reading.journal_thread) {
      result.runnable += shape.tasks.size();
      if (reading.frames.empty()) result.without_stack += shape.tasks.size();
    }
    if (reading.idle) {
      // A holder that only lockdep knows has no stack, but is not to be lost.
      if (reading.handle != Handle::kOpen) {
        result.idle += shape.tasks.size();
        continue;
      }
    }
    if (waits(reading)) result.blocked += shape.tasks.size();
    bool runnable_and_idle = reading.runnable && reading.handle == Handle::kNone &&
                             reading.inode == HoldsInode::kNo && !reading.journal_thread &&
                             reading.wait_class != WaitClass::kMemoryReclaim &&
                             !shape.tasks.empty();
    if (runnable_and_idle && dump.sysrq_all) continue;
    result.groups.push_back({reading.wait_class, std::string(reading.meaning), reading.sure,
                             shape.tasks, std::nullopt});
  }
  std::stable_sort(result.groups.begin(), result.groups.end(),
                   [](const Group& a, const Group& b) { return a.tasks.size() > b.tasks.size(); });

  std::map<std::string, size_t> by_key;
  for (Group& group : result.groups) {
    const Reading& reading = result.readings[group.tasks.front()];
    if (!waits(reading) || reading.idle) continue;
    // Tasks whose blocker the text names one by one are followed one by one.
    std::vector<std::vector<size_t>> parts(1);
    for (size_t at : group.tasks) {
      const Task& task = dump.tasks[at];
      if (task.blocked_by || !task.locks.empty()) {
        parts.push_back({at});
      } else {
        parts.front().push_back(at);
      }
    }
    for (const std::vector<size_t>& part : parts) {
      if (part.empty()) continue;
      Link first{std::string(group.meaning), group.sure, part.front(), part};
      add_root(result, by_key, explainer.follow(part.front()), part, group, std::move(first));
    }
  }
  // A journal's thread that no other task waits for is worth following, too.
  for (Group& group : result.groups) {
    size_t at = group.tasks.front();
    const Reading& reading = result.readings[at];
    if (!reading.journal_thread || reading.idle) continue;
    bool named = std::any_of(result.roots.begin(), result.roots.end(), [&](const Root& root) {
      return std::any_of(root.chain.begin(), root.chain.end(), [&](const Link& link) {
        return link.task &&
               std::find(group.tasks.begin(), group.tasks.end(), *link.task) != group.tasks.end();
      });
    });
    if (named) continue;
    Link first{std::string(group.meaning), group.sure, at, group.tasks};
    add_root(result, by_key, explainer.follow(at), group.tasks, group, std::move(first));
  }
  join_roots(result);
  std::vector<size_t> order(result.roots.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Root& left = result.roots[a];
    const Root& right = result.roots[b];
    if (left.waiting.size() != right.waiting.size()) {
      return left.waiting.size() > right.waiting.size();
    }
    bool left_known = left.cause != "unexplained";
    bool right_known = right.cause != "unexplained";
    if (left_known != right_known) return left_known;
    return left.chain.size() > right.chain.size();
  });
  std::vector<Root> sorted;
  std::vector<size_t> now_at(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    now_at[order[i]] = i;
    sorted.push_back(std::move(result.roots[order[i]]));
  }
  result.roots = std::move(sorted);
  for (Group& group : result.groups) {
    if (group.root) group.root = now_at[*group.root];
  }
  advise(dump, result);
  return result;
}

std::string label_of(const Task& task) {
  if (!task.comm.empty() && task.pid != 0) return fmt::format("{}[{}]", task.comm, task.pid);
  if (!task.comm.empty()) return task.comm;
  if (task.pid != 0) return fmt::format("task {}", task.pid);
  return fmt::format("the task of line {}", task.line);
}

std::string device_of(const Task& task) {
  std::string_view comm = task.comm;
  if (comm.starts_with("jbd2/")) {
    comm.remove_prefix(5);
    // "sda9-8": behind the dash stands the journal's inode; device names may hold dashes.
    size_t dash = comm.rfind('-');
    bool inode = dash != std::string_view::npos && dash + 1 < comm.size() &&
                 comm.find_first_not_of("0123456789", dash + 1) == std::string_view::npos;
    return std::string(comm.substr(0, inode ? dash : comm.size()));
  }
  if (comm.starts_with("xfsaild/")) return std::string(comm.substr(8));
  // "loop10", "kworker/u8:4+loop10", and the work "loop10 loop_workfn".
  for (std::string_view text : {std::string_view(task.workqueue), comm}) {
    size_t loop = text.find("loop");
    bool at_start = loop == 0 || (loop != std::string_view::npos && text[loop - 1] == '+');
    if (!at_start) continue;
    size_t end = text.find_first_not_of("0123456789", loop + 4);
    std::string_view name = text.substr(loop, end == std::string_view::npos ? end : end - loop);
    if (name.size() > 4) return std::string(name);
  }
  for (std::string_view text : {std::string_view(task.workqueue), comm}) {
    size_t flush = text.find("flush-");
    if (flush != std::string_view::npos) {
      std::string_view rest = text.substr(flush + 6);
      size_t end = rest.find_first_not_of("0123456789:");
      rest = rest.substr(0, end);
      if (rest.find(':') != std::string_view::npos) return std::string(rest);
    }
    for (std::string_view queue : {"xfs-log/", "xfs-cil/", "xfs-conv/", "xfs-sync/", "dio/"}) {
      size_t at = text.find(queue);
      if (at == std::string_view::npos) continue;
      std::string_view rest = text.substr(at + queue.size());
      return std::string(rest.substr(0, rest.find_first_of(" )")));
    }
  }
  return {};
}

}  // namespace stalltrace::dump

#include "userspace/cli/dio_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "userspace/blame/explain.h"
#include "userspace/kernel/wait_class.h"
#include "userspace/model/call_names.h"

namespace stalltrace::cli {
namespace {

using blame::RootKind;
using kernel::WaitClass;

struct ReaderSums {
  uint64_t lock_inode = 0, lock_other = 0, queue = 0, device = 0, other = 0;
  std::map<std::pair<std::string, std::string>, uint64_t> holders;  // who, doing

  [[nodiscard]] uint64_t all() const { return lock_inode + lock_other + queue + device + other; }
};

// "write-03" is one of many of its kind.
std::string kind_of(const std::string& comm) {
  const size_t dash = comm.rfind('-');
  if (dash == std::string::npos || dash + 1 == comm.size()) return comm;
  bool numbered = comm.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  const std::string kind = comm.substr(0, dash);
  if (!numbered) return comm;
  return kind == "read" ? "readers" : kind == "write" ? "writers" : kind;
}

// The call and the longest of the waits that overlap `span`, of the task that held the lock.
std::string doing_of(const model::Trace& trace, uint32_t tid, model::Span span) {
  const model::Call* call = trace.call_at(tid, span.start_ns);
  std::string text = call == nullptr ? "" : std::string(model::call_name(call->kind()));
  std::map<WaitClass, uint64_t> waits;
  for (const model::Wait& wait : trace.waits_of(tid, span)) {
    if (wait.stack == 0) continue;
    const WaitClass wait_class = kernel::classify(trace.frames(wait), {.journal_thread = false,
                                                                       .transaction_running = false,
                                                                       .is_write = true,
                                                                       .preempted = false});
    waits[wait_class] += wait.blocked().clip(span).ns();
  }
  uint64_t slept = 0;
  for (const auto& [wait_class, ns] : waits) slept += ns;
  const auto longest = std::max_element(
      waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (2 * slept < span.ns() || longest == waits.end()) {
    return text.empty() ? "running" : text + ", running";
  }
  return fmt::format("{}{}{}", text, text.empty() ? "" : ", ", kernel::name_of(longest->first));
}

// The first holders met on the way down the chain: those that had the lock themselves.
void add_holders(const model::Trace& trace, const std::vector<blame::Cause>& causes,
                 ReaderSums& sums) {
  for (const blame::Cause& cause : causes) {
    if (cause.kind != blame::CauseKind::kHolder) {
      add_holders(trace, cause.causes, sums);
      continue;
    }
    if (cause.task.tid == 0) {
      sums.holders[{"nobody seen", ""}] += cause.ns;
      continue;
    }
    const model::Span span{cause.start_ns, cause.start_ns + cause.ns};
    sums.holders[{kind_of(cause.task.comm), doing_of(trace, cause.task.tid, span)}] += cause.ns;
  }
}

void add_root(const blame::Root& root, uint64_t ns, ReaderSums& sums) {
  switch (root.kind) {
    case RootKind::kDeviceQueue:
      sums.queue += ns;
      return;
    case RootKind::kDeviceFlush:
    case RootKind::kDeviceWrite:
    case RootKind::kDeviceRead:
    case RootKind::kDeviceHung:
      sums.device += ns;
      return;
    default:
      sums.other += ns;
  }
}

void add_causes(const std::vector<blame::Cause>& causes, ReaderSums& sums) {
  for (const blame::Cause& cause : causes) {
    if (cause.causes.empty()) {
      add_root(cause.root, cause.ns, sums);
    } else {
      add_causes(cause.causes, sums);
    }
  }
}

void add_part(const model::Trace& trace, const blame::Part& part, ReaderSums& sums) {
  switch (part.wait_class) {
    case WaitClass::kLockInode:
      sums.lock_inode += part.ns;
      add_holders(trace, part.causes, sums);
      return;
    case WaitClass::kLockExtent:
    case WaitClass::kLockMapping:
    case WaitClass::kLockOther:
      sums.lock_other += part.ns;
      return;
    case WaitClass::kBlockTag:
    case WaitClass::kBlockWbt:
    case WaitClass::kBlockThrottle:
    case WaitClass::kBlockFrozen:
      sums.queue += part.ns;
      return;
    default:
      break;
  }
  if (part.causes.empty()) {
    add_root(part.root, part.ns, sums);
  } else {
    add_causes(part.causes, sums);
  }
}

}  // namespace

nlohmann::json reader_figures(const model::Trace& trace, const std::set<uint32_t>& readers,
                              uint64_t readers_ns, uint64_t threshold_ns) {
  ReaderSums sums;
  for (const model::Call& call : trace.calls()) {
    if (!readers.contains(call.tid()) || call.kind() != wire::CALL_READ) continue;
    if (call.wanted_only() || call.span.ns() < threshold_ns) continue;
    for (const blame::Part& part : blame::explain(trace, call).parts) add_part(trace, part, sums);
  }
  // A read that ended late lasted longer than its cell.
  const uint64_t whole = std::max({readers_ns, sums.all(), uint64_t{1}});
  auto share = [whole](uint64_t ns) {
    return static_cast<double>(ns) / static_cast<double>(whole);
  };
  std::vector<std::pair<std::pair<std::string, std::string>, uint64_t>> holders(
      sums.holders.begin(), sums.holders.end());
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [who, ns] : holders) {
    list.push_back({{"who", who.first},
                    {"doing", who.second},
                    {"us", static_cast<double>(ns) / 1e3},
                    {"share", static_cast<double>(ns) /
                                  static_cast<double>(std::max<uint64_t>(sums.lock_inode, 1))}});
  }
  return {{"lock.inode", share(sums.lock_inode)},
          {"lock.other", share(sums.lock_other)},
          {"queue", share(sums.queue)},
          {"device", share(sums.device)},
          {"other", share(sums.other)},
          {"short", share(whole - sums.all())},
          {"threshold_us", static_cast<double>(threshold_ns) / 1e3},
          {"holders", list}};
}

}  // namespace stalltrace::cli

#include "userspace/batching/unseen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace stalltrace::batching {
namespace {

struct Loss {
  std::string_view hook;
  bool Unseen::*what;
  std::string_view text;
};
// Hooks without which nothing can be traced are not here.
constexpr std::array kLosses{
    Loss{"ext4_sync_file_enter", &Unseen::syncs, "syncs of files"},
    Loss{"ext4_sync_file_exit", &Unseen::syncs, "syncs by kernel workers, and the ends of others"},
    Loss{"ext4_sync_fs", &Unseen::syncs, "sync and syncfs"},
    Loss{"jbd2_handle_stats", &Unseen::syncs, "syncs of directory entries (dirsync)"},
    Loss{"ext4_fc_commit_stop", &Unseen::requests, "which syncs a fast commit served"},
    Loss{"jbd2_start_commit", &Unseen::commits, "commits"},
    Loss{"jbd2_end_commit", &Unseen::commits, "commits"},
    Loss{"jbd2_commit_locking", &Unseen::handles, "how long commits waited for open handles"},
    Loss{"jbd2_commit_flushing", &Unseen::handles, "how long commits waited for open handles"},
    Loss{"block_bio_queue", &Unseen::requests, "who asked for which flush"},
    Loss{"block_rq_issue", &Unseen::flushes, "flushes"},
    Loss{"block_rq_complete", &Unseen::flushes, "flushes"}};

}  // namespace

Unseen& Unseen::operator|=(const Unseen& other) {
  syncs = syncs || other.syncs;
  commits = commits || other.commits;
  flushes = flushes || other.flushes;
  requests = requests || other.requests;
  handles = handles || other.handles;
  for (const std::string& reason : other.reasons) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(reason);
    }
  }
  return *this;
}

Unseen unseen_without(const std::vector<MissingHook>& hooks) {
  Unseen unseen;
  for (const Loss& loss : kLosses) {
    for (const MissingHook& hook : hooks) {
      if (hook.name != loss.hook) continue;
      unseen.*loss.what = true;
      unseen.reasons.push_back(fmt::format("{} ({}: {})", loss.text, hook.name, hook.why));
    }
  }
  return unseen;
}

}  // namespace stalltrace::batching

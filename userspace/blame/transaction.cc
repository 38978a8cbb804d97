// Whose work a commit writes: a transaction is everybody's.
#include <fmt/format.h>

#include "userspace/base/units.h"
#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"

namespace stalltrace::blame {
namespace {

constexpr size_t kDirtiersListed = 3;

}  // namespace

// Whose data the commit wrote most of, as evidence of `cause`.
void Explainer::add_ordered_data(const model::Commit& commit, Cause& cause) const {
  const wire::wire_commit& event = commit.event;
  if (event.data_inodes == 0) return;
  cause.path = trace_.path_of(event.dev, event.data_path);
  if (cause.path.empty()) cause.path = trace_.path_of(event.dev, event.data_ino);
  std::string text = "ordered data: ";
  if (event.data_bytes != 0) text += format_size(event.data_bytes) + ' ';
  if (event.data_inodes > 1) {
    text += fmt::format("in {} files, ", event.data_inodes);
    if (event.data_ino_bytes != 0) {
      text += fmt::format("the most {} ", format_size(event.data_ino_bytes));
    } else {
      text += "the first ";
    }
  }
  text += cause.path.empty() ? fmt::format("of inode {}", event.data_ino)
                             : fmt::format("of {} (inode {})", cause.path, event.data_ino);
  // Its owner is whose call had a handle on it in this transaction. Else it is who was last busy
  // with the file before the transaction was closed.
  cause.owner = task_name(event.data_owner);
  if (cause.owner.tid == 0) {
    for (const model::Call* call : trace_.calls_on(
             event.dev, event.data_ino, {trace_.window().start_ns, commit.locked().end_ns})) {
      cause.owner = task_name(call->event.task);
    }
  }
  if (cause.owner.tid != 0) text += fmt::format(", by {}", text_of(cause.owner));
  cause.evidence.push_back(text);
}

// Who dirtied the metadata that the commit writes to the log. Who did more than all others together
// is the owner: the result says so, as an aside in the cause's text, else it is empty.
std::string Explainer::add_metadata(const model::Commit& commit, Cause& cause) const {
  std::span<const model::Dirtied> all = trace_.dirtied(commit.event.dev, commit.event.tid);
  if (all.empty()) return {};
  uint64_t blocks = 0;
  for (const model::Dirtied& one : all) blocks += one.blocks;
  std::string text = fmt::format("metadata: {} block{}", blocks, blocks == 1 ? "" : "s");
  for (size_t i = 0; i < std::min(all.size(), kDirtiersListed); ++i) {
    text += fmt::format("{} {} by {}", i == 0 ? ":" : ",", all[i].blocks,
                        text_of(task_name(all[i].task)));
    if (std::string path = trace_.path_of(all[i].dev, all[i].name); !path.empty()) {
      text += fmt::format(" ({})", path);
    }
  }
  if (all.size() > kDirtiersListed) {
    size_t more = all.size() - kDirtiersListed;
    text += fmt::format(", and by {} more task{}", more, more == 1 ? "" : "s");
  }
  cause.evidence.push_back(text);
  const model::Dirtied& most = all.front();
  if (most.blocks * 2 <= blocks) return {};
  cause.owner = task_name(most.task);
  cause.owns_metadata = true;
  cause.path = trace_.path_of(most.dev, most.name);
  return fmt::format(" ({} of {} dirtied by {})", most.blocks, blocks, text_of(cause.owner));
}

}  // namespace stalltrace::blame

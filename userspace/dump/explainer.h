// Follows each wait to what it waited for, over the tasks of one text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "userspace/dump/explain.h"

namespace stalltrace::dump {

class Explainer {
 public:
  Explainer(const Dump& dump, Explanation& result);

  // Where the chain of a task ends, with the links after the task itself.
  struct End {
    std::string cause;
    Sure sure = Sure::kInferred;
    std::string text;
    std::optional<size_t> task;
    std::string dev;
    std::vector<Link> links;
    Cycle cycle;
    bool holder_missing = false;
  };
  End follow(size_t task);

  // The class that the others make of a task's: a wait for a locked transaction is one for a full
  // one if no transaction can be locked.
  void settle_classes();

 private:
  [[nodiscard]] const Task& task(size_t at) const { return dump_.tasks[at]; }
  [[nodiscard]] const Reading& reading(size_t at) const { return result_.readings[at]; }
  [[nodiscard]] bool on_path(size_t at) const;

  // Goes on to `next`, which has what `from` waits for.
  End through(size_t from, size_t next, std::string text, Sure sure, std::vector<size_t> also = {});
  // Of several that may have it: one on the path closes a cycle, else that of the most common
  // stack.
  End through_any(size_t from, const std::vector<size_t>& candidates, const std::string& text,
                  Sure sure);
  End end_at(size_t at, std::string cause, std::string text, Sure sure) const;
  // Names the worker that does the device's work, if it is one of a loop device.
  void name_server(End& end) const;
  static End unknown(std::string text);

  End journal(size_t at);
  End behind_commit(size_t at, std::string_view why);
  End commit_phase(size_t at);
  End open_handles(size_t at);
  End log_space(size_t at);
  End metadata_buffer(size_t at);
  End barred(size_t at);
  End lock(size_t at);
  std::optional<End> named_owner(size_t at);
  End inode_lock(size_t at);
  End device(size_t at);
  End queue(size_t at);
  End pages(size_t at);
  End frozen(size_t at);
  End others_log(size_t at);
  End unnamed(size_t at);

  [[nodiscard]] std::vector<size_t> committers_in(bool (*phase)(kernel::WaitClass)) const;
  [[nodiscard]] std::vector<size_t> handle_holders() const;

  const Dump& dump_;
  Explanation& result_;
  std::vector<size_t> open_handles_, perhaps_handles_, inode_holders_, flushers_, fs_freezers_,
      queue_freezers_, log_workers_, tree_committers_, checkpointers_, lockers_, drainers_,
      group_holders_, loop_workers_;
  std::unordered_map<uint32_t, size_t> by_pid_;
  // Who lists a lock's address, and whether it is the last of its list.
  struct Listed {
    size_t task = 0;
    bool last = false;
  };
  std::unordered_map<std::string_view, std::vector<Listed>> by_lock_;
  std::vector<size_t> path_;
  std::vector<Edge> edges_;
};

// Advice and notes for what was found; fills `advice` and `notes`.
void advise(const Dump& dump, Explanation& result);

}  // namespace stalltrace::dump

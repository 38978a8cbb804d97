// Waits that lead into jbd2.
#include <fmt/format.h>

#include <algorithm>

#include "userspace/dump/explainer.h"
#include "userspace/dump/holders.h"

namespace stalltrace::dump {

using kernel::WaitClass;

std::vector<size_t> Explainer::committers_in(bool (*phase)(WaitClass)) const {
  std::vector<size_t> found;
  for (const Committer& one : result_.committers) {
    if (!one.idle && phase(one.phase)) found.push_back(one.task);
  }
  return found;
}

void Explainer::settle_classes() {
  std::vector<Committer*> busy;
  for (Committer& one : result_.committers) {
    if (!one.idle) busy.push_back(&one);
  }
  auto count = [this](WaitClass wait_class) {
    return std::count_if(result_.readings.begin(), result_.readings.end(),
                         [wait_class](const Reading& one) { return one.wait_class == wait_class; });
  };
  bool locked_out = count(WaitClass::kJournalLocked) > 0;
  if (busy.size() != 1 || !locked_out) return;
  Committer& only = *busy.front();
  if (only.phase == WaitClass::kCommitLog && only.sure == Sure::kGuess) {
    // /proc/PID/stack of kernels before 5.16 shows one function for both waits. New handles wait
    // for a locked transaction only while it waits for the old ones.
    only.phase = WaitClass::kCommitHandles;
    only.sure = Sure::kInferred;
    Reading& thread = result_.readings[only.task];
    thread.wait_class = only.phase;
    thread.sure = only.sure;
    thread.meaning = "the commit waits for open handles (seen from those that it locks out)";
    return;
  }
  bool past_the_lock = only.phase == WaitClass::kCommitData ||
                       only.phase == WaitClass::kCommitLog ||
                       only.phase == WaitClass::kCommitRecord;
  // Hung-task reports are minutes apart; a thread may have gone on between two of them.
  bool one_moment = !dump_.lists_blocked_only || task(only.task).blocked_s == 0;
  if (!past_the_lock || only.sure == Sure::kGuess || !one_moment) return;
  for (Reading& one : result_.readings) {
    if (one.wait_class != WaitClass::kJournalLocked) continue;
    // One thread locks transactions and writes them: while it writes, none is locked.
    one.wait_class = WaitClass::kJournalCredits;
    one.meaning = "waits for the next transaction because the running one is full";
  }
}

Explainer::End Explainer::journal(size_t at) {
  const Reading& one = reading(at);
  switch (one.wait_class) {
    case WaitClass::kJournalLocked: {
      auto waiting =
          committers_in([](WaitClass phase) { return phase == WaitClass::kCommitHandles; });
      if (!waiting.empty()) {
        return through_any(at, waiting,
                           "has locked the transaction to commit it, and waits for the handles "
                           "that are still open in it",
                           waiting.size() == 1 ? Sure::kInferred : Sure::kGuess);
      }
      auto busy = committers_in([](WaitClass) { return true; });
      if (!busy.empty()) {
        return through_any(at, busy, "is committing", Sure::kGuess);
      }
      return open_handles(at);
    }
    case WaitClass::kJournalCredits:
      return behind_commit(at, "must end its commit before the full transaction can be committed");
    case WaitClass::kJournalCommit:
      return behind_commit(at, "is committing the transaction");
    case WaitClass::kJournalSpace:
      return log_space(at);
    case WaitClass::kJournalBarrier:
      return barred(at);
    case WaitClass::kJournalBuffer:
      return metadata_buffer(at);
    case WaitClass::kJournalBatch:
      return end_at(at, "knob", "a deliberate sleep: batching", Sure::kInferred);
    default:
      return unknown("who writes the fast commit is not told by a stack");
  }
}

Explainer::End Explainer::behind_commit(size_t at, std::string_view why) {
  auto busy = committers_in([](WaitClass) { return true; });
  if (!busy.empty()) {
    return through_any(at, busy, std::string(why),
                       busy.size() == 1 ? Sure::kInferred : Sure::kGuess);
  }
  if (!result_.committers.empty()) {
    return unknown(
        "the journal's thread has nothing to do in this text: it shows another moment, "
        "or another journal");
  }
  return unknown(
      "the journal's thread (jbd2/...), which would tell the commit's phase, is not in "
      "this text");
}

Explainer::End Explainer::commit_phase(size_t at) {
  switch (reading(at).wait_class) {
    case WaitClass::kCommitHandles:
      return open_handles(at);
    case WaitClass::kCommitData:
      return end_at(at, task(at).blocked_s > 0 ? "device.hung" : "device.write",
                    "the commit waits for files' data to reach the device", Sure::kInferred);
    case WaitClass::kCommitLog: {
      if (has_frame(reading(at), "blkdev_issue_flush")) {
        return end_at(at, task(at).blocked_s > 0 ? "device.hung" : "device.flush",
                      "the commit waits for a flush of the device", Sure::kInferred);
      }
      End end = end_at(at, task(at).blocked_s > 0 ? "device.hung" : "device.write",
                       "the commit waits for its journal blocks, or for its record with the flush "
                       "(both have this stack)",
                       Sure::kInferred);
      return end;
    }
    case WaitClass::kCommitRecord:
      return end_at(at, task(at).blocked_s > 0 ? "device.hung" : "device.flush",
                    "the commit writes its record, with a flush", Sure::kInferred);
    case WaitClass::kCommitCheckpoint:
      if (!checkpointers_.empty() && has_frame(reading(at), "mutex_lock_io")) {
        return through_any(at, checkpointers_, "is writing a checkpoint", Sure::kGuess);
      }
      return end_at(at, task(at).blocked_s > 0 ? "device.hung" : "device.write",
                    "the commit writes the journal's superblock, with a flush", Sure::kInferred);
    default:
      return end_at(at, "task.cpu", "the journal's thread was running", Sure::kInferred);
  }
}

std::vector<size_t> Explainer::handle_holders() const {
  // lockdep's word first, then those in functions that need a handle, then the others.
  std::vector<size_t> listed;
  std::vector<size_t> inside;
  for (size_t i : open_handles_) {
    (reading(i).handle_frame == "lockdep" ? listed : inside).push_back(i);
  }
  if (!listed.empty()) return listed;
  if (!inside.empty()) {
    // Who waits for a buffer of the commit before has a handle as well, but rarely stays.
    std::vector<size_t> others;
    std::copy_if(inside.begin(), inside.end(), std::back_inserter(others),
                 [this](size_t i) { return reading(i).wait_class != WaitClass::kJournalBuffer; });
    return others.empty() ? inside : others;
  }
  return perhaps_handles_;
}

Explainer::End Explainer::open_handles(size_t at) {
  std::vector<size_t> holders = handle_holders();
  std::erase(holders, at);
  if (holders.empty()) {
    End end = unknown("the task that keeps its handle open is not in this text");
    end.holder_missing = true;
    end.dev = device_of(task(at));
    return end;
  }
  size_t first = holders.front();
  const Reading& one = reading(first);
  std::string text;
  Sure sure = Sure::kInferred;
  if (one.handle_frame == "lockdep") {
    text = "has a handle open, by lockdep's list";
  } else if (one.handle == Handle::kOpen) {
    text = fmt::format("has a handle open: it is inside {}", one.handle_frame);
  } else {
    text = fmt::format("may have a handle open: it is inside {}", one.handle_frame);
    sure = Sure::kGuess;
  }
  // A handle may be another journal's.
  if (result_.committers.size() > 1) sure = Sure::kGuess;
  if (one.runnable) text += "; it is runnable, so no list of blocked tasks shows it";
  return through_any(at, holders, text, sure);
}

Explainer::End Explainer::log_space(size_t at) {
  const Reading& one = reading(at);
  bool queued = std::any_of(one.frames.begin(), one.frames.end(), [](std::string_view frame) {
    return frame.starts_with("mutex_lock") || frame.starts_with("__mutex_lock");
  });
  if (queued) {
    std::vector<size_t> others;
    std::copy_if(checkpointers_.begin(), checkpointers_.end(), std::back_inserter(others),
                 [at](size_t i) { return i != at; });
    if (!others.empty()) {
      return through_any(at, others, "is writing the checkpoint that frees the space",
                         Sure::kInferred);
    }
    return unknown("the task that writes the checkpoint is not in this text");
  }
  if (has_frame(one, "jbd2_log_wait_commit")) {
    return behind_commit(at, "must commit before the checkpoint can go on");
  }
  if (has_frame(one, "blkdev_issue_flush")) {
    return end_at(at, "device.flush", "the checkpoint waits for a flush of the device",
                  Sure::kInferred);
  }
  return end_at(at, task(at).blocked_s > 0 ? "device.hung" : "device.write",
                "the checkpoint waits for the device to write metadata to its place",
                Sure::kInferred);
}

Explainer::End Explainer::metadata_buffer(size_t at) {
  auto writing = committers_in([](WaitClass phase) {
    return phase == WaitClass::kCommitLog || phase == WaitClass::kCommitRecord ||
           phase == WaitClass::kCommitData || phase == WaitClass::kCommitCheckpoint;
  });
  if (reading(at).row != "10" && !writing.empty()) {
    return through_any(at, writing, "is writing the buffer to the journal",
                       writing.size() == 1 ? Sure::kInferred : Sure::kGuess);
  }
  auto held_up = committers_in([](WaitClass phase) {
    return phase == WaitClass::kBlockTag || phase == WaitClass::kBlockWbt ||
           phase == WaitClass::kBlockThrottle || phase == WaitClass::kBlockFrozen;
  });
  if (!held_up.empty()) {
    return through_any(at, held_up, "is writing the buffer to the journal", Sure::kGuess);
  }
  if (reading(at).row == "10") {
    return end_at(at, "device.write", "a metadata block is being written to its place",
                  Sure::kInferred);
  }
  End end = unknown(
      "a commit is writing this metadata block, but the journal's thread is not in "
      "this text");
  if (!result_.committers.empty()) {
    end.text =
        "a commit or a checkpoint is writing this metadata block, but the journal's thread "
        "does not wait for that here: the block's write is stuck below it";
    end.dev = result_.committers.size() == 1 ? result_.committers.front().dev : "";
  }
  return end;
}

Explainer::End Explainer::barred(size_t at) {
  if (has_frame(reading(at), "jbd2_journal_lock_updates") ||
      has_frame(reading(at), "jbd2_journal_wait_updates")) {
    return open_handles(at);
  }
  std::vector<size_t> barring;
  for (size_t i : lockers_) {
    if (i != at) barring.push_back(i);
  }
  if (!barring.empty())
    return through_any(at, barring, "bars updates of the journal", Sure::kInferred);
  for (size_t i : fs_freezers_) {
    if (i != at) barring.push_back(i);
  }
  if (!barring.empty()) return through_any(at, barring, "freezes the file system", Sure::kGuess);
  return unknown(
      "updates of the journal are barred: by a freeze, a fast commit, a resize or a remount; who "
      "does it is not in this text");
}

}  // namespace stalltrace::dump

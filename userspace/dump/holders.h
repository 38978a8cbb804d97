// What a task holds that others wait for, told from the functions it is inside of.
#pragma once

#include "userspace/dump/reading.h"

namespace stalltrace::dump {

// Fills `handle`, `inode` and the frames that show them; the class must be known already.
void find_holdings(const Task& task, Reading& reading);

// The task is freezing a file system, or keeps a block queue frozen. Gives the frame that shows it.
std::string_view freezes_fs(const Reading& reading);
std::string_view freezes_queue(const Reading& reading);

// The worker that writes dirty pages back.
bool is_flusher(const Reading& reading);
// Works on XFS's log, or commits a btrfs transaction, for others.
bool is_log_worker(const Reading& reading);
bool is_tree_committer(const Reading& reading);
// Holds an allocation group's lock of ext4, likely.
std::string_view holds_group(const Reading& reading);
// Writes out a checkpoint while others queue behind it.
bool is_checkpointer(const Reading& reading);

// Whose functions are on the stack: "ext4", "xfs", ...; "" if none of a known file system is.
std::string_view file_system_of(const Reading& reading);

}  // namespace stalltrace::dump

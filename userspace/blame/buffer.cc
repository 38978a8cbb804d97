// Metadata buffers that somebody else is busy with.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "userspace/blame/explainer.h"
#include "userspace/blame/text.h"
#include "userspace/kernel/frames.h"

namespace stalltrace::blame {
namespace {

using model::Commit;
using model::Phase;

// What ext4 wanted to change, by the function that asked for write access (fs/ext4: the caller of
// ext4_journal_get_write_access). The first that is on the stack, innermost first, decides.
struct BufferRow {
  std::string_view frame;
  std::string_view text;
  bool of_inode;  // the call's inode tells which
};
constexpr std::array kBuffers{
    BufferRow{"ext4_reserve_inode_write", "the inode table block", true},
    BufferRow{"ext4_mark_iloc_dirty", "the inode table block", true},
    BufferRow{"ext4_dirty_inode", "the inode table block", true},
    BufferRow{"ext4_mb_mark_diskspace_used", "a block bitmap or group descriptor", false},
    BufferRow{"ext4_mb_mark_context", "a block bitmap or group descriptor", false},
    BufferRow{"ext4_mb_clear_bb", "a block bitmap or group descriptor", false},
    BufferRow{"ext4_free_blocks", "a block bitmap or group descriptor", false},
    BufferRow{"__ext4_new_inode", "an inode bitmap or group descriptor", false},
    BufferRow{"ext4_free_inode", "an inode bitmap or group descriptor", false},
    BufferRow{"ext4_orphan_add", "the orphan list's superblock", false},
    BufferRow{"ext4_orphan_del", "the orphan list's superblock", false},
    BufferRow{"add_dirent_to_buf", "a directory block", false},
    BufferRow{"ext4_dx_add_entry", "a directory block", false},
    BufferRow{"ext4_add_entry", "a directory block", false},
    BufferRow{"ext4_delete_entry", "a directory block", false},
    BufferRow{"do_split", "a directory block", false},
    BufferRow{"ext4_ext_get_access", "an extent tree block", true},
    BufferRow{"ext4_ext_map_blocks", "an extent tree block", true},
    BufferRow{"ext4_ext_insert_extent", "an extent tree block", true},
    BufferRow{"ext4_xattr_set_handle", "an attribute block", true},
};

}  // namespace

std::string Explainer::buffer_text(const model::Wait& wait) const {
  for (std::string_view frame : trace_.frames(wait)) {
    const auto* row = std::find_if(kBuffers.begin(), kBuffers.end(),
                                   [&](const BufferRow& r) { return r.frame == frame; });
    if (row == kBuffers.end()) continue;
    if (!row->of_inode || wait.ino == 0) return std::string(row->text);
    return fmt::format("{} of inode {}", row->text, wait.ino);
  }
  return "a metadata buffer";
}

// A metadata buffer is busy: written to the log by a commit (then it is only waited for, not
// locked), or written to its home by a checkpoint.
Causes Explainer::explain_buffer(const model::Wait& wait, Span span, const Trail& trail) {
  std::span<const std::string_view> frames = trace_.frames(wait);
  bool locked = kernel::has_frame(frames, "out_of_line_wait_on_bit_lock") ||
                kernel::has_frame(frames, "__lock_buffer");
  const Commit* writer = nullptr;
  if (!locked) {
    for (const Commit* commit : trace_.commits(journal_dev(wait), span)) {
      Span writing = commit->phases(Phase::kData, Phase::kFinish);
      if (writing.overlaps(span)) writer = commit;
    }
  }
  if (writer == nullptr) return explain_io_or_waker(wait, span, trail);

  DeviceWait device = device_wait(wait, false, trail.dev);
  set_device(device, writer->event.journal_dev);
  Cause cause;
  cause.kind = CauseKind::kCommit;
  cause.id = std::to_string(writer->event.tid);
  cause.dev = trace_.disk_of(writer->event.dev);
  cause.task = task_name(writer->event.thread);
  cause.start_ns = span.start_ns;
  cause.ns = span.ns();
  cause.sure = device.request ? Sure::kMeasured : Sure::kInferred;
  Tiling tiling(span);
  put_device(tiling, device);
  tiling.put(writer->span(), [&](Span piece) { return timeline(cause.task, piece, trail); });
  tiling.fill([&](Span gap) {
    return unexplained(gap, "what the buffer was busy with was not seen", CauseKind::kCommit);
  });
  cause.causes = std::move(tiling).take();
  std::string where =
      device.request ? fmt::format("sector {}, ", device.request->sector) : std::string();
  cause.text =
      fmt::format("{}: {}being written by commit {}, which waited for {}", buffer_text(wait), where,
                  writer->event.tid, phrase_of(*longest_root(cause.causes), trace_));
  if (std::string woken = woken_by(wait); !woken.empty()) cause.evidence.push_back(woken);
  return one(std::move(cause));
}

}  // namespace stalltrace::blame

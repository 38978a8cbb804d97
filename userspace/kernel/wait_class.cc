#include "userspace/kernel/wait_class.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <unordered_map>
#include <utility>
#include <vector>

#include "userspace/kernel/frames.h"
#include "userspace/kernel/wait_class_table.h"

namespace stalltrace::kernel {
namespace {

constexpr std::array<std::string_view, kWaitClassCount> kNames{"cpu.run",
                                                               "cpu.wait",
                                                               "journal.locked",
                                                               "journal.credits",
                                                               "journal.space",
                                                               "journal.barrier",
                                                               "journal.buffer",
                                                               "journal.commit",
                                                               "journal.fastcommit",
                                                               "journal.batch",
                                                               "lock.inode",
                                                               "lock.extent",
                                                               "lock.mapping",
                                                               "lock.other",
                                                               "log.force",
                                                               "log.space",
                                                               "tree.log",
                                                               "tree.commit",
                                                               "block.flush",
                                                               "block.read",
                                                               "block.write",
                                                               "block.tag",
                                                               "block.drain",
                                                               "block.frozen",
                                                               "block.wbt",
                                                               "block.throttle",
                                                               "page.writeback",
                                                               "page.lock",
                                                               "page.dirty_throttle",
                                                               "memory.reclaim",
                                                               "fs.frozen",
                                                               "uring.wait",
                                                               "other",
                                                               "commit.handles",
                                                               "commit.data",
                                                               "commit.log",
                                                               "commit.record",
                                                               "commit.checkpoint",
                                                               "commit.run"};

// More than the tables have distinct patterns; std::bitset::set throws at the first one too many.
constexpr size_t kMaxPatterns = 1024;
using PatternSet = std::bitset<kMaxPatterns>;

// Functions that show which way the data of a call goes.
constexpr std::string_view kWritesData =
    "ext4_file_write_iter ext4_file_write xfs_file_write_iter xfs_file_aio_write "
    "btrfs_file_write_iter btrfs_do_write_iter btrfs_direct_write blkdev_write_iter "
    "blkdev_direct_write generic_file_direct_write aio_write io_write vfs_write vfs_writev "
    "do_sync_write ksys_write ksys_pwrite64 do_pwritev generic_file_aio_write submit_bh_wbc "
    "__block_write_full_folio do_writepages";
constexpr std::string_view kReadsData =
    "ext4_file_read_iter xfs_file_read_iter xfs_file_aio_read btrfs_file_read_iter "
    "blkdev_read_iter aio_read io_read vfs_read vfs_readv do_sync_read ksys_read ksys_pread64 "
    "do_preadv generic_file_read_iter generic_file_aio_read filemap_read";

// The tables with every pattern numbered, so that a frame costs one look-up and a row a few ands.
class Matcher {
 public:
  Matcher() {
    compile(journal_thread_table(), journal_rows_);
    compile(wait_table(), rows_);
    compile(proc_stack_table(), rows_);
    writes_ = pattern_set(kWritesData);
    reads_ = pattern_set(kReadsData);
  }

  struct Seen {
    PatternSet any;
    PatternSet leaf;
  };

  [[nodiscard]] Seen look(std::span<const std::string_view> frames) const {
    Seen seen;
    bool leaf_found = false;
    for (std::string_view frame : frames) {
      PatternSet hits;
      if (auto exact = exact_.find(frame); exact != exact_.end()) hits.set(exact->second);
      if (frame.size() >= 2) {
        auto bucket = prefixes_.find(bucket_key(frame));
        if (bucket != prefixes_.end()) {
          for (const auto& [prefix, id] : bucket->second) {
            if (frame.starts_with(prefix)) hits.set(id);
          }
        }
      }
      seen.any |= hits;
      if (!leaf_found && !frame.empty() && !is_generic(frame)) {
        leaf_found = true;
        seen.leaf = hits;
      }
    }
    return seen;
  }

  [[nodiscard]] const WaitRow* journal_row(const Seen& seen) const {
    return first_match(journal_rows_, seen);
  }
  [[nodiscard]] const WaitRow* row(const Seen& seen) const { return first_match(rows_, seen); }

  [[nodiscard]] bool writes(const Seen& seen, bool call_writes) const {
    if ((seen.any & writes_).any()) return true;
    if ((seen.any & reads_).any()) return false;
    return call_writes;
  }

 private:
  struct CompiledRow {
    const WaitRow* row;
    PatternSet leaf, any, with, none;
    bool has_leaf, has_any, has_with;
  };

  static uint16_t bucket_key(std::string_view name) {
    return static_cast<uint16_t>(static_cast<unsigned char>(name[0]) << 8 |
                                 static_cast<unsigned char>(name[1]));
  }

  PatternSet pattern_set(std::string_view list) {
    PatternSet set;
    while (!list.empty()) {
      size_t end = std::min(list.find(' '), list.size());
      std::string_view pattern = list.substr(0, end);
      list.remove_prefix(std::min(end + 1, list.size()));
      if (!pattern.empty()) set.set(pattern_id(pattern));
    }
    return set;
  }

  size_t pattern_id(std::string_view pattern) {
    if (!pattern.ends_with('*')) {
      auto [at, is_new] = exact_.try_emplace(pattern, next_id_);
      if (is_new) ++next_id_;
      return at->second;
    }
    pattern.remove_suffix(1);
    auto& bucket = prefixes_[bucket_key(pattern)];
    for (const auto& [prefix, id] : bucket) {
      if (prefix == pattern) return id;
    }
    bucket.emplace_back(pattern, next_id_);
    return next_id_++;
  }

  void compile(std::span<const WaitRow> table, std::vector<CompiledRow>& rows) {
    for (const WaitRow& row : table) {
      rows.push_back({&row, pattern_set(row.leaf), pattern_set(row.any), pattern_set(row.with),
                      pattern_set(row.none), !row.leaf.empty(), !row.any.empty(),
                      !row.with.empty()});
    }
  }

  static const WaitRow* first_match(const std::vector<CompiledRow>& rows, const Seen& seen) {
    for (const CompiledRow& row : rows) {
      if (row.has_leaf && (row.leaf & seen.leaf).none()) continue;
      if (row.has_any && (row.any & seen.any).none()) continue;
      if (row.has_with && (row.with & seen.any).none()) continue;
      if ((row.none & seen.any).any()) continue;
      return row.row;
    }
    return nullptr;
  }

  std::unordered_map<std::string_view, size_t> exact_;
  std::unordered_map<uint16_t, std::vector<std::pair<std::string_view, size_t>>> prefixes_;
  size_t next_id_ = 0;
  std::vector<CompiledRow> journal_rows_;
  std::vector<CompiledRow> rows_;
  PatternSet writes_;
  PatternSet reads_;
};

const Matcher& matcher() {
  static const Matcher instance;
  return instance;
}

}  // namespace

std::string_view name_of(WaitClass wait_class) {
  return kNames.at(static_cast<size_t>(wait_class));
}

std::optional<WaitClass> wait_class_named(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<WaitClass>(i);
  }
  return std::nullopt;
}

WaitMatch match_wait(std::span<const std::string_view> frames, const WaitContext& context) {
  if (context.preempted) {
    return {.wait_class = WaitClass::kCpuWait,
            .row = "preempted",
            .meaning = "was runnable and waited for a CPU"};
  }
  const Matcher& table = matcher();
  Matcher::Seen seen = table.look(frames);
  const WaitRow* row = context.journal_thread ? table.journal_row(seen) : nullptr;
  if (row == nullptr) row = table.row(seen);
  if (row == nullptr) return {};
  WaitMatch match{row->wait_class, row->number, row->meaning, row->guess};
  switch (row->depends) {
    case Depends::kNothing:
      break;
    case Depends::kDirection:
      if (table.writes(seen, context.is_write)) match.wait_class = WaitClass::kBlockWrite;
      break;
    case Depends::kTransaction:
      if (context.transaction_running) {
        match.wait_class = WaitClass::kJournalCredits;
        match.meaning = "waits for the next transaction because the running one is full";
      }
      break;
  }
  return match;
}

bool is_idle_journal_thread(std::span<const std::string_view> frames) {
  auto leaf = std::find_if(frames.begin(), frames.end(), [](std::string_view frame) {
    return !frame.empty() && !is_generic(frame);
  });
  return leaf != frames.end() && *leaf == "kjournald2";
}

WaitClass log_or_record(WaitClass by_stack, uint64_t wait_start_ns, uint64_t record_queued_ns) {
  bool record = by_stack == WaitClass::kCommitLog && record_queued_ns != 0 &&
                wait_start_ns >= record_queued_ns;
  return record ? WaitClass::kCommitRecord : by_stack;
}

}  // namespace stalltrace::kernel

// What happened, by object: the sleeps of a task, the commits of a journal, the flushes and slow
// requests of a disk. Fed with wire events in any order, sealed, then only read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "userspace/model/events.h"
#include "userspace/model/span.h"
#include "userspace/model/stacks.h"

namespace stalltrace::model {

// What a mapped device (dm, md) stands on. Its bios are requests of its own number.
struct Mapping {
  std::vector<uint32_t> maps;   // the mapped devices, lowest first, itself last
  std::vector<uint32_t> disks;  // below them all
};

// What the events themselves do not tell. Every function may be left empty.
struct Surroundings {
  StackResolver* stacks = nullptr;                       // must outlive the trace
  std::function<uint32_t(uint32_t dev)> disk_of;         // whole disk of a partition; itself else
  std::function<std::string(uint32_t dev)> device_name;  // "loop0"; "7:0" else
  std::function<std::string(uint32_t dev)> mount_point;  // put before paths; "" else
  // The block layer's hooks are there: without them no request has a beginning or an end, and the
  // device's time explains nothing.
  bool sees_devices = true;
  std::function<uint32_t(const std::string& path)> dev_of_path;  // 0: of no traced file system
  std::function<Mapping(uint32_t dev)> mapping;        // of a device that only maps; nothing else
  std::function<bool(uint32_t disk)> has_scheduler;    // an I/O scheduler orders its requests
  std::function<unsigned(uint32_t disk)> queue_depth;  // requests at once; 0 unknown
  std::function<std::string(uint32_t disk)> write_limit;  // of writeback throttling; "" unknown
};

class Trace {
 public:
  explicit Trace(Surroundings surroundings = {});

  // One wire event. Never throws for what is in it: what cannot be used is counted. Throws
  // std::logic_error after seal().
  void add(std::span<const std::byte> event);

  // Calls are clipped to the window; what has not ended ends with it. Without a window the trace
  // reaches from its first to its last event.
  void set_window(uint64_t start_ns, uint64_t end_ns) { window_ = {start_ns, end_ns}; }

  // Sorts and checks; the result does not depend on the order in which events came.
  void seal();

  [[nodiscard]] Span window() const { return window_; }
  [[nodiscard]] const Oddities& oddities() const { return oddities_; }

  // All sleeps, by task and time.
  [[nodiscard]] std::span<const Wait> waits() const { return waits_; }
  [[nodiscard]] std::span<const Wait> waits_of(uint32_t tid) const;
  // Those that overlap `span`; they may reach out of it.
  [[nodiscard]] std::span<const Wait> waits_of(uint32_t tid, Span span) const;
  // Sleeps for one lock, by waking time.
  [[nodiscard]] std::vector<const Wait*> lock_waits(uint64_t lock_addr, Span waking_in) const;
  // Those that overlap `span`, by waking time.
  [[nodiscard]] std::vector<const Wait*> lock_waits_during(uint64_t lock_addr, Span span) const;
  [[nodiscard]] std::span<const std::string_view> frames(const Wait& wait) const {
    return stacks_.frames(wait.stack);
  }

  // By start.
  [[nodiscard]] std::span<const Call> calls() const { return calls_; }
  // The innermost call of the task at that time, or null.
  [[nodiscard]] const Call* call_at(uint32_t tid, uint64_t ns) const;
  [[nodiscard]] const Call* call_of(const Wait& wait) const;
  [[nodiscard]] bool has_calls(uint32_t tid, Span span) const;
  // On one inode, by start. `dev`: the file system's device.
  [[nodiscard]] std::vector<const Call*> calls_on(uint32_t dev, uint64_t ino, Span span) const;

  // Writes to sysfs files that took long.
  [[nodiscard]] std::vector<const Call*> knobs(Span overlapping) const;

  // By start. `dev`: the file system's device.
  [[nodiscard]] std::span<const Commit> commits(uint32_t dev) const;
  [[nodiscard]] std::vector<const Commit*> commits(uint32_t dev, Span overlapping) const;
  [[nodiscard]] const Commit* commit(uint32_t dev, uint32_t tid) const;
  // File systems' devices that had a commit.
  [[nodiscard]] std::vector<uint32_t> journals() const;
  // The file system's device whose journal the thread serves; 0: it is not a journal thread.
  [[nodiscard]] uint32_t journal_of(uint32_t thread_tid) const;

  // Who put metadata into one transaction, the most first; an entry per task.
  [[nodiscard]] std::span<const Dirtied> dirtied(uint32_t dev, uint32_t tid) const;

  // Handles of one transaction, by stop time.
  [[nodiscard]] std::vector<const Handle*> handles(uint32_t dev, uint32_t tid) const;

  // By issue time.
  [[nodiscard]] std::span<const Flush> flushes(uint32_t disk) const;
  [[nodiscard]] std::vector<const Flush*> flushes(uint32_t disk, Span overlapping) const;
  [[nodiscard]] std::span<const Request> requests(uint32_t disk) const;
  [[nodiscard]] std::vector<const Request*> requests(uint32_t disk, Span overlapping) const;
  [[nodiscard]] std::vector<uint32_t> disks() const;

  // `dev`: the file system's device.
  [[nodiscard]] std::vector<const Freeze*> freezes(uint32_t dev, Span overlapping) const;

  // Bios that cgroup limits held back until a time in `released_in`, by that.
  [[nodiscard]] std::span<const Throttle> throttles(uint32_t disk, Span released_in) const;
  // By start.
  [[nodiscard]] std::vector<const Slice*> slices(uint32_t cpu, Span overlapping) const;

  [[nodiscard]] std::span<const Async> asyncs() const { return asyncs_; }

  // By end.
  [[nodiscard]] std::span<const Sync> syncs() const { return syncs_; }

  [[nodiscard]] uint32_t disk_of(uint32_t dev) const;
  [[nodiscard]] std::string device_name(uint32_t dev) const;
  [[nodiscard]] bool sees_devices() const { return surroundings_.sees_devices; }
  void set_sees_devices(bool sees) { surroundings_.sees_devices = sees; }
  [[nodiscard]] Mapping mapping(uint32_t dev) const {
    return surroundings_.mapping ? surroundings_.mapping(dev) : Mapping{};
  }
  [[nodiscard]] bool has_scheduler(uint32_t disk) const {
    return surroundings_.has_scheduler && surroundings_.has_scheduler(disk);
  }
  [[nodiscard]] unsigned queue_depth(uint32_t disk) const {
    return surroundings_.queue_depth ? surroundings_.queue_depth(disk) : 0;
  }
  [[nodiscard]] std::string write_limit(uint32_t disk) const {
    return surroundings_.write_limit ? surroundings_.write_limit(disk) : std::string();
  }
  // "/mnt/dir/file"; ".../dir/file" when it is too deep to have come whole; "" if unknown.
  [[nodiscard]] std::string path_of(const Call& call) const;
  // From the root of its file system; "" if not all of it is known.
  [[nodiscard]] static std::string path_in_fs(const wire::wire_call& call);
  // From names, innermost first, "/" being the file system's root.
  [[nodiscard]] std::string path_of(
      uint32_t dev, std::span<const char[wire::WIRE_PATH_PART]> innermost_first) const;
  // Of any call on the inode that brought its path.
  [[nodiscard]] std::string path_of(uint32_t dev, uint64_t ino) const;

 private:
  template <typename T>
  struct Line {
    std::vector<T> items;
    SpanIndex index;

    [[nodiscard]] std::vector<const T*> overlapping(Span span) const;
  };
  struct Range {
    size_t first = 0;
    size_t count = 0;
  };
  using Key = std::pair<uint32_t, uint64_t>;

  void add_wait(std::span<const std::byte> event);
  void add_call(const wire::wire_call& event);
  void add_commit(const wire::wire_commit& event);
  void add_handle(const wire::wire_handle& event);
  void add_flush(std::span<const std::byte> event);
  void add_request(const wire::wire_request& event);
  void add_async(const wire::wire_async& event);
  void add_sync(const wire::wire_sync& event);
  void add_dirtied(const wire::wire_dirtied& event);
  void add_freeze(const wire::wire_freeze& event);
  void add_throttle(const wire::wire_throttle& event);
  void add_slice(const wire::wire_slice& event);
  void saw(uint64_t ns);

  void seal_waits();
  void seal_calls();
  void seal_commits();
  void seal_handles();
  void seal_disks();
  void seal_freezes();
  void seal_slices();
  [[nodiscard]] uint64_t unseen_end_ns(const Flush& flush) const;
  // sleep_calls.cc
  void add_sleep_calls();
  // dirtied.cc
  void seal_dirtied();

  Surroundings surroundings_;
  Span window_;
  Span seen_;
  bool sealed_ = false;
  Oddities oddities_;
  StackTable stacks_;

  std::vector<Wait> waits_;
  std::unordered_map<uint32_t, Range> waits_of_;
  struct LockLine {
    std::vector<uint32_t> by_waking;
    uint64_t longest_ns = 0;
  };
  std::unordered_map<uint64_t, LockLine> lock_waits_;
  std::vector<Call> calls_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> calls_of_;
  std::map<Key, uint32_t> path_call_;  // (dev, ino) -> a call with its path
  std::map<Key, std::vector<uint32_t>> calls_on_;
  std::map<uint32_t, Line<Commit>> commits_;
  std::map<Key, uint32_t> commit_at_;  // (dev, tid) -> position in the line
  std::unordered_map<uint32_t, uint32_t> journal_threads_;
  std::vector<Handle> handles_;
  std::map<Key, Range> handles_of_;  // (dev, tid)
  std::vector<Dirtied> dirtied_;
  std::map<Key, Range> dirtied_of_;  // (dev, tid)
  std::map<uint32_t, Line<Flush>> flushes_;
  std::map<uint32_t, Line<Request>> requests_;
  std::map<uint32_t, Line<Freeze>> freezes_;
  std::map<uint32_t, std::vector<Throttle>> throttles_;
  std::map<uint32_t, Line<Slice>> slices_;
  std::vector<Async> asyncs_;
  std::vector<Sync> syncs_;
  std::vector<uint32_t> knobs_;  // calls
};

}  // namespace stalltrace::model

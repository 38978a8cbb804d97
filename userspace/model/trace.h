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

// What the events themselves do not tell. Every function may be left empty.
struct Surroundings {
  StackResolver* stacks = nullptr;                       // must outlive the trace
  std::function<uint32_t(uint32_t dev)> disk_of;         // whole disk of a partition; itself else
  std::function<std::string(uint32_t dev)> device_name;  // "loop0"; "7:0" else
  std::function<std::string(uint32_t dev)> mount_point;  // put before paths; "" else
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
  [[nodiscard]] std::span<const std::string_view> frames(const Wait& wait) const {
    return stacks_.frames(wait.stack);
  }

  // By start.
  [[nodiscard]] std::span<const Call> calls() const { return calls_; }
  // The innermost call of the task at that time, or null.
  [[nodiscard]] const Call* call_at(uint32_t tid, uint64_t ns) const;
  [[nodiscard]] const Call* call_of(const Wait& wait) const;
  [[nodiscard]] bool has_calls(uint32_t tid, Span span) const;

  // By start. `dev`: the file system's device.
  [[nodiscard]] std::span<const Commit> commits(uint32_t dev) const;
  [[nodiscard]] std::vector<const Commit*> commits(uint32_t dev, Span overlapping) const;
  [[nodiscard]] const Commit* commit(uint32_t dev, uint32_t tid) const;
  // File systems' devices that had a commit.
  [[nodiscard]] std::vector<uint32_t> journals() const;
  // The file system's device whose journal the thread serves; 0: it is not a journal thread.
  [[nodiscard]] uint32_t journal_of(uint32_t thread_tid) const;

  // Handles of one transaction, by stop time.
  [[nodiscard]] std::vector<const Handle*> handles(uint32_t dev, uint32_t tid) const;

  // By issue time.
  [[nodiscard]] std::span<const Flush> flushes(uint32_t disk) const;
  [[nodiscard]] std::vector<const Flush*> flushes(uint32_t disk, Span overlapping) const;
  [[nodiscard]] std::span<const Request> requests(uint32_t disk) const;
  [[nodiscard]] std::vector<const Request*> requests(uint32_t disk, Span overlapping) const;
  [[nodiscard]] std::vector<uint32_t> disks() const;

  [[nodiscard]] std::span<const Async> asyncs() const { return asyncs_; }

  [[nodiscard]] uint32_t disk_of(uint32_t dev) const;
  [[nodiscard]] std::string device_name(uint32_t dev) const;
  // "/mnt/dir/file"; ".../dir/file" when it is too deep to have come whole; "" if unknown.
  [[nodiscard]] std::string path_of(const Call& call) const;
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
  void saw(uint64_t ns);

  void seal_waits();
  void seal_calls();
  void seal_commits();
  void seal_handles();
  void seal_disks();

  Surroundings surroundings_;
  Span window_;
  Span seen_;
  bool sealed_ = false;
  Oddities oddities_;
  StackTable stacks_;

  std::vector<Wait> waits_;
  std::unordered_map<uint32_t, Range> waits_of_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> lock_waits_;
  std::vector<Call> calls_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> calls_of_;
  std::map<Key, uint32_t> path_call_;  // (dev, ino) -> a call with its path
  std::map<uint32_t, Line<Commit>> commits_;
  std::map<Key, uint32_t> commit_at_;  // (dev, tid) -> position in the line
  std::unordered_map<uint32_t, uint32_t> journal_threads_;
  std::vector<Handle> handles_;
  std::map<Key, Range> handles_of_;  // (dev, tid)
  std::map<uint32_t, Line<Flush>> flushes_;
  std::map<uint32_t, Line<Request>> requests_;
  std::vector<Async> asyncs_;
};

}  // namespace stalltrace::model

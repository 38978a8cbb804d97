// Hand-written event streams, for tests of what is built on them.
#pragma once

#include <cstring>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/trace.h"

namespace stalltrace::testing {

inline constexpr uint64_t kUs = 1'000;
inline constexpr uint64_t kMs = 1'000'000;
inline constexpr uint64_t kSecond = 1'000'000'000;
// Where the streams begin; far from 0, which means "not seen".
inline constexpr uint64_t kT0 = 5'000 * kSecond;
inline constexpr uint64_t ms(uint64_t t) {
  return kT0 + t * kMs;
}
inline constexpr uint64_t us(uint64_t t) {
  return kT0 + t * kUs;
}

inline constexpr uint32_t kDisk = 7 << 20;         // loop0
inline constexpr uint32_t kPart = 259 << 20;       // a partition of loop0, with the file system
inline constexpr uint32_t kDecoy = (7 << 20) + 1;  // loop1

struct TaskId {
  uint32_t tid;
  std::string_view comm;

  [[nodiscard]] wire::wire_task wire() const {
    wire::wire_task task{};
    task.tid = tid;
    task.pid = tid;
    std::memcpy(task.comm, comm.data(), std::min(comm.size(), sizeof(task.comm) - 1));
    return task;
  }
};

// Gives every function name an address, and back.
class FakeStacks : public model::StackResolver {
 public:
  uint64_t address(std::string_view name) {
    auto [at, is_new] = addresses_.try_emplace(std::string(name), kBase + addresses_.size() * 16);
    if (is_new) names_[at->second] = at->first;
    return at->second;
  }
  std::vector<std::string_view> frames(std::span<const uint64_t> addresses) override {
    ++asked;
    std::vector<std::string_view> frames;
    for (uint64_t address : addresses) {
      auto name = names_.find(address);
      frames.push_back(name == names_.end() ? std::string_view() : name->second);
    }
    return frames;
  }
  int asked = 0;

 private:
  static constexpr uint64_t kBase = 0xffffffff81000000;
  std::map<std::string, uint64_t> addresses_;
  std::map<uint64_t, std::string_view> names_;
};

template <typename T>
std::vector<std::byte> bytes_of(const T& event, size_t size = sizeof(T)) {
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), &event, size);
  return bytes;
}

template <typename T>
T event_of(wire::wire_kind kind) {
  T event{};
  event.header = {static_cast<uint32_t>(kind), sizeof(T)};
  return event;
}

class Events;

class WaitBuilder {
 public:
  WaitBuilder(wire::wire_wait& wait, FakeStacks& stacks) : wait_(wait), stacks_(stacks) {}
  WaitBuilder& stack(std::initializer_list<std::string_view> frames) {
    wait_.frames = 0;
    for (std::string_view frame : frames) wait_.stack[wait_.frames++] = stacks_.address(frame);
    return *this;
  }
  WaitBuilder& flags(uint32_t flags) {
    wait_.flags |= flags;
    return *this;
  }
  WaitBuilder& in_call(uint64_t start_ns) {
    wait_.call_start_ns = start_ns;
    return flags(wire::WAIT_IN_CALL);
  }
  WaitBuilder& dev(uint32_t dev) {
    wait_.dev = dev;
    return *this;
  }
  WaitBuilder& woken_by(const TaskId& task, uint32_t context = wire::WAKER_TASK) {
    wait_.waker = task.wire();
    wait_.waker_context = context;
    return *this;
  }
  // The request whose completion ended the wait.
  WaitBuilder& request(uint32_t op, uint64_t sector, uint64_t start_ns, uint64_t issue_ns,
                       uint64_t complete_ns, uint32_t disk = kDisk) {
    wait_.waker_context = wire::WAKER_HARDIRQ;
    wait_.waker_request.disk = disk;
    wait_.waker_request.op = op;
    wait_.waker_request.sector = sector;
    wait_.waker_request.bytes = op == 2 ? 0 : 4096;
    wait_.waker_request.start_ns = start_ns;
    wait_.waker_request.issue_ns = issue_ns;
    wait_.waker_request.complete_ns = complete_ns;
    return flags(wire::WAIT_WAKER_REQUEST);
  }
  WaitBuilder& starting_handle(uint32_t tid, uint32_t state) {
    wait_.journal_tid = tid;
    wait_.journal_state = state;
    return flags(wire::WAIT_STARTING_HANDLE);
  }
  WaitBuilder& target(uint32_t tid) {
    wait_.target_tid = tid;
    return *this;
  }
  WaitBuilder& ran_before(const TaskId& task) {
    wait_.ran_before = task.wire();
    return *this;
  }
  WaitBuilder& lock(uint64_t addr, uint32_t lock_flags, uint64_t ino = 0) {
    wait_.lock_addr = addr;
    wait_.lock_flags = lock_flags;
    wait_.lock_ino = ino;
    wait_.lock_dev = ino != 0 ? kPart : 0;
    return flags(wire::WAIT_LOCK);
  }
  WaitBuilder& owner(const TaskId& task) {
    wait_.lock_owner = task.wire();
    return *this;
  }
  WaitBuilder& readers() {
    wait_.lock_owner_is_reader = 1;
    return *this;
  }

 private:
  wire::wire_wait& wait_;
  FakeStacks& stacks_;
};

class Events {
 public:
  WaitBuilder wait(const TaskId& task, uint64_t out_ns, uint64_t waking_ns, uint64_t in_ns) {
    auto& wait = waits.emplace_back(event_of<wire::wire_wait>(wire::WIRE_WAIT));
    wait.task = task.wire();
    wait.out_ns = out_ns;
    wait.waking_ns = waking_ns;
    wait.in_ns = in_ns;
    wait.dev = kPart;
    return {wait, *stacks};
  }
  wire::wire_call& call(const TaskId& task, uint32_t kind, uint64_t start_ns, uint64_t end_ns,
                        uint32_t flags = 0) {
    auto& call = calls.emplace_back(event_of<wire::wire_call>(wire::WIRE_CALL));
    call.task = task.wire();
    call.call = kind;
    call.start_ns = start_ns;
    call.end_ns = end_ns;
    call.flags = flags;
    call.dev = kPart;
    return call;
  }
  // Phases by their beginnings: {requested, start, locking, flushing, logging, record,
  // stats, end}; 0: not seen.
  wire::wire_commit& commit(uint32_t tid, const TaskId& thread,
                            std::initializer_list<uint64_t> times) {
    auto& commit = commits.emplace_back(event_of<wire::wire_commit>(wire::WIRE_COMMIT));
    commit.thread = thread.wire();
    commit.dev = kPart;
    commit.journal_dev = kPart;
    commit.tid = tid;
    uint64_t* const fields[] = {&commit.requested_ns, &commit.start_ns,   &commit.locking_ns,
                                &commit.flushing_ns,  &commit.logging_ns, &commit.record_ns,
                                &commit.stats_ns,     &commit.end_ns};
    size_t i = 0;
    for (uint64_t ns : times) *fields[i++] = ns;
    return commit;
  }
  wire::wire_handle& handle(const TaskId& task, uint32_t tid, uint32_t type, uint64_t start_ns,
                            uint64_t stop_ns, uint32_t flags = wire::HANDLE_LATE) {
    auto& handle = handles.emplace_back(event_of<wire::wire_handle>(wire::WIRE_HANDLE));
    handle.task = task.wire();
    handle.dev = kPart;
    handle.tid = tid;
    handle.type = type;
    handle.start_ns = start_ns;
    handle.stop_ns = stop_ns;
    handle.flags = flags;
    return handle;
  }
  wire::wire_flush& flush(uint64_t queued_ns, uint64_t issue_ns, uint64_t complete_ns,
                          uint32_t disk = kDisk) {
    auto& flush = flushes.emplace_back(event_of<wire::wire_flush>(wire::WIRE_FLUSH));
    flush.disk = disk;
    flush.first_queued_ns = queued_ns;
    flush.issue_ns = issue_ns;
    flush.complete_ns = complete_ns;
    return flush;
  }
  static void member(wire::wire_flush& flush, const TaskId& task, uint64_t queued_ns,
                     uint32_t journal_tid = 0, bool has_data = false) {
    wire::wire_flush_member& member = flush.member[flush.known_members++];
    ++flush.members;
    member.task = task.wire();
    member.queued_ns = queued_ns;
    member.journal_tid = journal_tid;
    member.has_data = has_data ? 1 : 0;
  }
  wire::wire_request& request(uint32_t op, uint64_t sector, uint64_t start_ns, uint64_t issue_ns,
                              uint64_t complete_ns, uint32_t disk = kDisk) {
    auto& request = requests.emplace_back(event_of<wire::wire_request>(wire::WIRE_REQUEST));
    request.times = {disk, op, sector, 4096, 0, start_ns, issue_ns, complete_ns};
    return request;
  }
  wire::wire_async& async(const TaskId& task, uint64_t call_ns, uint64_t queued_ns,
                          uint64_t issue_ns, uint64_t complete_ns, uint64_t done_ns) {
    auto& async = asyncs.emplace_back(event_of<wire::wire_async>(wire::WIRE_ASYNC));
    async.task = task.wire();
    async.dev = kPart;
    async.flags = wire::ASYNC_WRITE;
    async.call_ns = call_ns;
    async.begin_ns = call_ns;
    async.queued_ns = queued_ns;
    async.issue_ns = issue_ns;
    async.complete_ns = complete_ns;
    async.done_ns = done_ns;
    return async;
  }

  wire::wire_freeze& freeze(const TaskId& task, uint64_t start_ns, uint64_t end_ns) {
    auto& freeze = freezes.emplace_back(event_of<wire::wire_freeze>(wire::WIRE_FREEZE));
    freeze.task = task.wire();
    freeze.dev = kPart;
    freeze.start_ns = start_ns;
    freeze.end_ns = end_ns;
    return freeze;
  }
  wire::wire_throttle& throttle(uint64_t sector, uint64_t released_ns, std::string_view cgroup) {
    auto& throttle = throttles.emplace_back(event_of<wire::wire_throttle>(wire::WIRE_THROTTLE));
    throttle.disk = kDisk;
    throttle.op = 1;
    throttle.sector = sector;
    throttle.bytes = 4096;
    throttle.released_ns = released_ns;
    std::memcpy(throttle.cgroup[0], cgroup.data(), cgroup.size());
    return throttle;
  }
  // A sync call that needed transaction `wanted_tid`.
  wire::wire_sync& sync(const TaskId& task, uint64_t start_ns, uint64_t end_ns,
                        uint32_t wanted_tid = 0, uint32_t flags = 0) {
    auto& sync = syncs.emplace_back(event_of<wire::wire_sync>(wire::WIRE_SYNC));
    sync.task = task.wire();
    sync.start_ns = start_ns;
    sync.end_ns = end_ns;
    sync.dev = kPart;
    sync.call = wire::CALL_FSYNC;
    sync.wanted_tid = wanted_tid;
    sync.flags = flags;
    return sync;
  }
  // What `task` put into transaction `tid`.
  wire::wire_dirtied& dirtied(const TaskId& task, uint32_t tid, uint32_t blocks, uint64_t ino = 0,
                              std::string_view name = {}) {
    auto& dirtied = dirtieds.emplace_back(event_of<wire::wire_dirtied>(wire::WIRE_DIRTIED));
    dirtied.task = task.wire();
    dirtied.dev = kPart;
    dirtied.tid = tid;
    dirtied.blocks = blocks;
    dirtied.handles = 1;
    dirtied.ino = ino;
    dirtied.most_blocks = blocks;
    std::memcpy(dirtied.name[0], name.data(), name.size());
    if (!name.empty()) dirtied.name[1][0] = '/';
    return dirtied;
  }
  void slice(uint32_t cpu, const TaskId& task, uint64_t start_ns, uint64_t end_ns) {
    auto& slice = slices.emplace_back(event_of<wire::wire_slice>(wire::WIRE_SLICE));
    slice.cpu = cpu;
    slice.task = task.wire();
    slice.start_ns = start_ns;
    slice.end_ns = end_ns;
  }

  // As they would come out of the ring: waits are cut after their last frame.
  [[nodiscard]] std::vector<std::vector<std::byte>> stream() const {
    std::vector<std::vector<std::byte>> all;
    for (wire::wire_wait wait : waits) {
      wait.header.size =
          static_cast<uint32_t>(offsetof(wire::wire_wait, stack) + wait.frames * sizeof(uint64_t));
      all.push_back(bytes_of(wait, wait.header.size));
    }
    for (const auto& event : calls) all.push_back(bytes_of(event));
    for (const auto& event : commits) all.push_back(bytes_of(event));
    for (const auto& event : handles) all.push_back(bytes_of(event));
    for (const auto& event : flushes) all.push_back(bytes_of(event));
    for (const auto& event : requests) all.push_back(bytes_of(event));
    for (const auto& event : asyncs) all.push_back(bytes_of(event));
    for (const auto& event : freezes) all.push_back(bytes_of(event));
    for (const auto& event : throttles) all.push_back(bytes_of(event));
    for (const auto& event : syncs) all.push_back(bytes_of(event));
    for (const auto& event : dirtieds) all.push_back(bytes_of(event));
    for (const auto& event : slices) all.push_back(bytes_of(event));
    return all;
  }

  [[nodiscard]] model::Surroundings surroundings() const {
    model::Surroundings around;
    around.stacks = stacks.get();
    // Of a device mapped onto several the whole disk is itself.
    uint32_t disk = mapping.disks.size() > 1 ? kPart : kDisk;
    around.disk_of = [disk](uint32_t dev) { return dev == kPart ? disk : dev; };
    around.mapping = [on = mapping](uint32_t dev) { return dev == kPart ? on : model::Mapping{}; };
    around.device_name = [](uint32_t dev) {
      return dev == kDisk ? "loop0" : dev == kDecoy ? "loop1" : "other";
    };
    around.mount_point = [](uint32_t) { return "/mnt"; };
    return around;
  }

  // The builder must outlive the trace: it has the names of the stacks.
  [[nodiscard]] model::Trace trace(uint64_t window_start_ns = 0, uint64_t window_end_ns = 0) const {
    return trace_of(stream(), window_start_ns, window_end_ns);
  }
  [[nodiscard]] model::Trace trace_of(const std::vector<std::vector<std::byte>>& events,
                                      uint64_t window_start_ns = 0,
                                      uint64_t window_end_ns = 0) const {
    model::Trace trace(surroundings());
    if (window_end_ns != 0) trace.set_window(window_start_ns, window_end_ns);
    for (const auto& event : events) trace.add(event);
    trace.seal();
    return trace;
  }

  model::Mapping mapping;  // what kPart stands on, where it is not a partition
  std::unique_ptr<FakeStacks> stacks = std::make_unique<FakeStacks>();
  std::deque<wire::wire_wait> waits;
  std::deque<wire::wire_call> calls;
  std::deque<wire::wire_commit> commits;
  std::deque<wire::wire_handle> handles;
  std::deque<wire::wire_flush> flushes;
  std::deque<wire::wire_request> requests;
  std::deque<wire::wire_async> asyncs;
  std::deque<wire::wire_freeze> freezes;
  std::deque<wire::wire_throttle> throttles;
  std::deque<wire::wire_sync> syncs;
  std::deque<wire::wire_dirtied> dirtieds;
  std::deque<wire::wire_slice> slices;
};

inline void set_path(wire::wire_call& call, std::initializer_list<std::string_view> parts) {
  call.flags |= wire::CALL_HAS_PATH;
  size_t i = 0;
  for (std::string_view part : parts) {
    std::memcpy(call.path[i++], part.data(), part.size());
  }
}

}  // namespace stalltrace::testing

// The walk from a wait to its roots. Every function here returns causes that tile exactly the
// interval it was given. One file per family: actors.cc (what a task did), journal.cc, device.cc,
// locks.cc; classes.cc has the table from wait class to function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "userspace/blame/explain.h"
#include "userspace/blame/tiling.h"
#include "userspace/kernel/wait_class.h"
#include "userspace/model/trace.h"

namespace stalltrace::blame {

// A gap this short between two things seen of an actor (a task, the commits of a journal) is left
// to it: what else it may have done in it was too short to be recorded.
constexpr uint64_t kSmallGapNs = 1'000'000;

// include/linux/blk_types.h, REQ_OP_*
constexpr uint32_t kOpMask = 0xff;
constexpr uint32_t kOpRead = 0;
constexpr uint32_t kOpWrite = 1;
constexpr uint32_t kOpFlush = 2;

constexpr int kMaxDepth = 16;  // of a chain

constexpr uint64_t kSectorBytes = 512;  // the block layer's, whatever the device's own

// The tasks between the stalled call and here: who meets itself again is in a cycle.
struct Trail {
  const Trail* above = nullptr;
  TaskName task;
  int depth = 0;
  uint32_t dev = 0;  // of the stalled call: for actors that serve whichever there is

  [[nodiscard]] const Trail* find(uint32_t tid) const {
    for (const Trail* at = this; at != nullptr; at = at->above) {
      if (at->task.tid == tid) return at;
    }
    return nullptr;
  }
};

// A wait for a device.
struct DeviceWait {
  const model::Wait* wait = nullptr;  // null: asynchronous, nobody waits
  uint32_t dev = 0;                   // whose blocks; may be a mapped device
  uint32_t disk = 0;                  // executes it, as far as known: else the mapped device
  uint32_t tid = 0;                   // whose flush would be "its own"; 0: none
  uint32_t commit_tid = 0;            // the same for a journal thread
  bool for_flush = false;             // it waits for a flush, not for data
  std::optional<wire::wire_request_times> request;  // that ended it
};

class Explainer {
 public:
  explicit Explainer(const model::Trace& trace);

  Stall explain(const model::Call& call);
  // `start_ns`..: of a request from its submission to its completion; the submitter's own running
  // is `self`.
  std::vector<Root> explain_async(const model::Async& async, Span span);

  kernel::WaitClass class_of(const model::Wait& wait);
  // Who held the lock that the wait was for, one after another; the spans tile its blocked time.
  struct Holding {
    TaskName task;  // tid 0: not seen
    Span span;
    Sure sure = Sure::kInferred;
    bool reader = false;
    std::string evidence;
    TaskName perhaps{};  // if nobody else is known to have had it then
  };
  [[nodiscard]] std::vector<Holding> holdings(const model::Wait& wait, Span span) const;
  // Until when the locked commit waited for handles, and the journal thread's last sleep for them
  // (null if it was not seen).
  uint64_t handles_end_ns(const model::Commit& commit, const model::Wait** last_wait = nullptr);
  // What a task mostly did, for people: "itself waiting 1.86 s in journal.buffer"; "" if unknown.
  std::string doing(const TaskName& task, Span span);
  // Until when the commit's thread waited for ordered data: it goes on doing so after it has sent
  // the first journal blocks (fs/jbd2/commit.c, jbd2_journal_finish_inode_data_buffers).
  uint64_t data_end_ns(const model::Commit& commit);

 private:
  static constexpr uint8_t kUnknownClass = 0xff;
  using Handler = Causes (Explainer::*)(const model::Wait&, Span, const Trail&);
  struct ClassRow {
    kernel::WaitClass wait_class;
    Handler explain;
  };
  static const ClassRow kClasses[];

  // parts.cc
  std::vector<Part> parts_of(const model::Call& call, uint64_t& folded_ns);
  Part waiting_part(const model::Wait& wait, Span span, const Trail& trail);

  // classes.cc
  kernel::WaitClass classify(const model::Wait& wait);
  Causes explain_wait(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_other(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_knob(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_memory(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_on_purpose(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_cpu_wait(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_io_or_waker(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_waker(const model::Wait& wait, Span span, const Trail& trail);
  Cause fixed_root(const model::Wait& wait, Span span, RootKind root, std::string text) const;

  // actors.cc
  // What a task did: its waits explained, running in between.
  Causes timeline(const TaskName& task, Span span, const Trail& trail);
  Causes fold_short(const TaskName& task, Span span, Causes causes) const;
  // A piece of a wait for a CPU.
  Cause runnable(const model::Wait& wait, Span span) const;
  // What ran while `task` waited for a CPU; no task if that was not seen.
  [[nodiscard]] TaskName ran_instead_of(const TaskName& task, Span span) const;
  // Of a wait for a CPU: who had that CPU for most of `span`.
  [[nodiscard]] TaskName ran_meanwhile(const model::Wait& wait, Span span) const;
  Cause running(const TaskName& task, Span span, Sure sure) const;
  Cause unexplained(Span span, std::string text, CauseKind kind = CauseKind::kTask) const;
  Cause cycle(const TaskName& task, Span span, const Trail& trail) const;
  const std::string& where(const model::Wait& wait);
  bool is_watched(const TaskName& task, Span span) const;

  // workers.cc
  // What a task did for others until `at_ns`: of a workqueue's worker only what it did since it was
  // given the work, and before that who gave it.
  Causes work_of(const TaskName& task, Span span, uint64_t at_ns, const Trail& trail);
  [[nodiscard]] const model::Wait* last_idle(uint32_t tid, uint64_t before_ns) const;
  Causes explain_idle(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_pause(const model::Wait& wait, Span span, const Trail& trail);
  struct Sender {
    TaskName task;  // tid 0: not seen
    uint64_t sent_ns = 0;
  };
  [[nodiscard]] Sender sender_of(const wire::wire_request_times& request) const;
  // Before the request that ended the wait was sent.
  [[nodiscard]] Cause ending_request(const model::Wait& wait, Span span) const;
  Causes before_request(const model::Wait& wait, Span span, const Trail& trail);
  // "" where the task did not pause on purpose.
  [[nodiscard]] std::string_view pause_of(const model::Wait& wait) const;

  // journal.cc
  uint32_t journal_dev(const model::Wait& wait) const;
  TaskName journal_thread(uint32_t dev, Span near) const;
  Causes explain_locked(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_credits(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_commit(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_buffer(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_space(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_handles_wait(const model::Wait& wait, Span span, const Trail& trail);
  Causes commit_phases(const model::Commit& commit, Span span, const Trail& trail, Sure sure,
                       const std::vector<std::string>& evidence);
  Cause locked_commit(const model::Commit& commit, Span span, const Trail& trail, Sure sure);
  Cause handles(const model::Commit& commit, Span span, const Trail& trail);
  const model::Commit* commit_during(const model::Wait& wait) const;
  [[nodiscard]] std::string buffer_text(const model::Wait& wait) const;
  std::vector<std::string> end_of_commit(const model::Wait& wait, const model::Commit& commit,
                                         Sure& sure) const;

  // transaction.cc
  void add_ordered_data(const model::Commit& commit, Cause& cause) const;
  [[nodiscard]] std::string add_metadata(const model::Commit& commit, Cause& cause) const;

  // async.cc
  [[nodiscard]] const wire::wire_flush_member* flush_behind(const model::Async& async,
                                                            uint32_t disk) const;

  // device.cc
  uint32_t disk_of(const model::Wait& wait) const;
  uint32_t dev_of(const model::Wait& wait) const;
  void set_device(DeviceWait& device, uint32_t dev) const;
  DeviceWait device_wait(const model::Wait& wait, bool for_flush, uint32_t else_dev) const;
  void put_device(Tiling& tiling, const DeviceWait& wait);
  void put_disk(Tiling& tiling, const DeviceWait& wait);
  // mapped.cc
  void put_mapped(Tiling& tiling, const DeviceWait& wait, const model::Mapping& mapping);
  // Is it the disk of `dev`, or one of those that a mapped device stands on?
  [[nodiscard]] bool is_on(uint32_t dev, uint32_t disk) const;
  [[nodiscard]] bool is_mapped(uint32_t disk) const;
  [[nodiscard]] uint64_t longest_on(uint32_t disk, Span span) const;
  // throttle.cc
  void put_throttled(Tiling& tiling, const DeviceWait& wait) const;
  void put_other_throttled(Tiling& tiling, const DeviceWait& wait) const;
  [[nodiscard]] const model::Throttle* throttle_of(const DeviceWait& wait) const;
  Cause throttled(const model::Throttle& throttle, Span span, Sure sure) const;
  Causes explain_throttle(const model::Wait& wait, Span span, const Trail& trail);

  void put_flushes(Tiling& tiling, const DeviceWait& wait);
  void put_sequence_data(Tiling& tiling, const model::Flush& flush, Span queued) const;
  void put_request(Tiling& tiling, const DeviceWait& wait);
  void put_slow_requests(Tiling& tiling, const DeviceWait& wait);
  void put_submitter(Tiling& tiling, const wire::wire_request_times& request, Span queued,
                     uint32_t wait_tid) const;
  Cause record_cause(const DeviceWait& wait, Span span, bool certain) const;
  // Where a flush was: in the device, behind others, or with the worker that hands it to the
  // driver.
  enum class FlushStep { kDevice, kQueue, kWorker };
  Cause flush_cause(const model::Flush& flush, Span span, const DeviceWait& wait, bool own,
                    FlushStep step) const;
  // Does a request of the disk have to wait for its turn then? With a free request and no scheduler
  // it is sent at once (block/blk-mq.c, blk_mq_submit_bio).
  [[nodiscard]] bool is_queue_full(uint32_t disk, Span span) const;
  Cause request_cause(const wire::wire_request_times& request, Span span, bool queued, bool open,
                      Sure sure) const;
  Causes explain_tag(const model::Wait& wait, Span span, const Trail& trail);
  // "12 requests in flight, the oldest 1.2 s old"; of those that took long, others were not sent.
  [[nodiscard]] std::string in_flight(uint32_t disk, uint64_t at_ns, bool writes_only) const;
  Causes explain_flush(const model::Wait& wait, Span span, const Trail& trail);

  // frozen.cc
  Causes explain_frozen(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_frozen_fs(const model::Wait& wait, Span span, const Trail& trail);
  Causes explain_frozen_queue(const model::Wait& wait, Span span, const Trail& trail);

  // locks.cc
  [[nodiscard]] std::vector<Holding> turns(const model::Wait& wait, Span span) const;
  [[nodiscard]] std::vector<Holding> without_waits(std::vector<Holding> turns,
                                                   uint64_t lock_addr) const;
  void name_turns(const model::Wait& wait, std::vector<Holding>& turns) const;
  Causes explain_lock(const model::Wait& wait, Span span, const Trail& trail);
  Cause held(const model::Wait& wait, const Holding& holding, const Trail& trail);
  uint64_t put_buffer_io(Tiling& tiling, const model::Wait& wait);

  // text about a wait
  std::string woken_by(const model::Wait& wait) const;
  std::string request_text(const wire::wire_request_times& request) const;

  const model::Trace& trace_;
  std::unordered_set<uint32_t> workers_;  // of workqueues, whose idle times are known
  std::vector<uint8_t> classes_;          // by wait, as far as they were asked for
  std::unordered_map<uint64_t, kernel::WaitClass> by_stack_;
  std::unordered_map<uint32_t, std::string> wheres_;  // by stack
};

// The leaves under `causes`, each as sure as the weakest link above it.
void collect_roots(const Causes& causes, Sure above, std::vector<Root>& roots);
// Merged by kind, device and task, longest first.
std::vector<Root> merge_roots(std::vector<Root> roots);

}  // namespace stalltrace::blame

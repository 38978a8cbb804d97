#include "userspace/capture/hooks.h"

#include <bpf/btf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "userspace/base/error.h"

namespace stalltrace::capture {
namespace {

constexpr HookKind kTp = HookKind::kTracepoint;
constexpr HookKind kIter = HookKind::kTaskIterator;
constexpr HookKind kFunction = HookKind::kFunction;

constexpr std::array kHooks{
    HookSpec{"sys_enter", "sys_enter", kTp, true, "", "calls: no stall is seen"},
    HookSpec{"sys_exit", "sys_exit", kTp, true, "", "calls: no stall is seen"},
    HookSpec{"sched_switch", "sched_switch", kTp, true, "", "waits: no stall can be explained"},
    HookSpec{"sched_waking", "sched_waking", kTp, true, "",
             "who ended each wait; waiting for a CPU apart from being blocked"},
    HookSpec{"softirq_entry", "softirq_entry", kTp, false, "",
             "wake-ups from interrupts: they are blamed on the interrupted task"},
    HookSpec{"softirq_exit", "softirq_exit", kTp, false, "",
             "wake-ups from interrupts: they are blamed on the interrupted task"},
    HookSpec{"irq_handler_entry", "irq_handler_entry", kTp, false, "",
             "wake-ups from interrupts: they are blamed on the interrupted task"},
    HookSpec{"irq_handler_exit", "irq_handler_exit", kTp, false, "",
             "wake-ups from interrupts: they are blamed on the interrupted task"},
    HookSpec{"hrtimer_expire_entry", "hrtimer_expire_entry", kTp, false, "",
             "wake-ups from interrupts: they are blamed on the interrupted task"},
    HookSpec{"hrtimer_expire_exit", "hrtimer_expire_exit", kTp, false, "",
             "wake-ups from interrupts: they are blamed on the interrupted task"},
    HookSpec{"sched_process_exit", "sched_process_exit", kTp, false, "",
             "stalls of tasks killed in a call"},
    HookSpec{"survey", "", kIter, false, "",
             "what devices and journals had in hand when tracing began"},
    HookSpec{"adopt", "", kIter, false, "", "stalls under way when tracing begins"},
    HookSpec{"peek", "", kIter, false, "", "stalls while they last, and as they happen"},
    HookSpec{"recheck", "", kIter, false, "", "which requests really were in flight at the end"},
    HookSpec{"drain", "", kIter, false, "", "stalls still under way when tracing ends"},
    HookSpec{"contention_begin", "contention_begin", kTp, false, "",
             "which lock and inode a lock wait was for, and its holder"},
    HookSpec{"contention_end", "contention_end", kTp, false, "",
             "which lock and inode a lock wait was for, and its holder"},
    HookSpec{"jbd2_start_commit", "jbd2_start_commit", kTp, false, "",
             "commits: what a journal wait was for"},
    HookSpec{"jbd2_commit_locking", "jbd2_commit_locking", kTp, false, "",
             "commit phases: open handles apart from the rest"},
    HookSpec{"jbd2_commit_flushing", "jbd2_commit_flushing", kTp, false, "",
             "commit phases: open handles apart from the rest"},
    HookSpec{"jbd2_commit_logging", "jbd2_commit_logging", kTp, false, "",
             "commit phases: data apart from the log"},
    HookSpec{"jbd2_submit_inode_data", "jbd2_submit_inode_data", kTp, false, "",
             "whose data a commit wrote first"},
    HookSpec{"jbd2_run_stats", "jbd2_run_stats", kTp, false, "", "handles and blocks per commit"},
    HookSpec{"jbd2_end_commit", "jbd2_end_commit", kTp, false, "",
             "commits: what a journal wait was for"},
    HookSpec{"ext4_journal_start_inode", "ext4_journal_start_inode", kTp, false,
             "ext4_journal_start", "which transaction a new handle waited for"},
    HookSpec{"ext4_journal_start_sb", "ext4_journal_start_sb", kTp, false, "ext4_journal_start",
             "which transaction a new handle waited for"},
    HookSpec{"ext4_journal_start", "ext4_journal_start", kTp, false, "ext4_journal_start_inode",
             "which transaction a new handle waited for"},
    HookSpec{"jbd2_handle_start", "jbd2_handle_start", kTp, false, "",
             "which handle held a commit back"},
    HookSpec{"jbd2_handle_restart", "jbd2_handle_restart", kTp, false, "",
             "which handle held a commit back, for long operations"},
    HookSpec{"jbd2_handle_stats", "jbd2_handle_stats", kTp, false, "",
             "which handle held a commit back; whose metadata a commit wrote"},
    HookSpec{"ext4_allocate_inode", "ext4_allocate_inode", kTp, false, "",
             "which file a handle made"},
    HookSpec{"ext4_sync_file_enter", "ext4_sync_file_enter", kTp, false, "",
             "which transaction an fsync needed; AIO fsync in kernel workers"},
    HookSpec{"ext4_sync_file_exit", "ext4_sync_file_exit", kTp, false, "",
             "AIO fsync in kernel workers; how many syncs share a commit"},
    HookSpec{"ext4_sync_fs", "ext4_sync_fs", kTp, false, "", "sync and syncfs among the syncs"},
    HookSpec{"ext4_fc_commit_stop", "ext4_fc_commit_stop", kTp, false, "",
             "which syncs a fast commit served"},
    HookSpec{"mm_filemap_fault", "mm_filemap_fault", kTp, false, "mm_filemap_add_to_page_cache",
             "stalls in page faults on mapped files"},
    HookSpec{"mm_filemap_add_to_page_cache", "mm_filemap_add_to_page_cache", kTp, false,
             "mm_filemap_fault", "stalls in page faults on mapped files", true},
    HookSpec{"task_newtask", "task_newtask", kTp, false, "",
             "what io_uring's workers and new kernel workers wait for before they send I/O"},
    HookSpec{"block_bio_queue", "block_bio_queue", kTp, false, "",
             "who asked for a flush and how long it waited for the one before"},
    HookSpec{"block_bio_complete", "block_bio_complete", kTp, false, "",
             "the time that a mapped device (dm, md) takes itself"},
    HookSpec{"block_rq_issue", "block_rq_issue", kTp, false, "",
             "the device's time: waits for it end unexplained"},
    HookSpec{"block_rq_complete", "block_rq_complete", kTp, false, "",
             "the device's time: waits for it end unexplained"},
    HookSpec{"iomap_dio_rw_begin", "iomap_dio_rw_begin", kTp, false, "aio_complete_rw",
             "asynchronous requests from submission to completion"},
    HookSpec{"iomap_dio_complete", "iomap_dio_complete", kTp, false, "aio_complete_rw",
             "asynchronous requests from submission to completion"},
    HookSpec{"aio_complete_rw", "aio_complete_rw", kFunction, false, "iomap_dio_complete",
             "asynchronous requests from submission to completion", true},
    HookSpec{"io_uring_submit_req", "io_uring_submit_req", kTp, false, "io_uring_submit_sqe",
             "the file and device of io_uring submissions"},
    HookSpec{"io_uring_submit_sqe", "io_uring_submit_sqe", kTp, false, "io_uring_submit_req",
             "the file and device of io_uring submissions"},
    HookSpec{"io_uring_complete", "io_uring_complete", kTp, false, "",
             "io_uring requests from submission to completion"},
    HookSpec{"io_uring_cqring_wait", "io_uring_cqring_wait", kTp, false, "",
             "io_uring: submitting apart from waiting for completions"},
};

struct BtfDelete {
  void operator()(btf* b) const { btf__free(b); }
};
using BtfPtr = std::unique_ptr<btf, BtfDelete>;

// The kernel's BTF and those of its modules: ext4 and jbd2 may be modules.
class KernelTypes {
 public:
  KernelTypes() : vmlinux_(btf__load_vmlinux_btf()) {
    if (!vmlinux_) {
      throw refused_error(
          "this kernel has no BTF (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF=y");
    }
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/kernel/btf", ignored)) {
      std::string module = entry.path().filename();
      if (module == "vmlinux") continue;
      if (BtfPtr types{btf__load_module_btf(module.c_str(), vmlinux_.get())}) {
        modules_.push_back(std::move(types));
      }
    }
  }

  [[nodiscard]] bool has(const HookSpec& spec) const {
    if (spec.kind == kIter) return has_task_iterator();
    if (spec.kind == kFunction) return find(std::string(spec.tracepoint), BTF_KIND_FUNC);
    return find(fmt::format("btf_trace_{}", spec.tracepoint), BTF_KIND_TYPEDEF);
  }

 private:
  [[nodiscard]] bool find(const std::string& name, uint32_t kind) const {
    auto in = [&](const BtfPtr& b) {
      return btf__find_by_name_kind(b.get(), name.c_str(), kind) > 0;
    };
    return in(vmlinux_) || std::any_of(modules_.begin(), modules_.end(), in);
  }

  [[nodiscard]] bool has_task_iterator() const {
    return btf__find_by_name_kind(vmlinux_.get(), "bpf_iter__task", BTF_KIND_STRUCT) > 0;
  }

  BtfPtr vmlinux_;
  std::vector<BtfPtr> modules_;
};

}  // namespace

std::span<const HookSpec> hook_table() {
  return kHooks;
}

std::vector<HookState> probe_hooks(std::span<const std::string> disabled) {
  KernelTypes types;
  auto is_disabled = [&](std::string_view name) {
    return std::find(disabled.begin(), disabled.end(), name) != disabled.end();
  };
  for (const std::string& name : disabled) {
    bool known = std::any_of(kHooks.begin(), kHooks.end(),
                             [&](const HookSpec& spec) { return spec.program == name; });
    if (!known) throw usage_error("--disable-hook: no hook is called '{}' (see doctor)", name);
  }
  std::vector<HookState> states;
  for (const HookSpec& spec : kHooks) {
    HookState state{.name = std::string(spec.program),
                    .method = "none",
                    .ok = false,
                    .essential = spec.essential,
                    .why = {},
                    .lost = std::string(spec.lost)};
    bool present = types.has(spec);
    auto alternative = std::find_if(kHooks.begin(), kHooks.end(), [&](const HookSpec& other) {
      return other.program == spec.alternative;
    });
    bool covered = alternative != kHooks.end() && types.has(*alternative);
    if (covered && (!present || spec.fallback)) continue;
    if (is_disabled(spec.program)) {
      state.why = "disabled with --disable-hook";
    } else if (!present) {
      state.why = spec.kind == kIter
                      ? "this kernel has no task iterator"
                      : fmt::format(
                            "this kernel has no {} {} (or the module that has it is not "
                            "loaded)",
                            spec.kind == kFunction ? "function" : "tracepoint", spec.tracepoint);
    } else {
      state.ok = true;
      state.method = spec.kind == kIter ? "iter" : spec.kind == kFunction ? "fentry" : "tp_btf";
      state.lost.clear();
    }
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace stalltrace::capture

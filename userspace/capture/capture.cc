#include "userspace/capture/capture.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/fd.h"
#include "userspace/capture/cost.h"
#include "userspace/capture/leftovers.h"
#include "userspace/capture/syscalls.h"

using stalltrace::wire::wire_config;  // the skeleton names it without a namespace
#include "stalltrace.skel.h"

namespace stalltrace::capture {
namespace {

// The programs never wake the reader (that would cost the traced task more than the event): it
// looks this often. 16 MiB of ring last 160 ms at 100 MB/s.
constexpr auto kReadEvery = std::chrono::milliseconds(10);

uint64_t unix_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// libbpf and the verifier speak only to those who ask: one line of ours says the rest.
int print_if_asked(libbpf_print_level level, const char* format, va_list args) {
  if (level == LIBBPF_DEBUG || getenv("STALLTRACE_DEBUG_BPF") == nullptr) return 0;
  return vfprintf(stderr, format, args);
}

std::string refusal(int error) {
  if (error == EPERM) {
    return "the kernel refuses to load BPF programs (Operation not permitted): run as root, with "
           "CAP_BPF and CAP_PERFMON, outside a restricted container; `stalltrace doctor` tells "
           "more";
  }
  return fmt::format(
      "the BPF programs could not be loaded ({}): `stalltrace doctor` tells more; "
      "STALLTRACE_DEBUG_BPF=1 prints the verifier's words",
      strerror(error));
}

struct SkeletonDestroy {
  void operator()(::stalltrace_bpf* skeleton) const { stalltrace_bpf__destroy(skeleton); }
};
struct RingFree {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

}  // namespace

class Capture::Impl {
 public:
  Impl(CaptureOptions options, const kernel::SymbolTable& symbols, Sink sink)
      : options_(std::move(options)), sink_(std::move(sink)) {
    hooks_ = probe_hooks(options_.disabled_hooks);
    for (const HookState& hook : hooks_) {
      if (!hook.ok && hook.essential) {
        throw refused_error("hook {} is missing: {}; without it {}", hook.name, hook.why,
                            hook.lost);
      }
    }
    libbpf_set_print(print_if_asked);
    // Needed before 5.11 only; without CAP_SYS_RESOURCE it fails and does not matter.
    rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &unlimited);
    skeleton_.reset(stalltrace_bpf__open());
    if (!skeleton_) throw refused_error("{}", refusal(errno));
    configure(symbols);
    if (int error = stalltrace_bpf__load(skeleton_.get())) {
      throw refused_error("{}", refusal(-error));
    }
    fill_devices();
    ring_.reset(
        ring_buffer__new(bpf_map__fd(skeleton_->maps.events), &Impl::on_event, this, nullptr));
    if (!ring_) throw refused_error("{}", refusal(errno));
    attach();
    cost_ = std::make_unique<CostSampler>(program_fds());
  }

  ~Impl() { stop_reader(); }

  void follow(std::span<const uint32_t> pids) {
    const uint8_t yes = 1;
    for (uint32_t pid : pids) {
      bpf_map_update_elem(bpf_map__fd(skeleton_->maps.followed), &pid, &yes, BPF_ANY);
    }
  }

  void open_window() {
    missed_before_ = cost_->missed_probes();
    // At once, or requests made meanwhile would lack a beginning that they are said to have.
    start_unix_ns_ = unix_ns();
    start_ns_ = monotonic_ns();
    skeleton_->bss->window_open_ns = start_ns_;
    skeleton_->bss->window_open = 1;
    run_iterator(skeleton_->links.survey);
    run_iterator(skeleton_->links.adopt);
    place_fds_.clear();
    reader_ = std::thread([this] { read_until_stopped(); });
  }

  void close_window() {
    if (end_ns_ != 0 || start_ns_ == 0) return;
    skeleton_->bss->window_open = 0;
    end_ns_ = monotonic_ns();
  }

  void collect() {
    // Programs that had seen the window open may still be running on another CPU.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    run_iterator(skeleton_->links.drain);
    run_iterator(skeleton_->links.recheck);
    stop_reader();
    ring_buffer__consume(ring_.get());
    cost_->finish_sample();
    send_leftovers(leftovers(end_ns_), sink_);
  }

  [[nodiscard]] std::vector<std::byte> peek() const {
    std::vector<std::byte> events = iterated(skeleton_->links.peek);
    send_leftovers(leftovers(monotonic_ns()), [&](std::span<const std::byte> event) {
      events.insert(events.end(), event.begin(), event.end());
    });
    return events;
  }

  [[nodiscard]] bool executes_flush(uint32_t disk) const {
    return has_flush_of(bpf_map__fd(skeleton_->maps.flushes), disk);
  }

  [[nodiscard]] uint64_t start_ns() const { return start_ns_; }
  [[nodiscard]] uint64_t start_unix_ns() const { return start_unix_ns_; }
  [[nodiscard]] uint64_t end_ns() const { return end_ns_; }
  [[nodiscard]] const std::vector<HookState>& hooks() const { return hooks_; }

  [[nodiscard]] std::vector<Histogram> histograms() const {
    std::vector<Histogram> all;
    std::vector<wire::wire_hist> per_cpu(static_cast<size_t>(libbpf_num_possible_cpus()));
    int fd = bpf_map__fd(skeleton_->maps.hists);
    for (uint32_t slot = 0; slot < options_.disks.size(); ++slot) {
      for (uint32_t kind = 0; kind < wire::HIST_KINDS; ++kind) {
        uint32_t key = slot * wire::HIST_KINDS + kind;
        if (bpf_map_lookup_elem(fd, &key, per_cpu.data()) != 0) continue;
        Histogram sum{.disk = options_.disks[slot].disk, .kind = kind};
        for (const wire::wire_hist& one : per_cpu) add(sum.hist, one);
        if (sum.hist.count > 0) all.push_back(sum);
      }
    }
    return all;
  }

  [[nodiscard]] Losses losses() const {
    Losses losses;
    std::vector<uint64_t> per_cpu(static_cast<size_t>(libbpf_num_possible_cpus()));
    for (uint32_t kind = 0; kind < wire::LOSS_KINDS; ++kind) {
      if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.losses), &kind, per_cpu.data()) != 0) {
        continue;
      }
      for (uint64_t count : per_cpu) losses.by_kind[kind] += count;
    }
    losses.missed_probes = cost_->missed_probes() - missed_before_;
    return losses;
  }

  [[nodiscard]] BpfCost cost() const {
    uint64_t until = end_ns_ != 0 ? end_ns_ : monotonic_ns();
    double seconds = static_cast<double>(until - start_ns_) / 1e9;
    return {.ns = static_cast<uint64_t>(cost_->ns_per_second() * seconds),
            .runs = static_cast<uint64_t>(cost_->runs_per_second() * seconds),
            .cpu_share = cost_->ns_per_second() / 1e9 / libbpf_num_possible_cpus(),
            .measured = cost_->measured()};
  }

 private:
  void configure(const kernel::SymbolTable& symbols) {
    wire::wire_config& config = skeleton_->rodata->config;
    uint64_t threshold = std::max<uint64_t>(options_.threshold_ns, 1000);
    config.threshold_ns = threshold;
    // Five sleeps too short for a stack come to 1 % of the shortest stall.
    config.wait_floor_ns = std::clamp<uint64_t>(threshold / 500, 1'000, 20'000);
    config.request_floor_ns = std::clamp<uint64_t>(threshold / 10, 10'000, 1'000'000);
    config.own_tgid = static_cast<uint32_t>(getpid());
    config.iomap_end_io = symbols.address_of("iomap_dio_bio_end_io");
    config.raw_end_io = symbols.address_of("blkdev_bio_end_io_async");
    config.raw_bios_end_io = symbols.address_of("blkdev_bio_end_io");
    config.flush_data_end_io = symbols.address_of("mq_flush_data_end_io");
    config.throttle_work = symbols.address_of("blk_throtl_dispatch_work_fn");
    config.maps = options_.maps ? 1 : 0;
    config.follows = options_.follows ? 1 : 0;
    config.surveyed = open_places(config.survey_fd);
    for (const SyscallRule& rule : syscall_rules()) {
      config.rules[rule.number].call = static_cast<uint8_t>(rule.call);
      config.rules[rule.number].target = static_cast<uint8_t>(rule.target);
    }
    bpf_map__set_max_entries(
        skeleton_->maps.hists,
        static_cast<uint32_t>(std::max<size_t>(options_.disks.size(), 1) * wire::HIST_KINDS));
    if (!options_.maps) bpf_map__set_max_entries(skeleton_->maps.mapped_bios, 1);
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, skeleton_->obj) {
      std::string_view name = bpf_program__name(program);
      auto found = std::find_if(hooks_.begin(), hooks_.end(),
                                [&](const HookState& hook) { return hook.name == name; });
      bpf_program__set_autoload(program, found != hooks_.end() && found->ok);
    }
  }

  // A path alone (O_PATH) touches no disk. A disk's node must be opened in earnest.
  uint32_t open_places(uint32_t (&fds)[wire::WIRE_SURVEYED]) {
    for (const std::string& place : options_.places) {
      if (place_fds_.size() == wire::WIRE_SURVEYED) break;
      struct stat found {};
      if (stat(place.c_str(), &found) != 0) continue;
      bool disk = S_ISBLK(found.st_mode);
      Fd fd(open(place.c_str(), (disk ? O_RDONLY | O_NONBLOCK : O_PATH) | O_CLOEXEC));
      if (fd.get() < 0) continue;
      fds[place_fds_.size()] = static_cast<uint32_t>(fd.get());
      place_fds_.push_back(std::move(fd));
    }
    return static_cast<uint32_t>(place_fds_.size());
  }

  void fill_devices() {
    for (uint32_t slot = 0; slot < options_.disks.size(); ++slot) {
      uint32_t value = slot + 1;
      for (uint32_t dev : options_.disks[slot].devs) {
        bpf_map_update_elem(bpf_map__fd(skeleton_->maps.traced_devices), &dev, &value, BPF_ANY);
      }
    }
  }

  // A hook that cannot be attached is a missing hook, with its reason; an essential one ends it.
  void attach() {
    bpf_object_skeleton* skeleton = skeleton_->skeleton;
    for (int i = 0; i < skeleton->prog_cnt; ++i) {
      bpf_prog_skeleton& entry = skeleton->progs[i];
      if (!bpf_program__autoload(*entry.prog)) continue;
      bpf_link* link = bpf_program__attach(*entry.prog);
      if (link != nullptr) {
        *entry.link = link;
        continue;
      }
      int error = errno;
      auto hook = std::find_if(hooks_.begin(), hooks_.end(),
                               [&](const HookState& h) { return h.name == entry.name; });
      if (hook->essential) throw refused_error("{}", refusal(error));
      hook->ok = false;
      hook->method = "none";
      hook->why = fmt::format("cannot be attached: {}", strerror(error));
      for (const HookSpec& spec : hook_table()) {
        if (spec.program == hook->name) hook->lost = std::string(spec.lost);
      }
    }
  }

  // Runs it over all tasks; what it wrote.
  static std::vector<std::byte> iterated(bpf_link* link) {
    std::vector<std::byte> written;
    if (link == nullptr) return written;
    Fd fd(bpf_iter_create(bpf_link__fd(link)));
    if (fd.get() < 0) return written;
    constexpr size_t kStep = 64 << 10;
    for (;;) {
      size_t before = written.size();
      written.resize(before + kStep);
      ssize_t got = read(fd.get(), written.data() + before, kStep);
      written.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return written;
    }
  }
  static void run_iterator(bpf_link* link) { iterated(link); }

  [[nodiscard]] LeftoverMaps leftovers(uint64_t now_ns) const {
    return {.commits = bpf_map__fd(skeleton_->maps.commits),
            .flushes = bpf_map__fd(skeleton_->maps.flushes),
            .requests = bpf_map__fd(skeleton_->maps.requests),
            .mapped_bios = bpf_map__fd(skeleton_->maps.mapped_bios),
            .asyncs = bpf_map__fd(skeleton_->maps.asyncs),
            .freezes = bpf_map__fd(skeleton_->maps.freezes),
            .request_floor_ns = skeleton_->rodata->config.request_floor_ns,
            .threshold_ns = options_.threshold_ns,
            .now_ns = now_ns};
  }

  [[nodiscard]] std::vector<int> program_fds() const {
    std::vector<int> fds;
    const bpf_object_skeleton* skeleton = skeleton_->skeleton;
    for (int i = 0; i < skeleton->prog_cnt; ++i) {
      int fd = bpf_program__fd(*skeleton->progs[i].prog);
      if (fd >= 0) fds.push_back(fd);
    }
    return fds;
  }

  static int on_event(void* self, void* data, size_t size) {
    static_cast<Impl*>(self)->sink_({static_cast<const std::byte*>(data), size});
    return 0;
  }

  void read_until_stopped() {
    while (!stop_.load(std::memory_order_relaxed)) {
      ring_buffer__consume(ring_.get());
      cost_->tick(monotonic_ns());
      std::this_thread::sleep_for(kReadEvery);
    }
  }

  void stop_reader() {
    stop_ = true;
    if (reader_.joinable()) reader_.join();
  }

  static void add(wire::wire_hist& sum, const wire::wire_hist& one) {
    sum.count += one.count;
    sum.sum_ns += one.sum_ns;
    sum.max_ns = std::max(sum.max_ns, one.max_ns);
    sum.over += one.over;
    sum.over_ns += one.over_ns;
    for (size_t i = 0; i < wire::WIRE_HIST_BUCKETS; ++i) sum.bucket[i] += one.bucket[i];
  }

  CaptureOptions options_;
  Sink sink_;
  std::vector<HookState> hooks_;
  std::unique_ptr<::stalltrace_bpf, SkeletonDestroy> skeleton_;
  std::unique_ptr<ring_buffer, RingFree> ring_;
  std::unique_ptr<CostSampler> cost_;
  std::vector<Fd> place_fds_;  // until the window has opened
  std::thread reader_;
  std::atomic<bool> stop_{false};
  uint64_t start_ns_ = 0, start_unix_ns_ = 0, end_ns_ = 0, missed_before_ = 0;
};

Capture::Capture(CaptureOptions options, const kernel::SymbolTable& symbols, Sink sink)
    : impl_(std::make_unique<Impl>(std::move(options), symbols, std::move(sink))) {}
Capture::~Capture() = default;
void Capture::follow(std::span<const uint32_t> pids) {
  impl_->follow(pids);
}
void Capture::open_window() {
  impl_->open_window();
}
void Capture::close_window() {
  impl_->close_window();
}
void Capture::collect() {
  impl_->collect();
}
uint64_t Capture::start_ns() const {
  return impl_->start_ns();
}
uint64_t Capture::start_unix_ns() const {
  return impl_->start_unix_ns();
}
std::vector<std::byte> Capture::peek() const {
  return impl_->peek();
}
bool Capture::executes_flush(uint32_t disk) const {
  return impl_->executes_flush(disk);
}
uint64_t Capture::end_ns() const {
  return impl_->end_ns();
}
const std::vector<HookState>& Capture::hooks() const {
  return impl_->hooks();
}
std::vector<Histogram> Capture::histograms() const {
  return impl_->histograms();
}
Losses Capture::losses() const {
  return impl_->losses();
}
BpfCost Capture::cost() const {
  return impl_->cost();
}

std::string why_bpf_is_refused() {
  libbpf_set_print(print_if_asked);
  // r0 = 0; exit
  const std::array<bpf_insn, 2> nothing{
      bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
      bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  LIBBPF_OPTS(bpf_prog_load_opts, opts);
  int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "st_probe", "Dual BSD/GPL", nothing.data(),
                         nothing.size(), &opts);
  if (fd < 0) return refusal(errno);
  close(fd);
  return "";
}

}  // namespace stalltrace::capture

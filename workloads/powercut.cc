#include "workloads/powercut.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "userspace/base/error.h"
#include "workloads/disk/process.h"
#include "workloads/disk/profile.h"
#include "workloads/disk/random.h"
#include "workloads/own_disk.h"
#include "workloads/powercut_load.h"
#include "workloads/powercut_program.h"

namespace stalltrace::workloads {
namespace {

constexpr uint64_t kCutMs = 1'000'000;
constexpr uint64_t kFirstPromise_ns = 30'000 * kCutMs;
// A cut comes after a number of promises or after a time, whichever is first: a slow disk keeps
// few.
constexpr uint64_t kMinLoad_ns = 100 * kCutMs;
constexpr uint64_t kMaxLoad_ns = 1'500 * kCutMs;
constexpr uint64_t kMoment_ns = 1'000 * kCutMs;  // how long a moment worth a cut is waited for
constexpr uint64_t kShortPause_ns = 50'000;

class PowercutRun {
 public:
  PowercutRun(const PowercutOptions& options, const PowercutHooks& hooks, PowercutResult& result)
      : options_(options), hooks_(hooks), result_(result), random_(options.seed) {}

  void run() {
    disk::DiskOptions wanted = options_.disk;
    if (wanted.name.empty()) wanted.name = fmt::format("powercut-{}", getpid());
    wanted.seed = options_.seed;
    const disk::Profile profile = disk::resolve(wanted);
    may_lose_ = profile.cache == disk::Cache::kVolatile;
    OwnDisk disk(wanted);
    const OwnFileSystem system(disk.info(), options_.mount_options);
    bool fresh = false;
    while (result_.cuts.size() < options_.cuts && !stopped()) {
      if (!fresh) begin_afresh(disk.info().name, system);
      const auto cut = one_cut(disk.info().name, system);
      if (!cut) break;
      fresh = cut->is_good();
      take(*cut);
      if (options_.until_lost && !cut->is_good()) break;
      if (result_.idle_cuts > 3 * options_.cuts + 10) {
        throw failed_error(
            "{} of {} moments had no sync in flight or nothing to lose: is the disk "
            "too fast?",
            result_.idle_cuts, result_.idle_cuts + result_.cuts.size());
      }
    }
    disk.destroy();
  }

 private:
  bool stopped() {
    if (hooks_.stop && hooks_.stop()) result_.stopped = true;
    return result_.stopped;
  }

  // After a loss there is no telling what the next one is due to.
  static void begin_afresh(const std::string& name, const OwnFileSystem& system) {
    system.make();
    system.mount();
    // A disk that lies must not lose the file system itself before anything was promised.
    disk::drain_cache(name);
  }

  // Counted is what could have gone wrong, and what did.
  void take(const PowercutCut& cut) {
    const bool could_lose =
        cut.syncs_in_flight.value_or(1) > 0 && (!may_lose_ || cut.disk.writes_dropped > 0);
    if (!could_lose && cut.is_good()) {
      ++result_.idle_cuts;
      return;
    }
    result_.cuts.push_back(cut);
    if (hooks_.done) hooks_.done(cut);
  }

  std::unique_ptr<PowercutLoad> begin_load(const std::string& folder, const std::string& label) {
    if (options_.command.empty()) {
      return std::make_unique<FileLoad>(FileLoadSpec{.folder = folder,
                                                     .label = label,
                                                     .threads = options_.threads,
                                                     .file_bytes = options_.file_bytes});
    }
    return std::make_unique<ProgramLoad>(ProgramLoadSpec{
        .command = options_.command, .folder = folder, .checker = options_.checker});
  }

  // False if the run was stopped meanwhile.
  bool wait_for_moment(PowercutLoad& load) {
    const uint64_t total = static_cast<uint64_t>(options_.files) * options_.threads;
    const uint64_t enough = 1 + random_.below(total);
    const uint64_t load_ns = kMinLoad_ns + random_.below(kMaxLoad_ns - kMinLoad_ns);
    const uint64_t begin_ns = monotonic_ns();
    uint64_t promised = 0;
    while (promised < enough) {
      if (stopped()) return false;
      promised = load.promised();
      const uint64_t passed_ns = monotonic_ns() - begin_ns;
      if (promised > 0 && passed_ns >= load_ns) break;
      if (promised == 0 && passed_ns >= kFirstPromise_ns) {
        throw failed_error("the load had nothing promised in {} s",
                           kFirstPromise_ns / 1000 / kCutMs);
      }
      disk::sleep_ns(kCutMs / 2);
    }
    // Promises come in bunches, right after a commit: not all cuts should.
    disk::sleep_ns(random_.below(10 * kCutMs));
    const uint64_t deadline_ns = monotonic_ns() + kMoment_ns;
    while (!load.is_syncing() && monotonic_ns() < deadline_ns) disk::sleep_ns(kShortPause_ns);
    return true;
  }

  std::optional<PowercutCut> one_cut(const std::string& name, const OwnFileSystem& system) {
    PowercutCut cut;
    cut.number = static_cast<unsigned>(result_.cuts.size()) + 1;
    const std::string label = fmt::format("cut-{}", ++rounds_);
    const std::string folder = system.folder() + "/" + label;
    std::filesystem::create_directory(folder);
    const auto load = begin_load(folder, label);
    if (!wait_for_moment(*load)) return std::nullopt;
    cut.disk = disk::cut(name, random_.next(), may_lose_ ? kMoment_ns : 0);
    load->end();
    cut.syncs_in_flight = load->syncs_in_flight(cut.disk.at_ns);
    system.unmount();
    disk::power_on(name);
    look(*load, folder, system, cut);
    return cut;
  }

  void look(PowercutLoad& load, const std::string& folder, const OwnFileSystem& system,
            PowercutCut& cut) {
    const std::string mount_error = system.try_mount();
    cut.mounted = mount_error.empty();
    PowercutFindings findings = load.check(cut.mounted);
    cut.promised = findings.promised;
    cut.lost = findings.lost;
    cut.torn = findings.torn;
    cut.faults = std::move(findings.faults);
    if (!cut.mounted) {
      cut.faults.push_back(mount_error);
      return;
    }
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    if (error) {
      cut.clean = false;
      cut.faults.push_back(fmt::format("{} cannot be removed: {}", folder, error.message()));
    }
    system.unmount();
    const std::string damage = system.check();
    if (!damage.empty()) {
      cut.clean = false;
      cut.faults.push_back(damage);
    }
    if (cut.is_good()) system.mount();
  }

  const PowercutOptions& options_;
  const PowercutHooks& hooks_;
  PowercutResult& result_;
  disk::Random random_;
  bool may_lose_ = false;
  unsigned rounds_ = 0;
};

void check_powercut_options(const PowercutOptions& options) {
  if (options.cuts == 0) throw usage_error("--cuts: at least one");
  if (options.threads == 0 || options.threads > FileLoad::kMaxThreads) {
    throw usage_error("-t: from 1 to {} threads", FileLoad::kMaxThreads);
  }
  if (options.files == 0) throw usage_error("-n: at least one file");
  if (options.command.empty() != options.checker.empty()) {
    throw usage_error(
        "{}", options.checker.empty()
                  ? "a program needs --check SCRIPT, which says what of its promises is lost"
                  : "--check SCRIPT needs a program: -- CMD");
  }
  if (!options.checker.empty() && access(options.checker.c_str(), X_OK) != 0) {
    throw usage_error("--check: {}: {}", options.checker, std::strerror(errno));
  }
}

}  // namespace

void run_powercut(const PowercutOptions& options, const PowercutHooks& hooks,
                  PowercutResult& result) {
  check_powercut_options(options);
  PowercutRun(options, hooks, result).run();
}

}  // namespace stalltrace::workloads

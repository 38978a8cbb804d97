#include "userspace/cli/osync_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <sstream>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/kernel/counters.h"
#include "userspace/kernel/thread_now.h"

namespace stalltrace::cli {
namespace {

using kernel::WaitClass;

constexpr uint64_t kSecond = 1'000'000'000;
// Of very many writers as many are looked at each time, others the next: looking costs CPU time
// that the load needs.
constexpr size_t kMostAtOnce = 64;

enum class Where { kState, kWrite };

struct Meaning {
  Where where = Where::kState;
  WriterState state = WriterState::kOther;
};

Meaning meaning_of(WaitClass wait_class) {
  using enum WaitClass;
  switch (wait_class) {
    case kCpuRun:
    case kCpuWait:
      return {Where::kState, WriterState::kRun};
    case kLockInode:
    case kLockExtent:
    case kLockMapping:
    case kLockOther:
      return {Where::kState, WriterState::kLock};
    case kJournalLocked:
    case kJournalCredits:
    case kJournalSpace:
    case kJournalBarrier:
    case kJournalBuffer:
    case kJournalCommit:
    case kJournalFastcommit:
    case kJournalBatch:
    case kLogForce:
    case kLogSpace:
    case kTreeLog:
    case kTreeCommit:
      return {Where::kState, WriterState::kJournal};
    case kBlockTag:
    case kBlockFrozen:
    case kBlockWbt:
    case kBlockThrottle:
      return {Where::kState, WriterState::kQueue};
    case kBlockFlush:
      return {Where::kState, WriterState::kFlush};
    case kBlockWrite:
    case kBlockRead:
    case kUringWait:
      return {Where::kWrite, WriterState::kDevice};
    default:
      return {Where::kState, WriterState::kOther};
  }
}

unsigned requests_in_disk(const std::string& disk_name) {
  std::string name = disk_name;
  std::replace(name.begin(), name.end(), '/', '!');
  std::ifstream file("/sys/class/block/" + name + "/inflight");
  unsigned reads = 0;
  unsigned writes = 0;
  file >> reads >> writes;
  return reads + writes;
}

}  // namespace

std::string_view name_of(WriterState state) {
  static constexpr std::array<std::string_view, kWriterStates> kNames{
      "run", "lock", "journal", "queue", "flush", "device", "other"};
  return kNames.at(static_cast<size_t>(state));
}

std::array<unsigned, kWriterStates> states_of(const std::map<WaitClass, unsigned>& waits,
                                              bool flushing, unsigned in_device) {
  std::array<unsigned, kWriterStates> states{};
  auto add = [&states](WriterState state, unsigned count) {
    states[static_cast<size_t>(state)] += count;
  };
  unsigned writing = 0;
  for (const auto& [wait_class, count] : waits) {
    const Meaning meaning = meaning_of(wait_class);
    if (meaning.where == Where::kWrite) {
      writing += count;
    } else {
      add(meaning.state, count);
    }
  }
  if (flushing) {
    add(WriterState::kFlush, writing);
  } else {
    const unsigned served = std::min(writing, in_device);
    add(WriterState::kDevice, served);
    add(WriterState::kQueue, writing - served);
  }
  return states;
}

OsyncWatch::OsyncWatch(Subject subject) : subject_(std::move(subject)) {
  start_ns_ = monotonic_ns();
  second_ns_ = start_ns_;
  before_ = machine();
  if (subject_.line) {
    subject_.line(fmt::format(
        "{:>4} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>8} {:>8} {:>7} {:>6} {:>3} {:>3} "
        "{:>6} {:>6} {:>2} {:>2} {:>2} {:>2}",
        "s", "run", "lock", "jrnl", "queue", "flush", "dev", "other", "MB/s", "writes/s", "flush/s",
        "w/fl", "r", "b", "in", "cs", "us", "sy", "id", "wa"));
  }
  thread_ = std::thread([this] { watch(); });
}

void OsyncWatch::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void OsyncWatch::watch() {
  // At random moments, or it would always look at the same phase of flushes of one length.
  std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<int> pause_us(10'000, 40'000);
  while (!stop_) {
    look();
    const uint64_t now_ns = monotonic_ns();
    if (now_ns >= second_ns_ + kSecond) finish_second(now_ns);
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us(random)));
  }
  const uint64_t now_ns = monotonic_ns();
  if (now_ns >= second_ns_ + kSecond / 2) finish_second(now_ns);
}

void OsyncWatch::look() {
  const auto& threads = subject_.threads;
  const size_t count = std::min(threads.size(), kMostAtOnce);
  std::map<WaitClass, unsigned> waits;
  unsigned alive = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = (all_looks_ * count + i) % threads.size();
    auto wait_class = kernel::waits_for_now(subject_.pid, threads[at].tid, true);
    if (!wait_class) continue;
    ++waits[*wait_class];
    ++alive;
  }
  if (alive == 0) return;
  bool flushing = waits.contains(WaitClass::kBlockFlush);
  if (subject_.flushing) flushing = subject_.flushing();
  unsigned in_device = 0;
  for (const std::string& name : subject_.disk_names) in_device += requests_in_disk(name);
  const auto states = states_of(waits, flushing, in_device);
  ++looks_;
  ++all_looks_;
  for (size_t i = 0; i < kWriterStates; ++i) {
    seen_[i] += states[i];
    all_seen_[i] += states[i];
  }
  for (const auto& [wait_class, writers] : waits) all_waits_[wait_class] += writers;
}

OsyncWatch::Machine OsyncWatch::machine() const {
  Machine now;
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "cpu") {
      uint64_t nice = 0, irq = 0, soft = 0, user = 0, system = 0;
      words >> user >> nice >> system >> now.idle >> now.iowait >> irq >> soft;
      now.user = user + nice;
      now.system = system + irq + soft;
    } else if (key == "intr") {
      words >> now.interrupts;
    } else if (key == "ctxt") {
      words >> now.switches;
    } else if (key == "procs_running") {
      words >> now.running;
    } else if (key == "procs_blocked") {
      words >> now.blocked;
    }
  }
  try {
    for (uint32_t disk : subject_.disks) {
      now.flushes += kernel::disk_stats(disk).flushes.value_or(0);
    }
  } catch (const Error&) {
    // The device is going away; the load will say so.
  }
  if (subject_.counts != nullptr) {
    now.writes = subject_.counts->writes();
    now.bytes = subject_.counts->bytes();
  }
  return now;
}

void OsyncWatch::finish_second(uint64_t now_ns) {
  const Machine now = machine();
  const double seconds = static_cast<double>(now_ns - second_ns_) / 1e9;
  auto per_s = [seconds](uint64_t after, uint64_t before) {
    return static_cast<double>(after - std::min(after, before)) / seconds;
  };
  const double ticks = static_cast<double>(
      std::max<uint64_t>(1, now.user + now.system + now.idle + now.iowait - before_.user -
                                before_.system - before_.idle - before_.iowait));
  auto cpu = [ticks](uint64_t after, uint64_t before) {
    return 100 * static_cast<double>(after - std::min(after, before)) / ticks;
  };
  // Where only some writers were looked at, they stand for all.
  const double weight =
      looks_ == 0
          ? 0
          : static_cast<double>(subject_.threads.size()) /
                static_cast<double>(std::min(subject_.threads.size(), kMostAtOnce)) / looks_;
  nlohmann::json second{{"at_s", static_cast<double>(now_ns - start_ns_) / 1e9}};
  std::string line = fmt::format("{:4.0f}", static_cast<double>(now_ns - start_ns_) / 1e9);
  for (size_t i = 0; i < kWriterStates; ++i) {
    const double writers = static_cast<double>(seen_[i]) * weight;
    second[std::string(name_of(static_cast<WriterState>(i)))] = writers;
    line += fmt::format(" {:5.1f}", writers);
  }
  const double mb = per_s(now.bytes, before_.bytes) / 1e6;
  const double writes = per_s(now.writes, before_.writes);
  const double flushes = per_s(now.flushes, before_.flushes);
  second["mb_per_s"] = mb;
  second["writes_per_s"] = writes;
  second["flushes_per_s"] = flushes;
  if (flushes > 0) second["writers_per_flush"] = writes / flushes;
  second["procs_running"] = now.running;
  second["procs_blocked"] = now.blocked;
  second["in"] = per_s(now.interrupts, before_.interrupts);
  second["cs"] = per_s(now.switches, before_.switches);
  second["us"] = cpu(now.user, before_.user);
  second["sy"] = cpu(now.system, before_.system);
  second["id"] = cpu(now.idle, before_.idle);
  second["wa"] = cpu(now.iowait, before_.iowait);
  if (subject_.line) {
    line += fmt::format(
        " {:8.2f} {:8.0f} {:7.0f} {:>6} {:3} {:3} {:6.0f} {:6.0f} {:2.0f} {:2.0f} {:2.0f} {:2.0f}",
        mb, writes, flushes, flushes > 0 ? fmt::format("{:.2f}", writes / flushes) : "-",
        now.running, now.blocked, second["in"].get<double>(), second["cs"].get<double>(),
        second["us"].get<double>(), second["sy"].get<double>(), second["id"].get<double>(),
        second["wa"].get<double>());
    subject_.line(line);
  }
  seconds_.push_back(std::move(second));
  second_ns_ = now_ns;
  before_ = now;
  looks_ = 0;
  seen_.fill(0);
}

nlohmann::json OsyncWatch::figures() const {
  uint64_t all = 0;
  for (uint64_t seen : all_seen_) all += seen;
  auto share = [all](uint64_t seen) {
    return all == 0 ? 0 : static_cast<double>(seen) / static_cast<double>(all);
  };
  nlohmann::json states = nlohmann::json::object();
  for (size_t i = 0; i < kWriterStates; ++i) {
    states[std::string(name_of(static_cast<WriterState>(i)))] = share(all_seen_[i]);
  }
  std::vector<std::pair<WaitClass, uint64_t>> waits(all_waits_.begin(), all_waits_.end());
  std::stable_sort(waits.begin(), waits.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  nlohmann::json classes = nlohmann::json::array();
  for (const auto& [wait_class, seen] : waits) {
    classes.push_back({{"class", kernel::name_of(wait_class)}, {"share", share(seen)}});
  }
  return {{"seconds", seconds_}, {"states", states}, {"waits", classes}, {"looks", all_looks_}};
}

}  // namespace stalltrace::cli

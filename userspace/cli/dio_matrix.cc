#include "userspace/cli/dio_matrix.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "userspace/base/clock.h"
#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/batching/verdicts.h"
#include "userspace/cli/dio_readers.h"
#include "userspace/cli/output.h"
#include "userspace/cli/run_load.h"
#include "userspace/cli/tracing.h"
#include "workloads/device_guard.h"

namespace stalltrace::cli {
namespace {

using nlohmann::json;
using workloads::DioTest;
using workloads::Scenario;
using workloads::WorkloadProcess;

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Every call that is at least this long is explained. With many threads on a fast disk all of
// their calls are long, so the bound grows with them: 50,000 calls a second are the most.
uint64_t bound_for(unsigned threads) {
  constexpr uint64_t kPerThread_ns = 20'000;
  return std::clamp<uint64_t>(2 * threads * kPerThread_ns, 5 * kPerThread_ns, 10'000'000);
}

bool is_block_device(const std::string& path) {
  struct stat node {};
  return stat(path.c_str(), &node) == 0 && S_ISBLK(node.st_mode);
}

std::string file_path(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_directory(path, none)) return path;
  return path + (path.ends_with('/') ? "" : "/") + "dio-matrix";
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

// Mean of the loops' figures, with the holders of all of them.
json mean_readers(const std::vector<json>& loops) {
  json mean = json::object();
  for (const char* key : {"lock.inode", "lock.other", "queue", "device", "other", "short"}) {
    double sum = 0;
    for (const json& loop : loops) sum += loop.at(key).get<double>();
    mean[key] = sum / static_cast<double>(loops.size());
  }
  std::map<std::pair<std::string, std::string>, double> holders;
  double all_us = 0;
  for (const json& loop : loops) {
    for (const json& holder : loop.at("holders")) {
      const double us = holder.at("us");
      holders[{holder.at("who"), holder.at("doing")}] += us;
      all_us += us;
    }
  }
  std::vector<std::pair<double, std::pair<std::string, std::string>>> sorted;
  for (const auto& [who, us] : holders) sorted.push_back({us, who});
  std::sort(sorted.rbegin(), sorted.rend());
  mean["threshold_us"] = loops.front().at("threshold_us");
  mean["holders"] = json::array();
  for (const auto& [us, who] : sorted) {
    mean["holders"].push_back({{"who", who.first},
                               {"doing", who.second},
                               {"us", us},
                               {"share", all_us > 0 ? us / all_us : 0}});
  }
  return mean;
}

json verdict_of(const std::string& about, const std::vector<double>& run,
                const std::vector<double>& reference) {
  const batching::Effect effect = batching::effect_of(run, reference);
  std::string text;
  if (!effect.low) {
    text = fmt::format("x{:.3g} in one pair only: more --loops would tell", effect.ratio);
  } else {
    switch (batching::finding_of(effect)) {
      case batching::Finding::kNone:
        text = "no effect";
        break;
      case batching::Finding::kMore:
        text = "more";
        break;
      case batching::Finding::kLess:
        text = "less";
        break;
      case batching::Finding::kUnclear:
        text = "unclear, more --loops would tell";
        break;
    }
    text += fmt::format(": x{:.3g} (95 % interval {:.3g} to {:.3g}, {} pairs)", effect.ratio,
                        *effect.low, *effect.high, run.size());
  }
  json verdict{{"about", about}, {"text", text}, {"effect", effect.ratio}};
  if (effect.low) verdict["ci95"] = {*effect.low, *effect.high};
  return verdict;
}

}  // namespace

DioMatrix::DioMatrix(const DioMatrixSpec& spec, StopSignals& signals)
    : spec_(spec), signals_(signals) {
  for (const DioMatrixSpec::Target& target : spec.targets) add_target(target);
  if (!spec.remounts.empty() && knobs_.empty()) {
    throw usage_error("--remount: no --target is a file on ext4, which alone is mounted anew");
  }
}

DioMatrix::~DioMatrix() = default;

void DioMatrix::add_target(const DioMatrixSpec::Target& target) {
  Column column{.name = target.name,
                .path = target.path,
                .raw = is_block_device(target.path),
                .devices = {},
                .knobs = nullptr,
                .remount = nullptr,
                .reference = {}};
  if (column.raw) {
    const bool writes = std::any_of(spec_.tests.begin(), spec_.tests.end(), [](DioTest test) {
      return test != DioTest::kRead && test != DioTest::kRandRead;
    });
    if (writes) workloads::claim_device(column.path, spec_.destroy_data);
    column.devices = devices_for_name(column.path);
  } else {
    column.path = file_path(target.path);
    workloads::check_directory(folder_of(column.path));
    column.devices = devices_for_path(folder_of(column.path));
    Scenario& file = file_specs_[column.path];
    file.name = "dio-file";
    file.dio_file = {.path = column.path, .bytes = spec_.size_bytes, .layout = spec_.layout};
  }
  for (const kernel::Device& device : column.devices) {
    bool known = std::any_of(devices_.begin(), devices_.end(),
                             [&](const auto& other) { return other.kdev == device.kdev; });
    if (!known) devices_.push_back(device);
  }
  if (column.raw || spec_.remounts.empty()) {
    columns_.push_back(column);
    return;
  }
  const kernel::Device& device = column.devices.front();
  if (device.fs != "ext4") {
    throw usage_error("--remount: {} is on {}: it is for ext4", column.path, device.fs);
  }
  auto& knobs = knobs_[device.mountpoint];
  if (!knobs) knobs = std::make_unique<kernel::Knobs>(device);
  for (const DioMatrixSpec::Remount& remount : spec_.remounts) {
    Column& one = columns_.emplace_back(column);
    one.name = target.name + ":" + remount.word;
    one.knobs = knobs.get();
    one.remount = &remount;
    one.reference = target.name + ":" + spec_.remounts.front().word;
  }
}

size_t DioMatrix::planned() const {
  return spec_.loops * spec_.tests.size() * spec_.block_bytes.size() * spec_.threads.size() *
         columns_.size();
}

void DioMatrix::show(const Place& place) const {
  std::string left;
  if (done_ > 0) {
    const uint64_t each_ns = (monotonic_ns() - begun_ns_) / done_;
    left = fmt::format(", {:.0f} s left", static_cast<double>(each_ns * (planned() - done_)) / 1e9);
  }
  show_progress(fmt::format("cell {} of {}: {}, {}, {} threads, {}{}", done_ + 1, planned(),
                            columns_[place.column].name, format_size(place.block_bytes),
                            place.threads, workloads::dio_test_name(place.test), left));
}

void DioMatrix::run() {
  begun_ns_ = monotonic_ns();
  for (unsigned loop = 0; loop < spec_.loops; ++loop) {
    for (uint64_t block_bytes : spec_.block_bytes) {
      for (unsigned threads : spec_.threads) {
        for (DioTest test : spec_.tests) {
          // The columns of one cell one after the other, so that what drifts meets all of them;
          // another one begins each loop.
          for (size_t i = 0; i < columns_.size(); ++i) {
            const Place place{block_bytes, threads, test, (i + loop) % columns_.size()};
            if (signals_.stop_requested()) return;
            show(place);
            if (!run_cell(place)) return;
            ++done_;
          }
        }
      }
    }
  }
  for (auto& [mountpoint, knobs] : knobs_) knobs->restore();
}

bool DioMatrix::prepare_file(const Column& column) {
  if (column.raw) return true;
  std::unique_ptr<WorkloadProcess>& file = files_[column.path];
  // What is written once stays written; other states last until the first write only.
  if (file && spec_.layout == workloads::DioLayout::kWritten) return true;
  file.reset();
  file = std::make_unique<WorkloadProcess>(file_specs_.at(column.path));
  return file->prepare([this](uint64_t, uint64_t) { return !signals_.stop_requested(); });
}

bool DioMatrix::run_cell(const Place& place) {
  const Column& column = columns_[place.column];
  if (column.remount != nullptr) column.knobs->set(column.remount->knob, column.remount->value);
  if (!prepare_file(column)) return false;
  Scenario scenario;
  scenario.name = "dio-matrix";
  scenario.ops_log = spec_.ops_log;
  workloads::DioCellSpec& cell = scenario.dio_cell.emplace();
  cell.path = column.path;
  cell.raw = column.raw;
  cell.destroy_data = spec_.destroy_data;
  cell.bytes = spec_.size_bytes;
  cell.block_bytes = place.block_bytes;
  cell.threads = place.threads;
  cell.test = place.test;
  cell.writers = spec_.writers;
  if (column.raw && cell.writers == workloads::DioWriters::kExtending) {
    cell.writers = workloads::DioWriters::kDirect;  // a device does not grow
  }
  cell.runtime_ns = spec_.cell_ns;
  Cell result;
  if (!work(scenario, column, result)) return false;
  Cell& all = cells_[place];
  auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(all.read_mb_per_s, result.read_mb_per_s);
  append(all.write_mb_per_s, result.write_mb_per_s);
  append(all.readers, result.readers);
  return true;
}

bool DioMatrix::work(const Scenario& scenario, const Column& column, Cell& cell) {
  const workloads::DioCellSpec& spec = *scenario.dio_cell;
  WorkloadProcess load(scenario);
  std::unique_ptr<Tracing> tracing;
  const uint64_t bound_ns = spec_.bound_ns.value_or(bound_for(spec.threads));
  if (spec_.trace && spec.test == DioTest::kMixed) {
    tracing = std::make_unique<Tracing>(TracingOptions{.devices = column.devices,
                                                       .threshold_ns = bound_ns,
                                                       .disabled_hooks = spec_.disabled_hooks,
                                                       .filter = {}});
  }
  if (!load.prepare([this](uint64_t, uint64_t) { return !signals_.stop_requested(); })) {
    return false;
  }
  std::set<uint32_t> readers;
  for (const workloads::LoadThread& thread : load.threads()) {
    if (thread.name.starts_with("read-")) readers.insert(static_cast<uint32_t>(thread.tid));
  }
  if (tracing) tracing->open_window();
  load.start();
  const bool complete = wait_for_load(load, signals_);
  if (tracing) tracing->close_window();
  const workloads::WorkloadResult& result = load.result();
  if (result.errors > 0) throw failed_error("the load failed: {}", result.first_error);
  load.finish();
  if (!complete) return false;  // a part of a cell compares with nothing
  if (spec.reads()) cell.read_mb_per_s.push_back(result.workload.at("read_mb_per_s"));
  if (spec.writes()) cell.write_mb_per_s.push_back(result.workload.at("write_mb_per_s"));
  if (tracing) {
    const uint64_t readers_ns = (result.end_ns - result.start_ns) * readers.size();
    cell.readers.push_back(reader_figures(tracing->sealed_trace(), readers, readers_ns, bound_ns));
    if (uint64_t lost = tracing->lost_events(); lost > 0) {
      error_ = fmt::format("{} events were lost in a cell: its shares are too low", lost);
    }
  }
  return true;
}

// Of the same column, block size and threads in another test; 0 if that was not run.
double DioMatrix::mean_rate(Place place, DioTest test, bool reads) const {
  place.test = test;
  auto found = cells_.find(place);
  if (found == cells_.end()) return 0;
  return mean_of(reads ? found->second.read_mb_per_s : found->second.write_mb_per_s);
}

json DioMatrix::cell_figures(const Place& place, const Cell& cell) const {
  json figures{{"target", columns_[place.column].name},
               {"bs", place.block_bytes},
               {"threads", place.threads},
               {"test", workloads::dio_test_name(place.test)}};
  const double read = mean_of(cell.read_mb_per_s);
  const double write = mean_of(cell.write_mb_per_s);
  if (!cell.read_mb_per_s.empty()) figures["read_mb_per_s"] = read;
  if (!cell.write_mb_per_s.empty()) figures["write_mb_per_s"] = write;
  if (spec_.loops > 1) {
    figures["loops"] = {{"read_mb_per_s", cell.read_mb_per_s},
                        {"write_mb_per_s", cell.write_mb_per_s}};
  }
  if (place.test != DioTest::kMixed) return figures;
  // Each kind would have half of the time: then it does half of what it does alone. Where that
  // was not measured, half of the bytes.
  const double read_alone = mean_rate(place, DioTest::kRandRead, true);
  const double write_alone = mean_rate(place, DioTest::kRandWrite, false);
  const bool alone = read_alone > 0 && write_alone > 0;
  const double fair = alone ? read_alone / (read_alone + write_alone) : 0.5;
  const double share = read + write > 0 ? read / (read + write) : 0;
  figures["readers_share"] = share;
  figures["fair_share"] = fair;
  figures["fair_from"] = alone ? "alone" : "half";
  figures["fairness"] = share / fair;
  if (!cell.readers.empty()) figures["readers"] = mean_readers(cell.readers);
  return figures;
}

json DioMatrix::verdicts() const {
  json list = json::array();
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (column.remount == nullptr || column.name == column.reference) continue;
    auto reference = std::find_if(columns_.begin(), columns_.end(), [&](const Column& other) {
      return other.name == column.reference;
    });
    const auto reference_at = static_cast<size_t>(reference - columns_.begin());
    for (DioTest test : spec_.tests) {
      for (bool reads : {true, false}) {
        std::vector<double> run;
        std::vector<double> against;
        for (const auto& [place, cell] : cells_) {
          if (place.column != i || place.test != test) continue;
          Place other = place;
          other.column = reference_at;
          auto found = cells_.find(other);
          if (found == cells_.end()) continue;
          const auto& ours = reads ? cell.read_mb_per_s : cell.write_mb_per_s;
          const auto& theirs = reads ? found->second.read_mb_per_s : found->second.write_mb_per_s;
          for (size_t loop = 0; loop < std::min(ours.size(), theirs.size()); ++loop) {
            if (ours[loop] <= 0 || theirs[loop] <= 0) continue;
            run.push_back(ours[loop]);
            against.push_back(theirs[loop]);
          }
        }
        if (run.empty()) continue;
        const std::string_view what = test != DioTest::kMixed ? "MB/s"
                                      : reads                 ? "the readers' MB/s"
                                                              : "the writers' MB/s";
        list.push_back(
            verdict_of(fmt::format("{} against {}, {}, {}", column.name, column.reference,
                                   workloads::dio_test_name(test), what),
                       run, against));
      }
    }
  }
  return list;
}

json DioMatrix::figures() const {
  json targets = json::array();
  for (const Column& column : columns_) {
    const kernel::Device& device = column.devices.front();
    json target{{"name", column.name}, {"path", column.path}, {"device", device.name}};
    if (!column.raw) {
      target["fs"] = device.fs;
      target["mountpoint"] = device.mountpoint;
    }
    if (column.remount != nullptr) target["remount"] = column.remount->word;
    if (column.raw && spec_.writers == workloads::DioWriters::kExtending) {
      target["note"] = "a device does not grow: its writers overwrite";
    }
    targets.push_back(std::move(target));
  }
  json cells = json::array();
  for (const auto& [place, cell] : cells_) cells.push_back(cell_figures(place, cell));
  json figures{{"targets", targets},
               {"cells", cells},
               {"verdicts", verdicts()},
               {"cells_done", done_},
               {"cells_planned", planned()}};
  if (!error_.empty()) figures["loss"] = error_;
  return figures;
}

}  // namespace stalltrace::cli

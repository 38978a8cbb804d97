#include "workloads/fio_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/version.h"

namespace stalltrace::workloads {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<double>& standard_percentiles() {
  static const std::vector<double> list{1,  5,  10, 20, 30,   40,   50,    60,   70,
                                        80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99};
  return list;
}

// One entry of "jobs": a thread, or those of a group.
struct Entry {
  const JobSpec* job;
  unsigned threads = 0;
  JobStats stats;
  int error = 0;
  uint64_t ended_ns = 0;
};

std::vector<Entry> entries_of(const Load::Results& results) {
  std::vector<Entry> entries;
  auto worker = results.jobs.begin();
  for (const JobSpec& job : results.scenario.jobs) {
    for (unsigned thread = 0; thread < job.jobs; ++thread, ++worker) {
      bool together = job.group_reporting && !entries.empty() &&
                      entries.back().job->group_reporting &&
                      entries.back().job->report_group == job.report_group;
      if (!together) entries.push_back({.job = &job, .stats = JobStats(job)});
      Entry& entry = entries.back();
      ++entry.threads;
      entry.stats.merge((*worker)->stats());
      if (entry.error == 0) entry.error = (*worker)->first_errno();
      entry.ended_ns = std::max(entry.ended_ns, (*worker)->end_ns());
    }
  }
  return entries;
}

Json latency(const LatencyHistogram& histogram, const std::vector<double>* percentiles) {
  Json json{{"min", histogram.min_ns()},
            {"max", histogram.max_ns()},
            {"mean", histogram.mean_ns()},
            {"stddev", histogram.deviation_ns()},
            {"N", histogram.count()}};
  if (percentiles == nullptr || histogram.count() == 0) return json;
  Json& list = json["percentile"];
  for (double percent : *percentiles) {
    list[fmt::format("{:.6f}", percent)] = histogram.quantile(percent / 100);
  }
  return json;
}

const std::vector<double>& percentiles_of(const JobSpec& job) {
  return job.percentiles.empty() ? standard_percentiles() : job.percentiles;
}

Json direction(const Entry& entry, const DirectionStats& stats) {
  uint64_t runtime_ms =
      stats.ios > 0 ? std::max<uint64_t>(1, entry.stats.runtime_ns() / 1'000'000) : 0;
  double seconds = static_cast<double>(entry.stats.runtime_ns()) / 1e9;
  double bytes_per_s = runtime_ms > 0 ? static_cast<double>(stats.bytes) / seconds : 0;
  double iops = runtime_ms > 0 ? static_cast<double>(stats.ios) / seconds : 0;
  auto kib_per_s = static_cast<uint64_t>(bytes_per_s / 1024);
  auto whole_iops = static_cast<uint64_t>(iops);
  bool any = stats.ios > 0;
  return {{"io_bytes", stats.bytes},
          {"io_kbytes", stats.bytes / 1024},
          {"bw_bytes", static_cast<uint64_t>(bytes_per_s)},
          {"bw", kib_per_s},
          {"iops", iops},
          {"runtime", runtime_ms},
          {"total_ios", stats.ios},
          {"short_ios", 0},
          {"drop_ios", 0},
          {"slat_ns", latency(stats.submit, nullptr)},
          {"clat_ns", latency(stats.complete, &percentiles_of(*entry.job))},
          {"lat_ns", latency(stats.total, nullptr)},
          {"bw_min", kib_per_s},
          {"bw_max", kib_per_s},
          {"bw_agg", any ? 100.0 : 0.0},
          {"bw_mean", bytes_per_s / 1024},
          {"bw_dev", 0.0},
          {"bw_samples", any ? 1 : 0},
          {"iops_min", whole_iops},
          {"iops_max", whole_iops},
          {"iops_mean", iops},
          {"iops_stddev", 0.0},
          {"iops_samples", any ? 1 : 0}};
}

Json direction(const Entry& entry, bool write) {
  static const DirectionStats none;
  const DirectionStats* stats = std::as_const(entry.stats).direction(write);
  return direction(entry, stats != nullptr ? *stats : none);
}

template <size_t kNames>
Json classes(const SizeClasses& sizes, const std::array<const char*, kNames>& names) {
  Json json = Json::object();
  for (size_t i = 0; i < kNames; ++i) json[names[i]] = sizes.percent(i);
  return json;
}

// Shares of the I/Os that took up to so long, and longer than the step before.
Json latency_steps(const Entry& entry, uint64_t unit_ns, uint64_t above_ns,
                   const std::vector<unsigned>& steps) {
  Json json = Json::object();
  for (unsigned step : steps) {
    uint64_t count = 0;
    for (bool write : {false, true}) {
      const DirectionStats* stats = std::as_const(entry.stats).direction(write);
      if (stats != nullptr) count += stats->complete.count_between(above_ns, step * unit_ns);
    }
    auto ios = static_cast<double>(std::max<uint64_t>(1, entry.stats.ios()));
    json[std::to_string(step)] = 100.0 * static_cast<double>(count) / ios;
    above_ns = step * unit_ns;
  }
  return json;
}

void add_latency_steps(Json& json, const Entry& entry) {
  static const std::vector<unsigned> kSteps{2, 4, 10, 20, 50, 100, 250, 500, 750, 1000};
  json["latency_ns"] = latency_steps(entry, 1, 0, kSteps);
  json["latency_us"] = latency_steps(entry, 1000, 1000, kSteps);
  std::vector<unsigned> longer = kSteps;
  longer.push_back(2000);
  Json milliseconds = latency_steps(entry, 1'000'000, 1'000'000, longer);
  double shorter = 0;
  for (const Json* steps : {&json["latency_ns"], &json["latency_us"], &milliseconds}) {
    for (const auto& share : *steps) shorter += share.get<double>();
  }
  milliseconds[">=2000"] = entry.stats.ios() > 0 ? std::max(0.0, 100 - shorter) : 0.0;
  json["latency_ms"] = std::move(milliseconds);
}

Json options(const std::vector<std::pair<std::string, std::string>>& list) {
  Json json = Json::object();
  for (const auto& [key, value] : list) json[key] = value;
  return json;
}

Json job_entry(const Load::Results& results, const Entry& entry) {
  const JobStats& stats = entry.stats;
  const JobSpec& job = *entry.job;
  auto share = [&stats](uint64_t ns) {
    return stats.thread_ns() == 0
               ? 0.0
               : 100.0 * static_cast<double>(ns) / static_cast<double>(stats.thread_ns());
  };
  Json sync{{"total_ios", stats.due_fsyncs()},
            {"lat_ns", latency(stats.due_sync(), &percentiles_of(job))}};
  Json json{{"jobname", job.name},
            {"groupid", job.report_group},
            {"error", entry.error},
            {"eta", 0},
            {"elapsed",
             (std::max(entry.ended_ns, results.start_ns) - results.start_ns) / 1'000'000'000 + 1},
            {"job options", options(job.options)},
            {"read", direction(entry, false)},
            {"write", direction(entry, true)},
            {"trim", direction(entry, DirectionStats{})},
            {"sync", std::move(sync)},
            {"job_runtime", stats.thread_ns() / 1'000'000},
            {"usr_cpu", share(stats.cpu().user_ns)},
            {"sys_cpu", share(stats.cpu().system_ns)},
            {"ctx", stats.cpu().switches},
            {"majf", stats.cpu().major_faults},
            {"minf", stats.cpu().minor_faults}};
  constexpr std::array<const char*, 7> kDepths{"1", "2", "4", "8", "16", "32", ">=64"};
  constexpr std::array<const char*, 7> kBatches{"0", "4", "8", "16", "32", "64", ">=64"};
  json["iodepth_level"] = classes(stats.depth, kDepths);
  json["iodepth_submit"] = classes(stats.batch, kBatches);
  json["iodepth_complete"] = classes(stats.reaped, kBatches);
  add_latency_steps(json, entry);
  json["latency_depth"] = job.iodepth;
  json["latency_target"] = 0;
  json["latency_percentile"] = 100.0;
  json["latency_window"] = 0;
  if (job.nowait) json["stalltrace_nowait"] = stats.nowait.to_json();
  return json;
}

Json disk_entry(const DiskUse& disk) {
  double duration_ms = std::max(1.0, static_cast<double>(disk.duration_ns()) / 1e6);
  return {{"name", disk.name()},
          {"read_ios", disk.reads()},
          {"write_ios", disk.writes()},
          {"read_merges", disk.read_merges()},
          {"write_merges", disk.write_merges()},
          {"read_ticks", disk.read_ms()},
          {"write_ticks", disk.write_ms()},
          {"in_queue", disk.queued_ms()},
          {"util", std::min(100.0, 100.0 * static_cast<double>(disk.busy_ms()) / duration_ms)}};
}

}  // namespace

Json fio_json(const Load::Results& results) {
  using std::chrono::milliseconds;
  auto now = std::chrono::system_clock::now();
  std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::array<char, 32> text{};
  ctime_r(&seconds, text.data());
  Json json{
      {"fio version", "fio-3.33 (stalltrace " STALLTRACE_VERSION ")"},
      {"timestamp", seconds},
      {"timestamp_ms", std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count()},
      {"time", std::string(text.data()).substr(0, 24)}};
  const std::vector<JobSpec>& jobs = results.scenario.jobs;
  if (!jobs.empty() && !jobs.front().global_options.empty()) {
    json["global options"] = options(jobs.front().global_options);
  }
  json["jobs"] = Json::array();
  for (const Entry& entry : entries_of(results)) json["jobs"].push_back(job_entry(results, entry));
  json["disk_util"] = Json::array();
  for (const DiskUse& disk : results.disks) json["disk_util"].push_back(disk_entry(disk));
  return json;
}

}  // namespace stalltrace::workloads

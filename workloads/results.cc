#include "workloads/results.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "userspace/base/units.h"
#include "workloads/distribution.h"
#include "workloads/fio_json.h"
#include "workloads/fsmark_results.h"
#include "workloads/mount_name.h"

namespace stalltrace::workloads {
namespace {

using nlohmann::json;

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}
double us(uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

LatencyHistogram merged(const std::vector<const Worker*>& workers, OpKind kind) {
  LatencyHistogram sum;
  for (const Worker* worker : workers) sum.merge(worker->recorder().latency(kind));
  return sum;
}

bool is_probe_kind(OpKind kind) {
  return kind == OpKind::kProbeSubmit || kind == OpKind::kProbeRequest;
}

json latencies(const std::vector<const Worker*>& workers) {
  json result = json::object();
  for (size_t i = 0; i < kOpKinds; ++i) {
    auto kind = static_cast<OpKind>(i);
    if (kind == OpKind::kAck || is_probe_kind(kind)) continue;
    LatencyHistogram sum = merged(workers, kind);
    if (sum.count() > 0) result[std::string(op_kind_name(kind))] = to_json(sum.distribution());
  }
  return result;
}

json ops_log_summary(const OpsLogSpec& log, const std::vector<const Worker*>& workers) {
  uint64_t dropped = 0;
  json logged = json::object();
  json all = json::object();
  std::vector<uint64_t> kept(kOpKinds, 0);
  for (const Worker* worker : workers) {
    dropped += worker->recorder().dropped();
    for (const OpRecord& record : worker->recorder().records()) {
      ++kept[static_cast<size_t>(record.kind)];
    }
  }
  for (size_t i = 0; i < kOpKinds; ++i) {
    auto kind = static_cast<OpKind>(i);
    uint64_t count = merged(workers, kind).count();
    if (count == 0) continue;
    all[std::string(op_kind_name(kind))] = count;
    logged[std::string(op_kind_name(kind))] = kept[i];
  }
  return {{"path", log.path},
          {"floor_us", us(log.floor_ns)},
          {"logged", logged},
          {"all", all},
          {"dropped", dropped}};
}

json thread_list(const Load::Results& results) {
  json threads = json::array();
  for (const Worker* worker : results.workers()) {
    threads.push_back(
        {{"name", worker->name()}, {"tid", worker->tid()}, {"errors", worker->errors()}});
  }
  return threads;
}

// The time that was measured: of jobs that ran after one another, the sum.
uint64_t measured_ns(const Load::Results& results) {
  std::map<unsigned, std::pair<uint64_t, uint64_t>> phases;
  for (const JobWorker* job : results.jobs) {
    if (job->stats().end_ns() == 0) continue;
    auto [found, fresh] =
        phases.try_emplace(job->job().phase, job->stats().begin_ns(), job->stats().end_ns());
    auto& [begin, end] = found->second;
    begin = std::min(begin, job->stats().begin_ns());
    end = std::max(end, job->stats().end_ns());
  }
  uint64_t sum = 0;
  for (const auto& [phase, time] : phases) sum += time.second - time.first;
  return sum;
}

json direction_figures(const DirectionStats& direction) {
  json figures{{"ios", direction.ios},
               {"bytes", direction.bytes},
               {"latency_us", to_json(direction.total.distribution())}};
  if (direction.submit.count() > 0) {
    figures["submit_us"] = to_json(direction.submit.distribution());
    figures["complete_us"] = to_json(direction.complete.distribution());
  }
  return figures;
}

// Each section of a job file by itself, its threads added up.
json section_figures(const Load::Results& results) {
  json sections = json::array();
  auto worker = results.jobs.begin();
  for (const JobSpec& job : results.scenario.jobs) {
    JobStats sum(job);
    for (unsigned thread = 0; thread < job.jobs; ++thread) sum.merge((*worker++)->stats());
    double elapsed = seconds(sum.runtime_ns());
    auto per_s = [elapsed](uint64_t amount) {
      return elapsed > 0 ? static_cast<double>(amount) / elapsed : 0;
    };
    json section{{"name", job.name},
                 {"threads", job.jobs},
                 {"runtime_s", elapsed},
                 {"iops", per_s(sum.ios())},
                 {"mb_per_s", per_s(sum.bytes()) / 1e6},
                 {"cpu_s", seconds(sum.cpu().user_ns + sum.cpu().system_ns)}};
    if (job.reads()) section["read"] = direction_figures(*std::as_const(sum).direction(false));
    if (job.writes()) section["write"] = direction_figures(*std::as_const(sum).direction(true));
    if (sum.sync().count() > 0) section["sync_us"] = to_json(sum.sync().distribution());
    if (job.nowait) section["nowait"] = sum.nowait.to_json();
    sections.push_back(std::move(section));
  }
  return sections;
}

json job_figures(const Load::Results& results) {
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  for (const JobWorker* job : results.jobs) {
    reads += job->reads();
    writes += job->writes();
    bytes_read += job->bytes_read();
    bytes_written += job->bytes_written();
  }
  double elapsed = seconds(measured_ns(results));
  auto per_s = [elapsed](uint64_t amount) {
    return elapsed > 0 ? static_cast<double>(amount) / elapsed : 0;
  };
  std::vector<const Worker*> workers = results.workers();
  json figures{{"iops", per_s(reads + writes)},
               {"mb_per_s", per_s(bytes_read + bytes_written) / 1e6},
               {"reads", reads},
               {"writes", writes},
               {"bytes_read", bytes_read},
               {"bytes_written", bytes_written},
               {"jobs", section_figures(results)},
               {"latency_us", latencies(workers)}};
  const std::vector<JobSpec>& jobs = results.scenario.jobs;
  bool synced = std::any_of(jobs.begin(), jobs.end(), [](const JobSpec& job) {
    return job.writes() && (job.sync_threads > 0 || job.syncs_itself());
  });
  if (synced) {
    LatencyHistogram acks = merged(workers, OpKind::kAck);
    figures["ack_us"] = to_json(acks.distribution());
    figures["unacknowledged"] = writes - std::min(writes, acks.count());
  }
  return figures;
}

json probe_message(const Load::Results& results) {
  const ProbeSpec& spec = *results.scenario.probe;
  MountName mount = mount_name(spec.path());
  json requests = json::array();
  for (const ProbeRequest& request : results.probe->requests()) {
    requests.push_back(
        {request.start_ns, request.submitted_ns, request.completed_ns, request.result});
  }
  return {{"path", spec.path()},
          {"fs_type", mount.fs_type},
          {"source", mount.source},
          {"block_bytes", spec.block_bytes},
          {"interval_ns", spec.interval_ns},
          {"tid", results.probe->tid()},
          {"requests", requests},
          {"error", results.probe->first_error()}};
}

// min/avg/max/mdev as ioping has it: mdev is the standard deviation.
std::string spread(std::vector<uint64_t> ns) {
  auto [min, max] = std::minmax_element(ns.begin(), ns.end());
  double sum = 0;
  double squares = 0;
  for (uint64_t value : ns) {
    auto x = static_cast<double>(value);
    sum += x;
    squares += x * x;
  }
  auto count = static_cast<double>(ns.size());
  double mean = sum / count;
  double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  auto text = [](double value) { return format_time(static_cast<uint64_t>(std::llround(value))); };
  return fmt::format("{} / {} / {} / {}", format_time(*min), text(mean), format_time(*max),
                     text(deviation));
}

// The requests that worked, taken apart.
struct ProbeTimes {
  std::vector<uint64_t> all;
  std::vector<uint64_t> submit;
  std::vector<uint64_t> complete;
};

bool worked(const ProbeResult& probe, const ProbeRequest& request) {
  return request.result == static_cast<int64_t>(probe.block_bytes);
}

ProbeTimes probe_times(const ProbeResult& probe) {
  ProbeTimes times;
  for (const ProbeRequest& request : probe.requests) {
    if (!worked(probe, request)) continue;
    times.all.push_back(request.completed_ns - request.start_ns);
    times.submit.push_back(request.submitted_ns - request.start_ns);
    times.complete.push_back(request.completed_ns - request.submitted_ns);
  }
  return times;
}

json dist_json(const std::vector<uint64_t>& ns) {
  LatencyHistogram histogram;
  for (uint64_t value : ns) histogram.add(value);
  return to_json(histogram.distribution());
}

std::string target_of(const ProbeResult& probe) {
  if (probe.fs_type.empty()) return probe.path;
  return fmt::format("{} ({} {})", probe.path, probe.fs_type, probe.source);
}

std::string failure_of(const ProbeRequest& request) {
  if (request.result >= 0) return fmt::format("only {} bytes written", request.result);
  return std::generic_category().message(static_cast<int>(-request.result));
}

}  // namespace

json to_message(const Load::Results& results) {
  const Scenario& scenario = results.scenario;
  std::vector<const Worker*> workers = results.workers();
  json workload{{"scenario", scenario.name},
                {"options", scenario.options},
                {"pid", getpid()},
                {"elapsed_s", seconds(results.end_ns - results.start_ns)},
                {"threads", thread_list(results)},
                {"files",
                 {{"created", results.files_created},
                  {"reused", results.files_reused},
                  {"kept", scenario.keep_files},
                  {"direct_io", results.direct}}}};
  LatencyHistogram acks;
  if (!scenario.jobs.empty()) workload.update(job_figures(results));
  if (results.fsmark != nullptr) {
    workload.update(fsmark_figures(results));
    workload["latency_us"] = latencies(workers);
    acks = merged(workers, OpKind::kAck);
    if (acks.count() > 0) workload["ack_us"] = to_json(acks.distribution());
  }
  if (results.extra != nullptr) {
    workload.update(results.extra->figures(results.end_ns - results.start_ns));
    workload["latency_us"] = latencies(workers);
  }
  if (!scenario.ops_log.path.empty()) {
    workload["ops_log"] = ops_log_summary(scenario.ops_log, workers);
  }
  uint64_t errors = 0;
  std::string first;
  for (const Worker* worker : workers) {
    errors += worker->errors();
    if (first.empty()) first = worker->first_error();
  }
  workload["errors"] = {{"count", errors}};
  if (errors > 0) workload["errors"]["first"] = first;
  json message{{"start_ns", results.start_ns}, {"end_ns", results.end_ns}, {"workload", workload}};
  if (acks.count() > 0) message["acks"] = acks.counts();
  if (results.probe != nullptr) message["probe"] = probe_message(results);
  // As text: its keys have an order, which the message does not keep.
  if (scenario.fio_json) message["fio"] = fio_json(results).dump();
  return message;
}

WorkloadResult from_message(const json& message) {
  WorkloadResult result;
  result.start_ns = message.at("start_ns");
  result.end_ns = message.at("end_ns");
  result.workload = message.at("workload");
  result.errors = result.workload.at("errors").at("count");
  result.first_error = result.workload.at("errors").value("first", "");
  if (message.contains("acks")) {
    for (const json& bucket : message.at("acks")) {
      result.file_ns.insert(result.file_ns.end(), bucket.at(1).get<size_t>(),
                            bucket.at(0).get<uint64_t>());
    }
  }
  if (message.contains("fio")) {
    result.fio = nlohmann::ordered_json::parse(message.at("fio").get<std::string>());
  }
  if (message.contains("probe")) {
    const json& source = message.at("probe");
    ProbeResult& probe = result.probe.emplace();
    probe.path = source.at("path");
    probe.fs_type = source.at("fs_type");
    probe.source = source.at("source");
    probe.block_bytes = source.at("block_bytes");
    probe.interval_ns = source.at("interval_ns");
    probe.tid = source.at("tid");
    probe.error = source.at("error");
    for (const json& request : source.at("requests")) {
      probe.requests.push_back({.start_ns = request.at(0),
                                .submitted_ns = request.at(1),
                                .completed_ns = request.at(2),
                                .result = request.at(3)});
    }
  }
  return result;
}

json probe_json(const ProbeResult& probe, uint64_t base_ns) {
  ProbeTimes times = probe_times(probe);
  json requests = json::array();
  for (const ProbeRequest& request : probe.requests) {
    // The base may be later than the first request.
    auto at_ns = static_cast<int64_t>(request.start_ns - base_ns);
    json entry{{"at_us", static_cast<double>(at_ns) / 1e3},
               {"us", us(request.completed_ns - request.start_ns)},
               {"submit_us", us(request.submitted_ns - request.start_ns)},
               {"complete_us", us(request.completed_ns - request.submitted_ns)}};
    if (!worked(probe, request)) entry["error"] = failure_of(request);
    requests.push_back(std::move(entry));
  }
  return {{"path", probe.path},
          {"tid", probe.tid},
          {"latency_us", dist_json(times.all)},
          {"submit_us", dist_json(times.submit)},
          {"complete_us", dist_json(times.complete)},
          {"requests", requests}};
}

std::string probe_text(const ProbeResult& probe) {
  std::string text;
  auto out = std::back_inserter(text);
  std::string target = target_of(probe);
  std::string size = format_size(probe.block_bytes);
  uint64_t number = 0;
  for (const ProbeRequest& request : probe.requests) {
    fmt::format_to(out, "{} >>> {}: request={} time={} submit={} complete={}", size, target,
                   ++number, format_time(request.completed_ns - request.start_ns),
                   format_time(request.submitted_ns - request.start_ns),
                   format_time(request.completed_ns - request.submitted_ns));
    if (!worked(probe, request)) fmt::format_to(out, " failed: {}", failure_of(request));
    text += '\n';
  }
  ProbeTimes times = probe_times(probe);
  fmt::format_to(out, "\n--- {} probe statistics ---\n", target);
  if (times.all.empty()) {
    text += "no request completed\n";
    return text;
  }
  uint64_t busy_ns = 0;
  for (uint64_t ns : times.all) busy_ns += ns;
  uint64_t period_ns = probe.requests.back().completed_ns - probe.requests.front().start_ns;
  auto count = times.all.size();
  fmt::format_to(out, "{} requests completed in {}, {} written, {:.1f} iops\n", count,
                 format_time(busy_ns), format_size(count * probe.block_bytes),
                 static_cast<double>(count) / std::max(seconds(busy_ns), 1e-9));
  fmt::format_to(out, "generated {} requests in {}, every {}\n", probe.requests.size(),
                 format_time(period_ns), format_time(probe.interval_ns));
  fmt::format_to(out, "min/avg/max/mdev = {}\n", spread(times.all));
  fmt::format_to(out, "submit            {}\n", spread(times.submit));
  fmt::format_to(out, "complete          {}\n", spread(times.complete));
  return text;
}

std::string workload_text(const json& workload) {
  std::string text;
  if (!workload.contains("iops")) return text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{}: {} writes, {} reads in {:.1f} s: {:.0f} iops, {:.1f} MB/s\n",
                 workload.at("scenario").get<std::string>(), workload.at("writes").get<uint64_t>(),
                 workload.at("reads").get<uint64_t>(), workload.at("elapsed_s").get<double>(),
                 workload.at("iops").get<double>(), workload.at("mb_per_s").get<double>());
  auto line = [&out](const std::string& name, const json& dist) {
    auto time = [&dist](const char* key) {
      return format_time(static_cast<uint64_t>(std::llround(dist.at(key).get<double>() * 1e3)));
    };
    fmt::format_to(out, "  {:<15} {:>9} x  mean {:>7}  p50 {:>7}  p99 {:>7}  max {:>7}\n", name,
                   dist.at("count").get<uint64_t>(), time("mean"), time("p50"), time("p99"),
                   time("max"));
  };
  for (const auto& [kind, dist] : workload.at("latency_us").items()) line(kind, dist);
  if (workload.contains("ack_us")) line("acknowledged", workload.at("ack_us"));
  const json& errors = workload.at("errors");
  if (errors.at("count").get<uint64_t>() > 0) {
    fmt::format_to(out, "  {} errors, the first: {}\n", errors.at("count").get<uint64_t>(),
                   errors.at("first").get<std::string>());
  }
  return text;
}

}  // namespace stalltrace::workloads

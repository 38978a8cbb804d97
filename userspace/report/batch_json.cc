#include <algorithm>
#include <cmath>

#include "userspace/batching/figures.h"
#include "userspace/report/batch.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/json.h"

namespace stalltrace::report {
namespace {

using Json = nlohmann::ordered_json;
using batching::FlushOrigin;
using batching::Rung;
using batching::Tally;

Json times_of(const std::vector<uint64_t>& samples) {
  return times_json(model::dist_of_samples(samples));
}

Json syncs_of(const batching::SyncCounts& syncs) {
  return {{"with_commit", syncs.with_commit},
          {"fast_commit", syncs.fast_commit},
          {"flush_only", syncs.flush_only},
          {"nothing_to_do", syncs.nothing_to_do}};
}

Json flushes_of(const Tally& tally) {
  Json flushes = Json::object();
  for (size_t i = 0; i < batching::kFlushOrigins; ++i) {
    flushes[std::string(batching::name_of(static_cast<FlushOrigin>(i)))] = tally.flushes[i];
  }
  return flushes;
}

constexpr size_t kDirtiersListed = 8;

// Means over the syncs that waited for a commit; who put the metadata there.
void put_paid(Json& json, const Tally& tally) {
  const batching::Paid& paid = tally.paid;
  if (paid.syncs == 0) return;
  auto mean = [&](uint64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(paid.syncs);
  };
  json["paid_per_sync"] = {{"syncs", paid.syncs},
                           {"own_metadata_blocks", mean(paid.own_blocks)},
                           {"others_metadata_blocks", mean(paid.others_blocks)},
                           {"own_data_bytes", mean(paid.own_bytes)},
                           {"others_data_bytes", mean(paid.others_bytes)}};
  json["metadata_by"] = Json::array();
  for (const batching::Dirtier& one : tally.dirtiers) {
    if (json["metadata_by"].size() == kDirtiersListed) break;
    Json entry{{"tid", one.task.tid}, {"comm", valid_utf8(std::string(model::comm_of(one.task)))}};
    if (!one.path.empty()) entry["path"] = valid_utf8(one.path);
    if (one.ino != 0) entry["ino"] = one.ino;
    entry["blocks"] = one.blocks;
    entry["handles"] = one.handles;
    entry["commits"] = one.commits;
    json["metadata_by"].push_back(std::move(entry));
  }
  uint64_t blocks = 0;
  for (const batching::Dirtier& one : tally.dirtiers) blocks += one.blocks;
  json["metadata_blocks"] = blocks;
}

// What jbd2_journal_stop would make of the average: clamped to its bounds; max_batch_time=0 turns
// the sleep off.
void put_heuristic(Json& json, const Tally& tally, const kernel::BatchBounds& bounds) {
  if (tally.average_commit_ns == 0) return;
  json["average_commit_us"] = us_json(tally.average_commit_ns);
  uint64_t low_ns = bounds.min_us * 1000;
  uint64_t high_ns = bounds.max_us * 1000;
  json["chosen_wait_us"] = us_json(std::min(std::max(tally.average_commit_ns, low_ns), high_ns));
}

Json run_json(const Rung& rung, const Rung& first) {
  Tally tally = rung.sum();
  batching::Gain gain = batching::gain_of(tally, first.sum());
  batching::Ceilings ceilings = batching::ceilings_of(tally, rung.threads);
  Json run{{"threads", rung.threads},
           {"device", rung.device},
           {"setting", rung.setting},
           {"sync", rung.sync},
           {"knobs", rung.knobs},
           {"loops", rung.loops.size()},
           {"elapsed_s", static_cast<double>(tally.ns) / 1e9},
           {"files_per_s", batching::rates_of(tally).files_per_s},
           {"files_per_s_of_loops", rung.files_per_s()}};
  if (gain.of_syncs) run["gain"] = *gain.of_syncs;
  if (gain.factors) {
    run["factors"] = {{"commit_sharing", gain.factors->commit_sharing},
                      {"flush_sharing", gain.factors->flush_sharing},
                      {"flush_rate", gain.factors->flush_rate}};
  } else {
    run["no_factors"] = gain.missing;
  }
  if (gain.without_flush) {
    run["factors_without_flush"] = {{"commit_sharing", gain.without_flush->commit_sharing},
                                    {"commit_rate", gain.without_flush->commit_rate}};
  }
  run["file_us"] = times_of(tally.file_ns);
  run.update(sharing_json(tally, rung.bounds));
  run["windows"] = Json::array();
  for (const model::Span& window : tally.windows) {
    run["windows"].push_back(
        {{"start_monotonic_ns", window.start_ns}, {"end_monotonic_ns", window.end_ns}});
  }
  run["proc_commits"] = tally.proc_commits;
  run["diskstats_flushes"] = tally.diskstats_flushes;
  if (ceilings.free_flushes) run["ceiling_free_flushes_per_s"] = *ceilings.free_flushes;
  if (ceilings.perfect_sharing) run["ceiling_perfect_sharing_per_s"] = *ceilings.perfect_sharing;
  return run;
}

// The sync calls: how many of which kind, how long they took and what they waited for.
void put_syncs(Json& json, const Tally& tally) {
  json["fsync_us"] = times_of(tally.sync_ns);
  json["batch_wait_us"] = times_of(tally.batch_wait_ns);
  if (tally.unseen.factors()) return;  // which kind of sync it was is told by commits and flushes
  json["sync_parts_us"] = Json::object();
  for (size_t i = 0; i < batching::kSyncParts; ++i) {
    uint64_t mean_ns = tally.sync_parts_ns[i] / std::max<uint64_t>(tally.syncs.all(), 1);
    json["sync_parts_us"][std::string(batching::name_of(static_cast<batching::SyncPart>(i)))] =
        us_json(mean_ns);
  }
  json["joined"] = Json::object();
  for (size_t i = 0; i < batching::kJoined; ++i) {
    json["joined"][std::string(batching::name_of(static_cast<batching::Joined>(i)))] =
        tally.joined[i];
  }
  put_paid(json, tally);
  json["syncs"] = syncs_of(tally.syncs);
  json["own_flush"] = tally.syncs.own_flush;
}

// The interval holds for that many comparisons together.
void put_interval(Json& json, const batching::Effect& effect, size_t comparisons) {
  if (!effect.low) return;
  json["ci95"] = {*effect.low, *effect.high};
  if (comparisons > 1) json["comparisons"] = comparisons;
}

Json host_json(const BatchHost& host) {
  Json json{
      {"kernel", valid_utf8(host.kernel)}, {"cpus", host.cpus}, {"arch", valid_utf8(host.arch)}};
  if (!host.cpu.empty()) json["cpu"] = valid_utf8(host.cpu);
  return json;
}

Json beside_json(const BatchReport& report) {
  Json list = Json::array();
  size_t comparisons = comparisons_beside(report);
  for (const OtherBatch& other : report.beside) {
    Json runs = Json::array();
    for (const OtherRun& run : other.runs) {
      Json one{{"threads", run.threads},
               {"device", valid_utf8(run.device)},
               {"setting", valid_utf8(run.setting)},
               {"sync", valid_utf8(run.sync)},
               {"files_per_s", run.files_per_s}};
      if (auto effect = effect_beside(report, run, comparisons)) {
        one["to_ours"] = effect->ratio;
        put_interval(one, *effect, comparisons);
      }
      runs.push_back(std::move(one));
    }
    list.push_back({{"file", valid_utf8(other.file)},
                    {"label", valid_utf8(label_of(report, other))},
                    {"host", host_json(other.host)},
                    {"same_host", same_host(other.host, report.host)},
                    {"runs", std::move(runs)}});
  }
  return list;
}

}  // namespace

Json sharing_json(const Tally& tally, const kernel::BatchBounds& bounds) {
  const batching::Unseen& unseen = tally.unseen;
  batching::Rates rates = batching::rates_of(tally);
  Json json = Json::object();
  auto put = [&json](const char* key, const std::optional<double>& value) {
    if (value) json[key] = *value;
  };
  put("syncs_per_s", rates.syncs_per_s);
  put("syncs_per_commit", rates.syncs_per_commit);
  put("commits_per_flush", rates.commits_per_flush);
  put("flushes_per_s", rates.flushes_per_s);
  if (!unseen.syncs) put_syncs(json, tally);
  if (!unseen.commits) {
    json["commit_us"] = times_of(tally.commit_ns);
    if (!unseen.handles) json["commit_handles_us"] = times_of(tally.handles_ns);
    put_heuristic(json, tally, bounds);
    json["commits"] = tally.commits;
    json["timer_commits"] = tally.timer_commits;
  }
  if (!unseen.flushes && !unseen.requests) {
    json["flush_us"] = times_of(tally.flush_ns);
    json["flushes"] = flushes_of(tally);
  }
  if (!unseen.idle()) json["idle_us"] = times_of(tally.idle_ns);
  put("idle_share", batching::idle_share(tally));
  if (!unseen.reasons.empty()) json["not_seen"] = unseen.reasons;
  return json;
}

Json to_json(const BatchReport& report) {
  Json devices = Json::array();
  for (const DeviceInfo& device : report.devices) devices.push_back(device_json(device));
  Json runs = Json::array();
  for (const Rung& rung : report.rungs) {
    runs.push_back(run_json(rung, batching::first_rung(report.rungs, rung)));
  }
  Json verdicts = Json::array();
  for (const batching::Verdict& verdict : report.verdicts) {
    Json one{{"about", verdict.about}, {"text", verdict.text}, {"effect", verdict.effect.ratio}};
    put_interval(one, verdict.effect, verdict.comparisons);
    verdicts.push_back(std::move(one));
  }
  Json command = Json::array();
  for (const std::string& word : report.command) command.push_back(valid_utf8(word));
  return {{"schema", kBatchSchema},
          {"tool", {{"version", report.version}, {"command", command}}},
          {"host", host_json(report.host)},
          {"devices", devices},
          {"work", report.work},
          {"load", {{"files", report.load.files}, {"file_bytes", report.load.file_bytes}}},
          {"notes", report.notes},
          {"runs", runs},
          {"beside", beside_json(report)},
          {"verdicts", verdicts}};
}

}  // namespace stalltrace::report

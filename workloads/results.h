// What a run measured: as the report's JSON, and as text for people.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "workloads/load.h"
#include "workloads/probe_worker.h"

namespace stalltrace::workloads {

struct ProbeResult {
  std::string path;
  std::string fs_type;
  std::string source;  // what the file system is mounted from
  uint64_t block_bytes = 0;
  uint64_t interval_ns = 0;
  pid_t tid = 0;
  std::vector<ProbeRequest> requests;  // the last may have failed
  std::string error;                   // empty: none did
};

struct WorkloadResult {
  uint64_t start_ns = 0;  // CLOCK_MONOTONIC
  uint64_t end_ns = 0;
  // The report's "workload": {"scenario","options","pid","elapsed_s","iops","mb_per_s","reads",
  // "writes","bytes_read","bytes_written","latency_us":{KIND:{dist}},"ack_us":{dist},
  // "unacknowledged","errors":{"count","first"},"files":{...},"ops_log":{...},"threads":[...]}.
  // MB are 10^6 bytes. Kinds that did not happen are absent; ack_us and unacknowledged are there
  // where something synced. fs_mark's work: ack_us is of files, see file_ns.
  nlohmann::json workload;
  // fs_mark's work: how long each file took from its open until it was on disk, to 0.8 %.
  std::vector<uint64_t> file_ns;
  std::optional<ProbeResult> probe;
  std::optional<nlohmann::ordered_json> fio;  // see fio_json.h; where the scenario asked for it
  uint64_t errors = 0;
  std::string first_error;
};

// Between the load's process and its parent.
nlohmann::json to_message(const Load::Results& results);
WorkloadResult from_message(const nlohmann::json& message);

// The report's "probe": {"path","latency_us":{dist},"submit_us":{dist},"complete_us":{dist},
// "requests":[{"at_us","us","submit_us","complete_us"}]}. at_us counts from `base_ns`; a request
// that failed has an "error" and is in no distribution.
nlohmann::json probe_json(const ProbeResult& probe, uint64_t base_ns);

// A line per request and a summary, in ioping's words.
std::string probe_text(const ProbeResult& probe);

// A few lines on what the jobs did, from WorkloadResult::workload; empty without jobs.
std::string workload_text(const nlohmann::json& workload);

}  // namespace stalltrace::workloads

#include "userspace/report/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "tests/unit/report/checks.h"
#include "tests/unit/report/samples.h"

namespace stalltrace::report {
namespace {

using Json = nlohmann::ordered_json;
using checks::ns_of;

void expect_members(const Json& object, const std::set<std::string>& names) {
  ASSERT_TRUE(object.is_object()) << object.dump();
  for (const std::string& name : names) {
    EXPECT_TRUE(object.contains(name)) << name << " is missing in " << object.dump().substr(0, 200);
  }
}

const std::set<std::string> kDist{"count", "mean", "p50", "p90", "p99", "p999", "max"};

// The member names below are typed from the contract's "Report JSON".
TEST(Json, HasEveryMemberOfTheContract) {
  Json json = to_json(samples::full_report());
  EXPECT_EQ(json["schema"], "stalltrace/1");
  expect_members(json,
                 {"schema",  "tool",   "host",  "window",   "hooks", "missing_results", "devices",
                  "ops",     "stalls", "async", "culprits", "waits", "roots",           "commits",
                  "flushes", "locks",  "probe", "workload", "loss",  "overhead"});
  expect_members(json["tool"], {"version", "command"});
  expect_members(json["host"], {"kernel", "cpus", "arch"});
  expect_members(json["window"],
                 {"start_unix_ns", "start_monotonic_ns", "duration_s", "threshold_us", "bounds"});
  expect_members(json["hooks"].back(), {"name", "method", "ok", "why"});
  expect_members(json["devices"][0], {"dev", "name", "fs", "mountpoint", "options", "write_cache"});
  expect_members(json["ops"][0], {"kind", "dev", "latency_us", "stalled", "stalled_us"});
  expect_members(json["ops"][0]["latency_us"], kDist);
  const Json& stall = json["stalls"][0];
  expect_members(stall, {"id", "kind", "pid", "tid", "comm", "dev", "ino", "path", "start_us",
                         "duration_us", "parts", "roots"});
  expect_members(stall["parts"][0], {"class", "start_us", "us", "stack", "causes"});
  expect_members(stall["parts"][0]["causes"][0],
                 {"kind", "id", "dev", "start_us", "us", "text", "sure", "causes"});
  expect_members(stall["parts"][0]["causes"][0]["causes"][0],
                 {"kind", "id", "tid", "comm", "start_us", "us", "text", "sure", "evidence"});
  expect_members(stall["roots"][0], {"cause", "dev", "us", "sure"});
  expect_members(stall["roots"][1], {"cause", "tid", "comm", "us", "sure"});
  const Json& async = json["async"][0];
  expect_members(async, {"kind", "dev", "latency_us", "parts_us", "slow"});
  for (const char* part : {"submit", "queue", "device", "complete"}) {
    expect_members(async["parts_us"][part], kDist);
  }
  expect_members(async["slow"][0], {"comm", "tid", "start_us", "duration_us", "submit_us",
                                    "queue_us", "device_us", "complete_us", "roots"});
  expect_members(json["culprits"][0], {"tid", "comm", "path", "what", "others_us", "stalls"});
  expect_members(json["waits"][0], {"class", "dev", "us", "share", "stalls"});
  expect_members(json["roots"][0], {"cause", "dev", "us", "share", "stalls"});
  expect_members(json["commits"][0],
                 {"dev", "count", "per_s", "syncs_per_commit", "phase_us", "proc_count"});
  expect_members(json["commits"][0]["syncs_per_commit"], kDist);
  expect_members(json["commits"][0]["phase_us"], {"commit.handles", "total"});
  expect_members(json["commits"][0]["phase_us"]["total"], kDist);
  expect_members(json["flushes"][0], {"dev", "count", "per_s", "callers_per_flush", "queue_us",
                                      "device_us", "diskstats_count"});
  expect_members(json["locks"][0],
                 {"class", "dev", "ino", "path", "mode", "waits", "us", "max_us", "holders"});
  expect_members(json["locks"][0]["holders"][0], {"tid", "comm", "doing", "us"});
  expect_members(json["probe"], {"latency_us", "requests"});
  expect_members(json["probe"]["requests"][0], {"at_us", "us"});
  expect_members(json["loss"],
                 {"events", "stalls", "folded_parts", "unmatched", "map_full", "missed_probes"});
  expect_members(json["overhead"],
                 {"bpf_ns", "bpf_runs", "bpf_cpu_share", "self_cpu_s", "self_rss_mib"});
}

TEST(Json, PartsCausesAndRootsAddUpToTheNanosecond) {
  for (const Report& report : {samples::mission_report(), samples::herd_report(),
                               samples::full_report(), samples::hostile_report()}) {
    Json json = to_json(report);
    ASSERT_FALSE(json["stalls"].empty());
    for (const Json& stall : json["stalls"]) checks::expect_stall_adds_up(stall);
  }
}

TEST(Json, TimesAreMicrosecondsFromTheWindowsStart) {
  Json json = to_json(samples::mission_report());
  const Json& stall = json["stalls"][0];
  EXPECT_EQ(ns_of(stall["start_us"]), 12204000000);
  EXPECT_EQ(stall["duration_us"].dump(), "1910000.345");
  EXPECT_EQ(stall["parts"][1]["us"].dump(), "50000");
  EXPECT_EQ(json["window"]["duration_s"].get<double>(), 20.0);
  const Json flushes = to_json(samples::full_report())["flushes"][0]["flush_list"];
  EXPECT_EQ(flushes[0]["start_us"], 1000000);
  EXPECT_EQ(flushes[0]["us"].dump(), "1500000.001");
  EXPECT_EQ(flushes[0]["queue_us"], 1400000);
  EXPECT_FALSE(flushes[1].contains("queue_us"));
  EXPECT_EQ(json["window"]["start_monotonic_ns"], 500000000123);
  EXPECT_EQ(json["window"]["start_unix_ns"], 1700000000123456789);
  EXPECT_EQ(json["window"]["threshold_us"], 10000);
}

TEST(Json, TimesBeforeTheWindowAreNegative) {
  Report report = samples::mission_report();
  report.stalls[0].start_ns = report.start_ns - 1500;
  report.stalls[0].cut = blame::Cut::kStart;
  Json stall = to_json(report)["stalls"][0];
  EXPECT_EQ(stall["start_us"].dump(), "-1.5");
  EXPECT_EQ(stall["cut"], "start");
}

TEST(Json, EveryNanosecondKeepsItsThreeDecimals) {
  uint64_t ns = 1;
  for (int i = 0; i < 20000; ++i) {
    EXPECT_EQ(ns_of(us_json(ns)), static_cast<int64_t>(ns));
    ns = (ns * 6364136223846793005U + 1442695040888963407U) % 90000000000000U;  // a day and an hour
  }
}

TEST(Json, SharesAddUpToOne) {
  Report report = samples::full_report();
  // Thirds and sevenths have no finite decimals.
  for (uint64_t i = 0; i < 7; ++i) {
    report.waits.push_back({kernel::WaitClass::kBlockRead, samples::kLoop0, 333333333 + i, 1});
    report.roots.push_back({blame::RootKind::kDeviceRead, samples::kLoop0, 142857142 * i, 1});
  }
  Json json = to_json(report);
  for (const char* list : {"waits", "roots"}) {
    double sum = 0;
    uint64_t whole = 0;
    for (const Json& row : json[list]) whole += static_cast<uint64_t>(ns_of(row["us"]));
    for (const Json& row : json[list]) {
      sum += row["share"].get<double>();
      double exact = static_cast<double>(ns_of(row["us"])) / static_cast<double>(whole);
      EXPECT_NEAR(row["share"].get<double>(), exact, 2e-6);
    }
    EXPECT_NEAR(sum, 1, 1e-9) << list;
  }
}

TEST(Json, WhatWasNotMeasuredIsAbsent) {
  Report report = samples::quiet_report();
  report.overhead.bpf_ns.reset();
  report.overhead.bpf_runs.reset();
  report.overhead.bpf_cpu_share.reset();
  report.commits = {CommitStats{}};
  report.flushes = {FlushStats{}};
  report.async = {AsyncStats{}};
  report.async[0].slow = {AsyncSlow{}};
  report.async[0].slow[0].start_ns = report.start_ns;
  Json json = to_json(report);
  for (const char* name : {"probe", "workload"}) EXPECT_FALSE(json.contains(name)) << name;
  for (const char* name : {"bpf_ns", "bpf_runs", "bpf_cpu_share"}) {
    EXPECT_FALSE(json["overhead"].contains(name)) << name;
  }
  for (const char* name : {"proc_count", "syncs_per_commit", "phase_us"}) {
    EXPECT_FALSE(json["commits"][0].contains(name)) << name;
  }
  for (const char* name : {"diskstats_count", "callers_per_flush", "queue_us", "device_us"}) {
    EXPECT_FALSE(json["flushes"][0].contains(name)) << name;
  }
  for (const char* name : {"submit_us", "queue_us", "device_us", "complete_us"}) {
    EXPECT_FALSE(json["async"][0]["slow"][0].contains(name)) << name;
  }
  EXPECT_FALSE(json["devices"][0].contains("journal_dev"));
  Json stall = to_json(samples::mission_report())["stalls"][0];
  for (const char* name : {"cut", "unfinished", "user_id"}) EXPECT_FALSE(stall.contains(name));
  // Lists are there even when nothing is in them: scripts iterate over them.
  EXPECT_EQ(json["stalls"], Json::array());
}

TEST(Json, EdgesOfTheWindowAreMarked) {
  Report report = samples::mission_report();
  report.stalls[0].cut = blame::Cut::kEnd;
  report.stalls[0].unfinished = true;
  Json stall = to_json(report)["stalls"][0];
  EXPECT_EQ(stall["cut"], "end");
  EXPECT_EQ(stall["unfinished"], true);
}

void expect_devices_well_formed(const Json& json) {
  static const std::regex pattern("[0-9]+:[0-9]+");
  for (const auto& [key, value] : json.items()) {
    if (key == "dev" || key == "fs_dev" || key == "journal_dev") {
      EXPECT_TRUE(std::regex_match(value.get<std::string>(), pattern)) << value.dump();
    }
    if (value.is_structured()) expect_devices_well_formed(value);
  }
}

TEST(Json, DevicesAreMajorAndMinor) {
  Report report = samples::full_report();
  report.devices[0].journal_dev = kernel::make_kdev(253, 1048575);
  Json json = to_json(report);
  expect_devices_well_formed(json);
  EXPECT_EQ(json["stalls"][0]["dev"], "7:0");
  EXPECT_EQ(json["devices"][0]["journal_dev"], "253:1048575");
}

TEST(Json, HostileNamesLeaveItValid) {
  std::string text = json_text(samples::hostile_report());
  std::vector<uint32_t> codes;
  ASSERT_TRUE(checks::decode_utf8(text, codes));
  for (uint32_t code : codes) EXPECT_TRUE(code >= 0x20 || code == '\n') << code;
  Json read = Json::parse(text);
  EXPECT_EQ(read, to_json(samples::hostile_report()));
  // What is valid stays as it is; U+FFFD stands for each byte that is not.
  EXPECT_EQ(read["stalls"][0]["comm"], "\x1b[31mred\x07\uFFFD\uFFFD\uFFFD");
}

TEST(Json, InfinityIsNull) {
  Report report = samples::mission_report();
  report.workload = {{"rate", INFINITY}, {"list", {NAN}}};
  Json json = to_json(report);
  EXPECT_TRUE(json["workload"]["rate"].is_null());
  EXPECT_TRUE(json["workload"]["list"][0].is_null());
}

}  // namespace
}  // namespace stalltrace::report

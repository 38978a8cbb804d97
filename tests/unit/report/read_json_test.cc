#include "userspace/report/read_json.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/report/samples.h"
#include "userspace/base/error.h"
#include "userspace/report/json.h"

namespace stalltrace::report {
namespace {

using Json = nlohmann::ordered_json;

std::string error_of(std::string_view text) {
  try {
    read_json(text, "run.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(ReadJson, GivesTheSameJsonAgain) {
  for (const Report& report :
       {samples::empty_report(), samples::mission_report(), samples::herd_report(),
        samples::quiet_report(), samples::loss_report(), samples::hostile_report(),
        samples::full_report()}) {
    Json json = to_json(report);
    EXPECT_EQ(to_json(from_json(json)), json);
    EXPECT_EQ(to_json(read_json(json_text(report))).dump(), json.dump());
  }
}

TEST(ReadJson, KeepsWhatTheReportSays) {
  Report before = samples::full_report();
  before.stalls[0].user_id = 18446744073709551615U;
  before.stalls[0].home.cgroup = "/box.slice";
  before.stalls[0].home.inner_pid = 7;
  before.stalls[0].home.inner_tid = 9;
  before.stalls[0].home.inner_path = "/data/f";
  before.stalls[0].cut = blame::Cut::kStart;
  before.stalls[0].start_ns = before.start_ns - 12345;
  Report report = read_json(json_text(before));
  EXPECT_EQ(report.start_ns, before.start_ns);
  EXPECT_EQ(report.end_ns, before.end_ns);
  EXPECT_EQ(report.threshold_ns, before.threshold_ns);
  ASSERT_EQ(report.stalls.size(), before.stalls.size());
  const blame::Stall& stall = report.stalls[0];
  EXPECT_EQ(stall.user_id, before.stalls[0].user_id);
  EXPECT_EQ(stall.home.cgroup, "/box.slice");
  EXPECT_EQ(stall.home.inner_pid, 7U);
  EXPECT_EQ(stall.home.inner_tid, 9U);
  EXPECT_EQ(stall.home.inner_path, "/data/f");
  EXPECT_EQ(stall.cut, blame::Cut::kStart);
  EXPECT_EQ(stall.start_ns, before.stalls[0].start_ns);
  EXPECT_EQ(stall.ns, before.stalls[0].ns);
  EXPECT_EQ(stall.kind, wire::CALL_IO_SUBMIT);
  EXPECT_EQ(stall.parts[0].wait_class, kernel::WaitClass::kJournalLocked);
  EXPECT_EQ(stall.parts[0].causes[0].causes[0].sure, blame::Sure::kInferred);
  EXPECT_EQ(stall.parts[0].causes[0].causes[0].task.comm, "fio");
  EXPECT_EQ(stall.parts[1].root.kind, blame::RootKind::kTaskRunnable);
  EXPECT_EQ(stall.dev, samples::kLoop0);
  EXPECT_EQ(report.locks[0].write, before.locks[0].write);
  EXPECT_EQ(report.commits[0].phases.at("total").max_ns, 3300 * samples::kMs);
  EXPECT_FALSE(report.overhead.bpf_ns == std::nullopt);
}

TEST(ReadJson, RandomTimesComeBackExactly) {
  std::mt19937_64 random(4711);
  for (int i = 0; i < 300; ++i) {
    Report report = samples::mission_report();
    report.start_ns = random() % 1000000000000000U;
    report.end_ns = report.start_ns + random() % 3600000000000U;
    blame::Stall& stall = report.stalls[0];
    stall.start_ns = report.start_ns + random() % 3600000000000U;
    stall.ns = random() % 3600000000000U;
    stall.parts[0].causes[0].ns = random() % 3600000000000U;
    report.ops = {{wire::CALL_READ, samples::kLoop0,
                   model::dist_of_samples({random() % 1000000000, random() % 1000000000, 7}), 1,
                   7}};
    Json json = to_json(report);
    Report again = from_json(json);
    EXPECT_EQ(again.end_ns, report.end_ns);
    EXPECT_EQ(again.stalls[0].start_ns, stall.start_ns);
    EXPECT_EQ(again.stalls[0].ns, stall.ns);
    EXPECT_EQ(again.ops[0].latency.p50_ns, report.ops[0].latency.p50_ns);
    EXPECT_EQ(to_json(again), json);
  }
}

TEST(ReadJson, UnknownMembersAreIgnored) {
  Json json = to_json(samples::mission_report());
  Json more = json;
  more["later"] = {{"version", 2}};
  more["stalls"][0]["colour"] = "green";
  EXPECT_EQ(to_json(from_json(more)), json);
}

TEST(ReadJson, SaysWhereAndWhatIsWrong) {
  const Json good = to_json(samples::full_report());
  struct Case {
    const char* pointer;
    Json value;
    const char* where;
    const char* what;
  };
  const Case cases[] = {
      {"/schema", "stalltrace.batch/1", "schema", "stalltrace.batch/1"},
      {"/schema", 1, "schema", "not a string"},
      {"/stalls/3/parts/0/class", "journal.foo", "stalls[3].parts[0].class", "journal.foo"},
      {"/stalls/0/kind", "teleport", "stalls[0].kind", "teleport"},
      {"/stalls/0/parts/0/causes/0/sure", "perhaps", "stalls[0].parts[0].causes[0].sure",
       "perhaps"},
      {"/stalls/0/roots/0/cause", "gremlins", "stalls[0].roots[0].cause", "gremlins"},
      {"/stalls/0/dev", "sda", "stalls[0].dev", "sda"},
      {"/stalls/0/dev", "7:1048576", "stalls[0].dev", "7:1048576"},
      {"/stalls/0/duration_us", -1, "stalls[0].duration_us", "negative"},
      {"/stalls/0/duration_us", "long", "stalls[0].duration_us", "not a number"},
      {"/stalls/0/duration_us", 1e300, "stalls[0].duration_us", "microseconds"},
      {"/stalls/0/start_us", -9e14, "stalls[0].start_us", "no time of this window"},
      {"/stalls/0/tid", 4294967296, "stalls[0].tid", "4294967295"},
      {"/stalls/0/cut", "middle", "stalls[0].cut", "neither"},
      {"/stalls/0/unfinished", "yes", "stalls[0].unfinished", "neither"},
      {"/stalls", "none", "stalls", "not an array"},
      {"/stalls/1", 7, "stalls[1]", "not an object"},
      {"/ops/0/latency_us/p50", "fast", "ops[0].latency_us.p50", "not a number"},
      {"/ops/0/latency_us/count", 1.5, "ops[0].latency_us.count", "whole number"},
      {"/commits/0/phase_us", {1, 2}, "commits[0].phase_us", "not an object"},
      {"/window/duration_s", -1, "window.duration_s", "length"},
      {"/async/0/slow/0/queue_us", true, "async[0].slow[0].queue_us", "not a number"},
      {"/locks/0/holders/0/comm", {{"a", 1}}, "locks[0].holders[0].comm", "not a string"},
  };
  for (const Case& one : cases) {
    Json bad = good;
    bad[Json::json_pointer(one.pointer)] = one.value;
    std::string error = error_of(bad.dump());
    EXPECT_EQ(error.rfind("run.json: ", 0), 0U) << error;
    EXPECT_NE(error.find(one.where), std::string::npos) << error;
    EXPECT_NE(error.find(one.what), std::string::npos) << error;
  }
}

TEST(ReadJson, MissingMembersAreNamed) {
  const Json good = to_json(samples::full_report());
  for (const char* name : {"schema", "tool", "host", "window", "loss"}) {
    Json bad = good;
    bad.erase(name);
    EXPECT_NE(error_of(bad.dump()).find(name), std::string::npos);
  }
  Json bad = good;
  bad["stalls"][0].erase("duration_us");
  EXPECT_NE(error_of(bad.dump()).find("stalls[0]: 'duration_us' is missing"), std::string::npos);
}

TEST(ReadJson, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "not json", "[1,2", "{\"schema\": 1e999}", "\xff\xfe"}) {
    EXPECT_EQ(error_of(text).rfind("run.json: ", 0), 0U) << text;
  }
  EXPECT_NE(error_of("[]").find("not an object"), std::string::npos);
  EXPECT_NE(error_of("null").find("not an object"), std::string::npos);
}

TEST(ReadJson, RefusesEndlessNesting) {
  std::string deep = "{\"workload\":" + std::string(1000000, '[');
  EXPECT_NE(error_of(deep).find("nested deeper"), std::string::npos);
}

TEST(ReadJson, ErrorsCannotWriteToTheTerminal) {
  Json bad = to_json(samples::mission_report());
  bad["stalls"][0]["kind"] = "\x1b[31m\nred";
  std::string error = error_of(bad.dump());
  for (char c : error) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20) << error;
}

TEST(ReadJson, DamagedFilesNeverDoMoreThanFail) {
  const std::string good = json_text(samples::mission_report());
  std::mt19937 random(42);
  for (int i = 0; i < 800; ++i) {
    std::string text = good;
    for (int damage = 0; damage < 3; ++damage) {
      size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
      }
    }
    try {
      Report report = read_json(text);
      EXPECT_EQ(to_json(from_json(to_json(report))), to_json(report));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
    }
  }
}

}  // namespace
}  // namespace stalltrace::report

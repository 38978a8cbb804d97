#include "userspace/report/beside.h"

#include <gtest/gtest.h>

#include "userspace/base/error.h"
#include "userspace/report/batch.h"

namespace stalltrace::report {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

batching::Tally loop_of_files(uint64_t files) {
  batching::Tally tally;
  tally.ns = kSecondNs;
  tally.files = files;
  tally.syncs.with_commit = files;
  tally.commits = files;
  tally.flushes[0] = files;
  return tally;
}

batching::Rung rung_of(std::string device, unsigned threads, std::vector<uint64_t> loops) {
  batching::Rung rung{.device = std::move(device),
                      .threads = threads,
                      .setting = "",
                      .reference = "",
                      .sync = "fsync",
                      .knobs = {},
                      .bounds = {},
                      .loops = {}};
  for (uint64_t files : loops) rung.loops.push_back(loop_of_files(files));
  return rung;
}

BatchReport here() {
  BatchReport report;
  report.version = "0.1.0";
  report.host = {.kernel = "6.18.5", .arch = "x86_64", .cpu = "AMD EPYC", .cpus = 2};
  report.work = "20 files of 4 KiB per thread and loop, 3 loops, fsync";
  report.load = {.files = 20, .file_bytes = 4096};
  report.rungs = {rung_of("hdd7200", 1, {40, 40, 41}), rung_of("hdd7200", 8, {100, 101, 99})};
  return report;
}

// On 6.1, at half the rate with 8 threads.
BatchReport there() {
  BatchReport report = here();
  report.host = {.kernel = "6.1.0-50", .arch = "x86_64", .cpu = "QEMU TCG", .cpus = 1};
  report.rungs = {rung_of("hdd7200", 8, {50, 51, 49}), rung_of("hdd7200", 16, {70, 70, 70}),
                  rung_of("ssd-plp", 8, {500, 500, 500})};
  return report;
}

OtherBatch written(const BatchReport& report, const std::string& file = "/tmp/other.json") {
  return read_batch_json(to_json(report).dump(1), file);
}

std::string batch_error(std::string_view text) {
  try {
    read_batch_json(text, "x.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Beside, IsReadBackFromItsJson) {
  OtherBatch other = written(there());
  EXPECT_EQ(other.host.kernel, "6.1.0-50");
  EXPECT_EQ(other.host.cpu, "QEMU TCG");
  EXPECT_EQ(other.host.cpus, 1U);
  ASSERT_TRUE(other.load);
  EXPECT_EQ(other.load->file_bytes, 4096U);
  ASSERT_EQ(other.runs.size(), 3U);
  EXPECT_EQ(other.runs[0].device, "hdd7200");
  EXPECT_EQ(other.runs[0].threads, 8U);
  EXPECT_EQ(other.runs[0].sync, "fsync");
  EXPECT_DOUBLE_EQ(other.runs[0].files_per_s, 50);
  EXPECT_EQ(other.runs[0].loops, (std::vector<double>{50, 51, 49}));
}

TEST(Beside, IsComparedWhereDeviceModeAndThreadsAreOurs) {
  BatchReport report = here();
  report.beside = {written(there())};
  const OtherBatch& other = report.beside.front();
  EXPECT_EQ(comparisons_beside(report), 1U);
  auto effect = effect_beside(report, other.runs[0], 1);
  ASSERT_TRUE(effect);
  EXPECT_NEAR(effect->ratio, 0.5, 0.001);
  EXPECT_LT(*effect->high, 0.55);
  EXPECT_FALSE(effect_beside(report, other.runs[1], 1));  // nobody ran 16 threads here
  EXPECT_FALSE(effect_beside(report, other.runs[2], 1));  // another kind of device
  OtherRun knob = other.runs[0];
  knob.knobs["barrier"] = "0";
  EXPECT_FALSE(effect_beside(report, knob, 1));
  OtherRun group = other.runs[0];
  group.sync = "group";
  EXPECT_FALSE(effect_beside(report, group, 1));
  auto verdicts = verdicts_beside(report);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].about, "Linux 6.1.0-50, 8 threads on hdd7200");
  EXPECT_NE(verdicts[0].text.find("0.50 times as many files a second as here"), std::string::npos)
      << verdicts[0].text;
}

TEST(Beside, SaysWhereTheHostOrTheLoadIsAnother) {
  BatchReport report = here();
  BatchReport other = there();
  other.load.file_bytes = 1024;
  auto notes = notes_beside(report, written(other));
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NE(notes[0].find("another host (x86_64, 1 CPU, QEMU TCG; here x86_64, 2 CPUs, AMD EPYC)"),
            std::string::npos)
      << notes[0];
  EXPECT_NE(notes[1].find("20 files of 1 KiB each; here 20 files of 4 KiB"), std::string::npos)
      << notes[1];
  BatchReport same = here();
  same.host.kernel = "6.12.1";
  notes = notes_beside(report, written(same));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("on the same kind of host"), std::string::npos) << notes[0];
  same.rungs = {rung_of("ssd-plp", 1, {400, 400})};
  notes = notes_beside(report, written(same));
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NE(notes[1].find("none of its runs is compared"), std::string::npos) << notes[1];
}

// Before the CPU's model, the load and the rate of each loop were written.
TEST(Beside, OlderFilesHaveNoIntervalAndAnUnknownHost) {
  auto json = to_json(there());
  json["host"].erase("cpu");
  json.erase("load");
  for (auto& run : json["runs"]) run.erase("files_per_s_of_loops");
  BatchReport report = here();
  report.beside = {read_batch_json(json.dump(), "old.json")};
  auto notes = notes_beside(report, report.beside.front());
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NE(notes[0].find("is not told"), std::string::npos) << notes[0];
  auto verdicts = verdicts_beside(report);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_NE(verdicts[0].text.find("0.50 times as many"), std::string::npos) << verdicts[0].text;
  EXPECT_NE(verdicts[0].text.find("no interval"), std::string::npos) << verdicts[0].text;
}

TEST(Beside, IsInTheTableAndInTheJson) {
  BatchReport report = here();
  report.beside = {written(there())};
  std::string text = to_text(report, {.width = 120});
  for (const char* line : {
           "device   kernel    mode   1 thread  8 threads  to ours  16 threads",
           "hdd7200  6.18.5    fsync      40.3      100.0                    -",
           "hdd7200  6.1.0-50  fsync         -       50.0    x0.50        70.0",
           "ssd-plp  6.1.0-50  fsync         -      500.0                    -",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  auto json = to_json(report);
  const auto& beside = json["beside"][0];
  EXPECT_EQ(beside["label"], "6.1.0-50");
  EXPECT_EQ(beside["host"]["cpu"], "QEMU TCG");
  EXPECT_FALSE(beside["same_host"].get<bool>());
  EXPECT_NEAR(beside["runs"][0]["to_ours"].get<double>(), 0.5, 0.001);
  EXPECT_FALSE(beside["runs"][1].contains("to_ours"));
}

TEST(Beside, TwoOfOneKernelAreToldApartByTheirFiles) {
  BatchReport report = here();
  report.beside = {written(there(), "/tmp/a.json"), written(there(), "/tmp/b.json"),
                   written(here(), "mine.json")};
  EXPECT_EQ(label_of(report, report.beside[0]), "6.1.0-50 (a.json)");
  EXPECT_EQ(label_of(report, report.beside[1]), "6.1.0-50 (b.json)");
  EXPECT_EQ(label_of(report, report.beside[2]), "6.18.5 (mine.json)");
}

TEST(Beside, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(batch_error(""), "x.json: is empty");
  EXPECT_NE(batch_error("{\"a\":").find("x.json: not JSON"), std::string::npos);
  EXPECT_NE(batch_error("{}").find("is not the JSON of a batch"), std::string::npos);
  EXPECT_NE(batch_error("[]").find("is not an object"), std::string::npos);
  EXPECT_NE(batch_error(R"({"schema": "stalltrace/1"})").find("its schema is 'stalltrace/1'"),
            std::string::npos);
  auto json = to_json(there());
  json["runs"] = nlohmann::ordered_json::array();
  EXPECT_EQ(batch_error(json.dump()), "x.json: has no runs: nothing to set beside");
  json = to_json(there());
  json["runs"][0]["files_per_s"] = 0;
  EXPECT_EQ(batch_error(json.dump()), "x.json: runs[0].files_per_s: is no rate");
  json = to_json(there());
  json["runs"][1].erase("threads");
  EXPECT_NE(batch_error(json.dump()).find("'threads' is missing"), std::string::npos);
}

}  // namespace
}  // namespace stalltrace::report

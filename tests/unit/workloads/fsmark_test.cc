#include "workloads/fsmark.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>

#include "tests/unit/workloads/temp_dir.h"
#include "userspace/base/error.h"
#include "workloads/fsmark_results.h"
#include "workloads/load.h"
#include "workloads/results.h"

namespace stalltrace::workloads {
namespace {

Scenario small(const std::string& directory) {
  Scenario scenario;
  scenario.name = "fsmark";
  FsmarkSpec& spec = scenario.fsmark.emplace();
  spec.directories = {directory};
  spec.file_bytes = 20480;
  spec.files = 6;
  spec.loops = 2;
  spec.threads = 3;
  return scenario;
}

// Runs it; `look` sees the folder with the files before they are removed.
nlohmann::json run(const Scenario& scenario, const std::function<void(const std::string&)>& look,
                   std::vector<pid_t>* tids = nullptr) {
  Load load(scenario);
  EXPECT_TRUE(load.prepare(
      {.announce = [](const auto&) {}, .progress = [](uint64_t, uint64_t) { return true; }}));
  load.start();
  load.join();
  Load::Results results = load.results();
  look(results.fsmark->folders().front());
  nlohmann::json figures = fsmark_figures(results);
  for (const Worker* worker : results.workers()) {
    EXPECT_EQ(worker->errors(), 0U) << worker->first_error();
    if (tids != nullptr) tids->push_back(worker->tid());
  }
  load.remove_files();
  return figures;
}

std::vector<uint64_t> sizes_in(const std::string& folder) {
  std::vector<uint64_t> sizes;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) sizes.push_back(entry.file_size());
  }
  return sizes;
}

TEST(Fsmark, MakesEveryFileOnceAndCountsItsSyncs) {
  TempDir dir;
  std::vector<uint64_t> sizes;
  nlohmann::json figures =
      run(small(dir.path()), [&](const std::string& folder) { sizes = sizes_in(folder); });
  EXPECT_EQ(sizes, std::vector<uint64_t>(36, 20480));
  ASSERT_EQ(figures["iterations"].size(), 2U);
  EXPECT_EQ(figures["iterations"][0]["count"], 18);
  EXPECT_EQ(figures["iterations"][1]["count"], 36);  // as fs_mark counts: all so far
  EXPECT_EQ(figures["syncs"], 36);
  EXPECT_EQ(dir.files(), 0U) << "files were left behind";
}

TEST(Fsmark, EachMethodSyncsAsOftenAsFsMarkDoes) {
  const std::vector<uint64_t> syncs{0, 36, 6 + 6, 36, 36 + 6, 36, 36 + 6};
  for (unsigned method = 0; method < syncs.size(); ++method) {
    TempDir dir;
    Scenario scenario = small(dir.path());
    scenario.fsmark->method = method;
    nlohmann::json figures = run(scenario, [](const std::string&) {});
    EXPECT_EQ(figures["syncs"], syncs[method]) << "method " << method;
  }
}

TEST(Fsmark, ProcessesAreProcessesAndTheirFiguresAreOurs) {
  TempDir dir;
  Scenario scenario = small(dir.path());
  scenario.fsmark->processes = true;
  std::vector<uint64_t> sizes;
  std::vector<pid_t> tids;
  nlohmann::json figures = run(
      scenario, [&](const std::string& folder) { sizes = sizes_in(folder); }, &tids);
  EXPECT_EQ(sizes.size(), 36U);
  EXPECT_EQ(figures["syncs"], 36);
  EXPECT_EQ(std::set<pid_t>(tids.begin(), tids.end()).size(), 3U);
}

TEST(Fsmark, SubdirectoriesAreTakenInTurn) {
  TempDir dir;
  Scenario scenario = small(dir.path());
  scenario.fsmark->threads = 1;
  scenario.fsmark->loops = 1;
  scenario.fsmark->subdirs = 3;
  scenario.fsmark->files_per_subdir = 2;
  std::map<std::string, int> files;
  run(scenario, [&](const std::string& folder) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) ++files[entry.path().parent_path().filename()];
    }
  });
  EXPECT_EQ(files, (std::map<std::string, int>{{"00", 2}, {"01", 2}, {"02", 2}}));
}

TEST(Fsmark, RefusesWhatCannotBeRun) {
  FsmarkSpec spec;
  EXPECT_THROW(check_fsmark(spec, "x"), Error);  // no directory
  spec.directories = {"/tmp"};
  EXPECT_NO_THROW(check_fsmark(spec, "x"));
  spec.threads = 0;
  EXPECT_THROW(check_fsmark(spec, "x"), Error);
  spec.threads = 1;
  spec.method = 7;
  EXPECT_THROW(check_fsmark(spec, "x"), Error);
}

TEST(Fsmark, FilesWaitForTheNextSyncfsOfTheirInterval) {
  for (bool processes : {false, true}) {
    TempDir dir;
    Scenario scenario = small(dir.path());
    scenario.fsmark->sync = parse_sync_method("syncfs-every=30ms");
    scenario.fsmark->processes = processes;
    scenario.fsmark->files = 3;
    nlohmann::json figures = run(scenario, [](const std::string&) {});
    // In step: each file of the three threads is on disk with the next call.
    EXPECT_GE(figures["syncs"], 6);
    EXPECT_LE(figures["syncs"], 12);  // one that came late waits for one more
    EXPECT_EQ(figures["files_written"], 18);
    for (const nlohmann::json& iteration : figures["iterations"]) {
      EXPECT_GE(iteration["elapsed_s"], 2 * 0.030);
    }
  }
}

TEST(Fsmark, TimesEachFileUntilItIsOnDisk) {
  TempDir dir;
  Scenario scenario = small(dir.path());
  scenario.fsmark->sync = parse_sync_method("syncfs-every=20ms");
  Load load(scenario);
  ASSERT_TRUE(load.prepare(
      {.announce = [](const auto&) {}, .progress = [](uint64_t, uint64_t) { return true; }}));
  load.start();
  load.join();
  WorkloadResult result = from_message(nlohmann::json::parse(to_message(load.results()).dump()));
  EXPECT_EQ(result.file_ns.size(), 36U);
  EXPECT_EQ(result.workload["ack_us"]["count"], 36);
  // All but the first of each iteration wait for a whole interval.
  EXPECT_GT(*std::max_element(result.file_ns.begin(), result.file_ns.end()), 15'000'000U);
  load.remove_files();
}

TEST(SyncMethod, KnowsItsNamesAndItsInterval) {
  EXPECT_EQ(parse_sync_method("fsync").call, SyncCall::kFsync);
  SyncMethod method = parse_sync_method("syncfs-every=1.5ms");
  EXPECT_EQ(method.call, SyncCall::kSyncfsEvery);
  EXPECT_EQ(method.interval_ns, 1'500'000U);
  for (const char* word : {"", "fsyncs", "syncfs-every", "syncfs-every=", "syncfs-every=5",
                           "syncfs-every=0", "fsync=5ms", "syncfs-every=-1ms"}) {
    EXPECT_THROW(parse_sync_method(word), Error) << word;
  }
}

// Whoever comes while a call is under way needs the next one: its data was not there yet.
TEST(SharedSync, ACallServesThoseWhoCameBeforeItBegan) {
  SharedSync shared;
  std::atomic<int> calls = 0;
  auto slow = [&] {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return 0;
  };
  std::thread first([&] { shared.lead_or_follow(slow); });
  while (calls == 0) std::this_thread::yield();
  std::vector<std::thread> later;
  for (int i = 0; i < 4; ++i) later.emplace_back([&] { shared.lead_or_follow(slow); });
  first.join();
  for (std::thread& thread : later) thread.join();
  EXPECT_EQ(calls, 2);
}

TEST(SharedSync, AFollowerIsNotServedByACallUnderWay) {
  SharedSync shared;
  std::atomic<bool> begun = false;
  std::atomic<bool> may_end = false;
  std::atomic<bool> served = false;
  std::thread leader([&] {
    shared.lead([&] {
      begun = true;
      while (!may_end) std::this_thread::yield();
      return 0;
    });
  });
  while (!begun) std::this_thread::yield();
  std::thread follower([&] {
    EXPECT_EQ(shared.follow(), -EIO);
    served = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  may_end = true;
  leader.join();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(served);
  EXPECT_EQ(shared.lead([] { return -EIO; }), -EIO);
  follower.join();
  // What was lost then, no later call brings back.
  EXPECT_EQ(shared.lead([] { return 0; }), -EIO);
}

}  // namespace
}  // namespace stalltrace::workloads

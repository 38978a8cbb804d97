#include "workloads/osync.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/workloads/temp_dir.h"
#include "userspace/base/error.h"
#include "workloads/load.h"

namespace stalltrace::workloads {
namespace {

Scenario osync_in(const std::string& directory) {
  Scenario scenario;
  scenario.name = "osync";
  OsyncSpec& spec = scenario.osync.emplace();
  spec.directory = directory;
  spec.size_bytes = 256 * 1024;
  spec.threads = 3;
  spec.runtime_ns = 50'000'000;
  spec.live = std::make_shared<LiveCounts>();
  return scenario;
}

LayoutHooks silent_hooks() {
  return {.announce = [](const auto&) {}, .progress = [](uint64_t, uint64_t) { return true; }};
}

// A file system without direct I/O cannot run it at all.
class Osync : public testing::TestWithParam<WriteEngine> {};

TEST_P(Osync, CountsEveryWriteOfEveryThread) {
  TempDir dir;
  Scenario scenario = osync_in(dir.path());
  scenario.osync->engine = GetParam();
  if (GetParam() != WriteEngine::kPsync) scenario.osync->iodepth = 4;
  scenario.osync->sync =
      GetParam() == WriteEngine::kPsync ? WriteSync::kODsync : WriteSync::kRwfDsync;
  Load load(scenario);
  try {
    ASSERT_TRUE(load.prepare(silent_hooks()));
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  load.start();
  load.join();
  const Load::Results results = load.results();
  for (const Worker* worker : results.workers()) {
    EXPECT_EQ(worker->errors(), 0U) << worker->first_error();
  }
  const nlohmann::json figures = results.extra->figures(results.end_ns - results.start_ns);
  const uint64_t writes = figures.at("writes");
  EXPECT_GT(writes, 0U);
  EXPECT_EQ(figures.at("bytes_written"), writes * scenario.osync->block_bytes);
  EXPECT_EQ(scenario.osync->live->writes(), writes);
  EXPECT_EQ(scenario.osync->live->bytes(), writes * scenario.osync->block_bytes);
  uint64_t by_thread = 0;
  for (const auto& share : figures.at("writes_by_thread")) by_thread += share.get<uint64_t>();
  EXPECT_EQ(by_thread, writes);
  load.remove_files();
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

INSTANTIATE_TEST_SUITE_P(Engines, Osync,
                         testing::Values(WriteEngine::kPsync, WriteEngine::kLibaio,
                                         WriteEngine::kIoUring));

TEST(OsyncOptions, WhatCannotBeRunIsRefused) {
  const auto refused = [](const std::function<void(OsyncSpec&)>& change) {
    OsyncSpec spec;
    spec.directory = "/tmp";
    spec.size_bytes = 1 << 20;
    change(spec);
    try {
      check_osync(spec, "osync");
    } catch (const Error& error) {
      return error.code() == ExitCode::kUsage;
    }
    return false;
  };
  EXPECT_FALSE(refused([](OsyncSpec&) {}));
  EXPECT_TRUE(refused([](OsyncSpec& spec) { spec.directory.clear(); }));
  EXPECT_TRUE(refused([](OsyncSpec& spec) { spec.device = "/dev/sdx"; }));
  EXPECT_TRUE(refused([](OsyncSpec& spec) { spec.threads = 0; }));
  EXPECT_TRUE(refused([](OsyncSpec& spec) { spec.block_bytes = 1000; }));
  EXPECT_TRUE(refused([](OsyncSpec& spec) { spec.iodepth = 2; }));
  EXPECT_TRUE(refused([](OsyncSpec& spec) { spec.threads = 300; }));
}

}  // namespace
}  // namespace stalltrace::workloads

#include "workloads/dio_cell.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/workloads/temp_dir.h"
#include "userspace/base/error.h"
#include "workloads/load.h"

namespace stalltrace::workloads {
namespace {

LayoutHooks silent_hooks() {
  return {.announce = [](const auto&) {}, .progress = [](uint64_t, uint64_t) { return true; }};
}

uint64_t blocks_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return static_cast<uint64_t>(status.st_blocks);
}

// Runs the cell on a file of 1 MiB; the figures.
nlohmann::json run_on_file(const std::string& path, DioTest test, DioWriters writers) {
  Scenario scenario;
  scenario.name = "dio-matrix";
  scenario.dio_cell = {.path = path,
                       .bytes = 1 << 20,
                       .block_bytes = 4096,
                       .threads = 2,
                       .test = test,
                       .writers = writers,
                       .runtime_ns = 30'000'000};
  Load load(scenario);
  EXPECT_TRUE(load.prepare(silent_hooks()));
  load.start();
  load.join();
  for (const Worker* worker : load.results().workers()) {
    EXPECT_EQ(worker->errors(), 0U) << worker->first_error();
  }
  return load.results().extra->figures(0);
}

TEST(DioCell, TheFileIsThereAsLongAsItsScenarioAndInItsState) {
  TempDir dir;
  for (DioLayout layout : {DioLayout::kWritten, DioLayout::kFallocated, DioLayout::kSparse}) {
    Scenario scenario;
    scenario.dio_file = {.path = dir.file("file"), .bytes = 1 << 20, .layout = layout};
    Load load(scenario);
    ASSERT_TRUE(load.prepare(silent_hooks()));
    EXPECT_EQ(std::filesystem::file_size(dir.file("file")), 1U << 20);
    EXPECT_EQ(blocks_of(dir.file("file")) == 0, layout == DioLayout::kSparse);
    load.remove_files();
    EXPECT_EQ(dir.files(), 0U);
  }
}

TEST(DioCell, AFileThatIsNotOursIsNotTouched) {
  TempDir dir;
  std::ofstream(dir.file("file")) << std::string(1 << 20, 'x');
  Scenario scenario;
  scenario.dio_file = {.path = dir.file("file"), .bytes = 1 << 20};
  Load load(scenario);
  EXPECT_THROW(load.prepare(silent_hooks()), Error);
  EXPECT_EQ(std::filesystem::file_size(dir.file("file")), 1U << 20);
}

TEST(DioCell, EachTestCountsItsOwnKindsOnly) {
  TempDir dir;
  if (!dir.has_direct_io()) GTEST_SKIP() << "no direct I/O here";
  std::ofstream(dir.file("file")) << std::string(1 << 20, 'x');
  for (DioTest test : {DioTest::kRead, DioTest::kRandRead, DioTest::kWrite, DioTest::kRandWrite,
                       DioTest::kMixed}) {
    const nlohmann::json figures = run_on_file(dir.file("file"), test, DioWriters::kDirect);
    const DioCellSpec cell{.path = {}, .test = test};
    EXPECT_EQ(figures.at("reads").get<uint64_t>() > 0, cell.reads()) << dio_test_name(test);
    EXPECT_EQ(figures.at("writes").get<uint64_t>() > 0, cell.writes()) << dio_test_name(test);
    EXPECT_EQ(figures.at("bytes_read"), figures.at("reads").get<uint64_t>() * 4096);
    EXPECT_EQ(figures.at("read_mb_per_s").get<double>() > 0, cell.reads());
    EXPECT_EQ(std::filesystem::file_size(dir.file("file")), 1U << 20) << "overwrites only";
  }
}

TEST(DioCell, ExtendingWritersLetTheFileGrowButNotForever) {
  TempDir dir;
  if (!dir.has_direct_io()) GTEST_SKIP() << "no direct I/O here";
  std::ofstream(dir.file("file")) << std::string(1 << 20, 'x');
  run_on_file(dir.file("file"), DioTest::kWrite, DioWriters::kExtending);
  const uint64_t size = std::filesystem::file_size(dir.file("file"));
  EXPECT_GT(size, 1U << 20);
  EXPECT_LE(size, 2U << 20);
}

TEST(DioCell, MoreThreadsThanBlocksAreRefused) {
  TempDir dir;
  if (!dir.has_direct_io()) GTEST_SKIP() << "no direct I/O here";
  std::ofstream(dir.file("file")) << std::string(8192, 'x');
  Scenario scenario;
  scenario.dio_cell = {.path = dir.file("file"), .bytes = 8192, .threads = 3};
  Load load(scenario);
  EXPECT_THROW(load.prepare(silent_hooks()), Error);
}

}  // namespace
}  // namespace stalltrace::workloads

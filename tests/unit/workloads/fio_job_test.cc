#include "workloads/fio_job.h"

#include <gtest/gtest.h>

#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

std::vector<JobSpec> parse(const std::string& text, const JobOverrides& overrides = {}) {
  return parse_fio_job(text, "test.fio", overrides);
}

std::string error_of(const std::string& text, const JobOverrides& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "no error";
}

void expect_error(const std::string& text, const std::string& where, const std::string& what) {
  std::string error = error_of(text);
  EXPECT_EQ(error.substr(0, where.size()), where) << error;
  EXPECT_NE(error.find(what), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

constexpr const char* kChunkServer = R"(# Chunk server
[global]
ioengine=libaio
rw=randwrite
bs=128k
size=128m
directory=/mnt/

[aio-dio-write]
ioengine=libaio
iodepth=32
numjobs=32
verify=0
direct=1
#buffered=1
bs=64k
rw=randwrite
fdatasync=32
runtime=300
time_based
)";

TEST(FioJob, ChunkServerFile) {
  std::vector<JobSpec> jobs = parse(kChunkServer);
  ASSERT_EQ(jobs.size(), 1U);
  const JobSpec& job = jobs[0];
  EXPECT_EQ(job.name, "aio-dio-write");
  EXPECT_EQ(job.engine, Engine::kLibaio);
  EXPECT_EQ(job.pattern, Pattern::kRandWrite);
  EXPECT_EQ(job.block_bytes, 65536U);  // the job's, not the global one
  EXPECT_EQ(job.size_bytes, 134217728U);
  EXPECT_EQ(job.iodepth, 32U);
  EXPECT_EQ(job.jobs, 32U);
  EXPECT_TRUE(job.direct);
  EXPECT_TRUE(job.time_based);
  EXPECT_EQ(job.fdatasync_every, 32U);
  EXPECT_EQ(job.fsync_every, 0U);
  EXPECT_EQ(job.runtime_ns, 300'000'000'000U);
  EXPECT_EQ(job.fill, Fill::kPreallocate);
  EXPECT_EQ(job.path(0), "/mnt/aio-dio-write.0.0");
  EXPECT_EQ(job.path(31), "/mnt/aio-dio-write.31.0");
}

TEST(FioJob, OverridesWin) {
  JobSpec job = parse(
      kChunkServer,
      {.directory = "/tmp/x", .runtime_ns = 20'000'000'000, .jobs = 8, .size_bytes = 1 << 20})[0];
  EXPECT_EQ(job.path(7), "/tmp/x/aio-dio-write.7.0");
  EXPECT_EQ(job.runtime_ns, 20'000'000'000U);
  EXPECT_EQ(job.jobs, 8U);
  EXPECT_EQ(job.size_bytes, 1U << 20U);
}

TEST(FioJob, DefaultsAreFios) {
  JobSpec job = parse("[j]\nsize=1m\n")[0];
  EXPECT_EQ(job.engine, Engine::kPsync);
  EXPECT_EQ(job.pattern, Pattern::kRead);
  EXPECT_EQ(job.block_bytes, 4096U);
  EXPECT_EQ(job.iodepth, 1U);
  EXPECT_EQ(job.jobs, 1U);
  EXPECT_FALSE(job.direct);
  EXPECT_FALSE(job.time_based);
  EXPECT_EQ(job.fill, Fill::kWrite);  // it is read
  EXPECT_EQ(job.path(0), "./j.0.0");
}

TEST(FioJob, CommentsSpacesAndBareKeys) {
  JobSpec job = parse(
      "; comment\r\n  # another\n\n[ j ]\n  size = 1m  ; the size\ndirect\nthread\n"
      "group_reporting=1\nbs=8k#no space\nbuffered=0\n")[0];
  EXPECT_EQ(job.size_bytes, 1048576U);
  EXPECT_EQ(job.block_bytes, 8192U);
  EXPECT_TRUE(job.direct);
}

TEST(FioJob, TheLastOfTwoKeysWins) {
  JobSpec job = parse("[j]\nsize=1m\nbs=4k\nbs=16k\ndirect=1\nbuffered=1\n")[0];
  EXPECT_EQ(job.block_bytes, 16384U);
  EXPECT_FALSE(job.direct);
}

TEST(FioJob, GlobalHoldsForWhatFollows) {
  std::vector<JobSpec> jobs =
      parse("[global]\nsize=1m\nbs=4k\n[a]\n[global]\nbs=8k\n[b]\nrw=randrw\nrwmixwrite=30\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].block_bytes, 4096U);
  EXPECT_EQ(jobs[1].block_bytes, 8192U);
  EXPECT_EQ(jobs[1].read_percent, 70U);
  EXPECT_EQ(jobs[1].pattern, Pattern::kRandReadWrite);
}

TEST(FioJob, FilenameIsShared) {
  JobSpec job = parse("[j]\nsize=1m\ndirectory=/d\nfilename=data\nnumjobs=4\n")[0];
  EXPECT_EQ(job.path(0), "/d/data");
  EXPECT_EQ(job.path(3), "/d/data");
}

TEST(FioJob, SynchronousEnginesHaveNoDepth) {
  EXPECT_EQ(parse("[j]\nsize=1m\nioengine=sync\niodepth=32\n")[0].iodepth, 1U);
}

TEST(FioJob, ErrorsNameFileLineAndKey) {
  expect_error("[j]\nsize=1m\nrate_iops=100\n", "test.fio:3: ", "'rate_iops'");
  expect_error("[j]\nsize=1m\n\nDirect=1\n", "test.fio:4: ", "'Direct'");
  expect_error("[j]\nstonewall\n", "test.fio:2: ", "'stonewall'");
  expect_error("[j]\nsize=1m\nbs=4x\n", "test.fio:3: ", "bs=4x");
  expect_error("[j]\nsize=1m\nbs=4k,8k\n", "test.fio:3: ", "bs=4k,8k");
  expect_error("[j]\nsize=50%\n", "test.fio:2: ", "size=50%");
  expect_error("[j]\nsize=-4k\n", "test.fio:2: ", "size=-4k");
  expect_error("[j]\nsize=\n", "test.fio:2: ", "needs a value");
  expect_error("[j]\nsize\n", "test.fio:2: ", "needs a value");
  expect_error("[j]\nsize=1m\nioengine=mmap\n", "test.fio:3: ", "ioengine=mmap");
  expect_error("[j]\nsize=1m\nrw=trim\n", "test.fio:3: ", "rw=trim");
  expect_error("[j]\nsize=1m\nverify=crc32c\n", "test.fio:3: ", "verify=crc32c");
  expect_error("[j]\nsize=1m\ndirect=2\n", "test.fio:3: ", "direct=2");
  expect_error("[j]\nsize=1m\niodepth=x\n", "test.fio:3: ", "iodepth=x");
  expect_error("[j]\nsize=1m\nrwmixread=101\n", "test.fio:3: ", "rwmixread=101");
  expect_error("[j]\nsize=1m\nruntime=5sec\n", "test.fio:3: ", "runtime=5sec");
  expect_error("[j]\nsize=1m\ndirectory=${HOME}\n", "test.fio:3: ", "variables");
  expect_error("[j]\nsize=1m\nfilename=/dev/sda\n", "test.fio:3: ", "filename=/dev/sda");
  expect_error("[j]\nsize=1m\nfilename=a:b\n", "test.fio:3: ", "filename=a:b");
  expect_error("size=1m\n", "test.fio:1: ", "before any [section]");
  expect_error("[j\nsize=1m\n", "test.fio:1: ", "[j");
  expect_error("[a/b]\nsize=1m\n", "test.fio:1: ", "a/b");
}

TEST(FioJob, ErrorsOfAWholeJobNameItsSection) {
  expect_error("\n[j]\nbs=4k\n", "test.fio:2: job [j]", "size");
  expect_error("[j]\nsize=1m\ntime_based\n", "test.fio:1: job [j]", "runtime");
  expect_error("[j]\nsize=1k\n", "test.fio:1: job [j]", "block");
  expect_error("[j]\nsize=1m\nbs=1000\ndirect=1\n", "test.fio:1: job [j]", "512");
  expect_error("[j]\nsize=1m\nnumjobs=0\n", "test.fio:1: job [j]", "jobs");
  expect_error("[j]\nsize=1m\niodepth=5000\nioengine=libaio\n", "test.fio:1: job [j]", "depth");
  expect_error("[global]\nsize=1m\n", "test.fio: ", "no job section");
  expect_error("", "test.fio: ", "no job section");
  expect_error("[j]\nsize=1m\n[j]\nsize=2m\n", "test.fio: ", "different sizes");
}

TEST(FioJob, AMissingFileIsAUsageError) {
  try {
    read_fio_job("/nonexistent/x.fio", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/x.fio"), std::string::npos);
  }
}

// Compared with `fio --parse-only --debug=parse` of fio 3.33.
TEST(FioUnits, SizesAreFios) {
  EXPECT_EQ(parse_fio_size("4"), 4U);
  EXPECT_EQ(parse_fio_size("4b"), 4U);
  EXPECT_EQ(parse_fio_size("4k"), 4096U);
  EXPECT_EQ(parse_fio_size("4K"), 4096U);
  EXPECT_EQ(parse_fio_size("4kB"), 4096U);
  EXPECT_EQ(parse_fio_size("4Ki"), 4096U);
  EXPECT_EQ(parse_fio_size("4KiB"), 4000U);
  EXPECT_EQ(parse_fio_size("4m"), 4194304U);
  EXPECT_EQ(parse_fio_size("4mib"), 4000000U);
  EXPECT_EQ(parse_fio_size("1t"), 1099511627776U);
  EXPECT_EQ(parse_fio_size("99999999999t"), std::nullopt);
  EXPECT_EQ(parse_fio_size("1.5m"), std::nullopt);
  EXPECT_EQ(parse_fio_size("4 k"), std::nullopt);
  EXPECT_EQ(parse_fio_size(""), std::nullopt);
}

TEST(FioUnits, TimesAreFios) {
  EXPECT_EQ(parse_fio_time_ns("5"), 5'000'000'000U);
  EXPECT_EQ(parse_fio_time_ns("5s"), 5'000'000'000U);
  EXPECT_EQ(parse_fio_time_ns("5m"), 300'000'000'000U);
  EXPECT_EQ(parse_fio_time_ns("100ms"), 100'000'000U);
  EXPECT_EQ(parse_fio_time_ns("5us"), 5'000U);
  EXPECT_EQ(parse_fio_time_ns("1d"), 86'400'000'000'000U);
  EXPECT_EQ(parse_fio_time_ns("5min"), std::nullopt);
}

}  // namespace
}  // namespace stalltrace::workloads

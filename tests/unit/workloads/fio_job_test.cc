#include "workloads/fio_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

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
  expect_error("[j]\nsize=1m\niomem=mmap\n", "test.fio:3: ", "'iomem'");
  expect_error("[j]\nsize=1m\n\nDirect=1\n", "test.fio:4: ", "'Direct'");
  expect_error("[j]\nsize=1m\nbs=4x\n", "test.fio:3: ", "bs=4x");
  expect_error("[j]\nsize=1m\nbs=4k,8k,1k,1k\n", "test.fio:3: ", "three parts");
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
  expect_error("[j]\nsize=1m\ndirectory=${ST_NOT_SET}\n", "test.fio:3: ", "ST_NOT_SET");
  expect_error("[j]\nsize=1m\ndirectory=${HOME\n", "test.fio:3: ", "without its '}'");
  expect_error("[j]\nsize=(64*1024)\n", "test.fio:2: ", "parentheses");
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
  expect_error("[j]\nsize=1m\ncreate_on_open=1\n", "test.fio:1: job [j]", "nothing to read");
  expect_error("[j]\nsize=1m\nhipri\nioengine=pvsync2\n", "test.fio:1: job [j]", "direct");
  expect_error("[j]\nsize=1m\nnowait\nioengine=psync\n", "test.fio:1: job [j]", "nowait");
  expect_error("[j]\nsize=1m\nfixedbufs\nioengine=libaio\n", "test.fio:1: job [j]", "io_uring");
  expect_error("[j]\nsize=1m\nnrfiles=0\n", "test.fio:1: job [j]", "files");
  expect_error("[a]\nsize=1m\nnumjobs=4000\n[b]\nsize=1m\nnumjobs=4000\n",
               "test.fio: ", "8000 threads");
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

TEST(FioJob, BlockSizesOfEachDirection) {
  JobSpec job = parse("[j]\nsize=1m\nrw=randrw\nbs=4k,16k\n")[0];
  EXPECT_EQ(job.min_block(false), 4096U);
  EXPECT_EQ(job.max_block(true), 16384U);
  job = parse("[j]\nsize=1m\nrw=randrw\nbs=,16k\n")[0];
  EXPECT_EQ(job.max_block(false), 4096U);
  EXPECT_EQ(job.max_block(true), 16384U);
  job = parse("[j]\nsize=1m\nrw=randrw\nbsrange=1k-8k,16k-64k\n")[0];
  EXPECT_EQ(job.min_block(false), 1024U);
  EXPECT_EQ(job.max_block(false), 8192U);
  EXPECT_EQ(job.max_block(), 65536U);
  job = parse("[j]\nsize=1m\nrw=randwrite\nbssplit=4k/50:64k/:8k/30:16k/\n")[0];
  ASSERT_EQ(job.blocks[1].split.size(), 4U);
  EXPECT_EQ(job.blocks[1].split[1].percent, 10U);
  EXPECT_EQ(job.blocks[1].split[3].percent, 10U);
  EXPECT_EQ(job.min_block(true), 4096U);
  EXPECT_EQ(job.max_block(true), 65536U);
  // The last of two that say different things wins, whatever its key.
  job = parse("[j]\nsize=1m\nbssplit=4k/50:64k/50\nbs=8k\n")[0];
  EXPECT_EQ(job.block_bytes, 8192U);
  EXPECT_EQ(job.max_block(), 8192U);
  expect_error("[j]\nsize=1m\nbssplit=4k/60:8k/60\n", "test.fio:3: ", "more than 100");
  expect_error("[j]\nsize=1m\nbssplit=4k/60:8k/20\n", "test.fio:3: ", "less than 100");
  expect_error("[j]\nsize=1m\nbsrange=8k-4k\n", "test.fio:3: ", "below its beginning");
}

TEST(FioJob, FilesOfAJob) {
  JobSpec job = parse("[j]\nsize=4m\nnrfiles=4\ndirectory=/d\nnumjobs=2\n")[0];
  std::vector<JobFile> files = job_files(job, 1);
  ASSERT_EQ(files.size(), 4U);
  EXPECT_EQ(files[3].path, "/d/j.1.3");
  EXPECT_EQ(files[3].bytes, 1048576U);
  job = parse("[j]\nsize=4m\nnrfiles=2\nfilename_format=f-$filenum-of-$jobname.$jobnum\n")[0];
  EXPECT_EQ(job_files(job, 3)[1].path, "./f-1-of-j.3");
  job = parse("[j]\nsize=4m\ndirectory=/d\nfilename=a:b\\:c\noffset=1m\noffset_increment=1m\n")[0];
  files = job_files(job, 2);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[1].path, "/d/b:c");
  EXPECT_EQ(files[1].begin, 3U << 20U);
  EXPECT_EQ(files[1].bytes, 2U << 20U);
  job = parse("[j]\nsize=4m\nfilename=/srv/x/data\n")[0];
  EXPECT_EQ(job.directory, "/srv/x");
  EXPECT_EQ(job.path(5), "/srv/x/data");
  job = parse("[j]\nnrfiles=3\nfilesize=64k-256k\n")[0];
  for (const JobFile& file : job_files(job, 0)) {
    EXPECT_GE(file.bytes, 65536U);
    EXPECT_LE(file.bytes, 262144U);
  }
  EXPECT_EQ(job_files(job, 0)[1].bytes, job_files(job, 0)[1].bytes) << "the same each time";
}

TEST(FioJob, PhasesAndGroups) {
  std::vector<JobSpec> jobs =
      parse("[global]\nsize=1m\ngroup_reporting\n[a]\n[b]\n[c]\nstonewall\n[d]\nnew_group\n");
  ASSERT_EQ(jobs.size(), 4U);
  EXPECT_EQ(jobs[1].phase, 0U);
  EXPECT_EQ(jobs[2].phase, 1U);
  EXPECT_EQ(jobs[3].phase, 1U);
  EXPECT_EQ(jobs[1].report_group, 0U);
  EXPECT_EQ(jobs[2].report_group, 1U);
  EXPECT_EQ(jobs[3].report_group, 2U);
  EXPECT_EQ(jobs[2].options,
            (std::vector<std::pair<std::string, std::string>>{{"stonewall", "1"}}));
  EXPECT_EQ(jobs[2].global_options.size(), 2U);
}

TEST(FioJob, PaceAndTime) {
  JobSpec job = parse(
      "[j]\nsize=1m\nrw=randrw\nrate=1m,512k\nrate_iops=,50\nthinktime=200\nthinktime_spin=1ms\n"
      "thinktime_blocks=8\nstartdelay=1-3\nramp_time=2\nloops=3\nrate_process=poisson\n")[0];
  EXPECT_EQ(job.rate_bytes[0], 1048576U);
  EXPECT_EQ(job.rate_bytes[1], 524288U);
  EXPECT_EQ(job.rate_ios[0], 0U);
  EXPECT_EQ(job.rate_ios[1], 50U);
  EXPECT_EQ(job.think_ns, 200'000U);
  EXPECT_EQ(job.think_spin_ns, 1'000'000U);
  EXPECT_EQ(job.think_blocks, 8U);
  EXPECT_EQ(job.start_delay_ns, 1'000'000'000U);
  EXPECT_EQ(job.start_delay_max_ns, 3'000'000'000U);
  EXPECT_EQ(job.ramp_ns, 2'000'000'000U);
  EXPECT_EQ(job.loops, 3U);
  EXPECT_TRUE(job.rate_poisson);
}

TEST(FioJob, SyncsAndLayouts) {
  JobSpec job = parse(
      "[j]\nsize=1m\nrw=write\nsync=dsync\nfsync=4\nend_fsync\nfsync_on_close=1\n"
      "sync_file_range=wait_before,write:8\nfallocate=none\nfile_append=1\n")[0];
  EXPECT_EQ(job.open_sync, OpenSync::kDsync);
  EXPECT_EQ(job.range_sync_every, 8U);
  EXPECT_EQ(job.range_sync_flags, 3U);
  EXPECT_EQ(job.fill, Fill::kNone);
  EXPECT_TRUE(job.append);
  EXPECT_TRUE(job.syncs_itself());
  EXPECT_EQ(parse("[j]\nsize=1m\nrw=write\noverwrite=1\n")[0].fill, Fill::kWrite);
  EXPECT_EQ(parse("[j]\nsize=1m\nrw=write\nfallocate=keep\n")[0].fill, Fill::kKeepSize);
  EXPECT_EQ(parse("[j]\nsize=1m\nrw=write\ncreate_on_open=1\n")[0].fill, Fill::kNone);
}

TEST(FioJob, DepthsAndBatches) {
  JobSpec job = parse(
      "[j]\nsize=1m\nioengine=io_uring\niodepth=16\niodepth_batch=32\n"
      "iodepth_batch_complete_min=4\niodepth_batch_complete_max=2\niodepth_low=8\n"
      "sqthread_poll\nregisterfiles=1\nfixedbufs\nsqthread_poll_cpu=1\n")[0];
  EXPECT_EQ(job.batch, 16U);
  EXPECT_EQ(job.reap_min, 4U);
  EXPECT_EQ(job.reap_max, 4U);
  EXPECT_EQ(job.depth_low, 8U);
  EXPECT_TRUE(job.uring.sq_poll && job.uring.fixed_files && job.uring.fixed_buffers);
  EXPECT_EQ(job.uring.sq_cpu, 1);
}

TEST(FioJob, Distributions) {
  JobSpec job = parse("[j]\nsize=1m\nrw=randread\nrandom_distribution=zipf:1.2\n")[0];
  EXPECT_EQ(job.skew, Skew::kZipf);
  EXPECT_DOUBLE_EQ(job.skew_by, 1.2);
  EXPECT_EQ(parse("[j]\nsize=1m\nrandom_distribution=pareto:0.3\n")[0].skew, Skew::kPareto);
  EXPECT_EQ(parse("[j]\nsize=1m\nrandom_distribution=normal:20\n")[0].skew, Skew::kNormal);
  expect_error("[j]\nsize=1m\nrandom_distribution=zipf:1\n", "test.fio:3: ", "theta");
  expect_error("[j]\nsize=1m\nrandom_distribution=zoned:60/10\n", "test.fio:3: ", "not built in");
}

TEST(FioJob, Variables) {
  ASSERT_EQ(setenv("ST_TEST_SIZE", "3m", 1), 0);
  JobSpec job = parse("[j]\nsize=${ST_TEST_SIZE}\nfilename_format=$jobname-${ST_TEST_SIZE}\n")[0];
  EXPECT_EQ(job.size_bytes, 3U << 20U);
  EXPECT_EQ(job.path(0), "./j-3m");
  EXPECT_EQ(parse("[j]\nsize=1m\nnumjobs=$ncpus\n")[0].jobs,
            static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)));
}

TEST(FioJob, WhatIsRefusedSaysWhy) {
  for (const char* line :
       {"exitall", "ignore_error=EAGAIN", "write_lat_log=x", "cpus_allowed=0", "verify=md5",
        "rw=randtrim", "rw=read:8", "size=50%", "offset=10%", "include=x.fio", "latency_target=1",
        "buffer_pattern=0x00", "ioengine=posixaio", "kb_base=1000", "unified_rw_reporting=1"}) {
    expect_error(fmt::format("[j]\nsize=1m\n{}\n", line), "test.fio:3: ", std::string(line));
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

// Job files run as they say: each by what the load's own log and its files show afterwards.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/unit/workloads/temp_dir.h"
#include "userspace/base/error.h"
#include "workloads/fio_job.h"
#include "workloads/process.h"

namespace stalltrace::workloads {
namespace {

struct LoggedOp {
  uint64_t id, start_ns, end_ns, reap_from_ns;
  int64_t result;
  std::string kind;
  pid_t tid;
};

struct JobRun {
  nlohmann::json workload;
  nlohmann::ordered_json fio;
  std::vector<LoggedOp> ops;
  std::map<std::string, uint64_t> sizes;  // of the files, by name, before they were removed

  [[nodiscard]] uint64_t count(const std::string& kind) const {
    return static_cast<uint64_t>(
        std::count_if(ops.begin(), ops.end(), [&](const auto& op) { return op.kind == kind; }));
  }
  [[nodiscard]] uint64_t longest_gap_ns(const std::string& kind) const {
    uint64_t last = 0;
    uint64_t longest = 0;
    for (const LoggedOp& op : ops) {
      if (op.kind != kind) continue;
      if (last > 0 && op.start_ns > last) longest = std::max(longest, op.start_ns - last);
      last = op.end_ns;
    }
    return longest;
  }
};

class JobRunTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!dir_.has_direct_io()) {
      GTEST_SKIP() << dir_.path() << " has no direct I/O: set TMPDIR to a directory that has";
    }
  }

  JobRun run(const std::string& text) {
    Scenario scenario;
    scenario.name = "job";
    scenario.jobs = parse_fio_job(text, "test.fio", {.directory = dir_.path()});
    scenario.ops_log = {.path = dir_.file("ops.csv"), .floor_ns = 0};
    scenario.fio_json = true;
    WorkloadProcess process(scenario);
    EXPECT_TRUE(process.prepare());
    process.start();
    while (!process.wait(-1)) {
    }
    JobRun done;
    done.workload = process.result().workload;
    done.fio = *process.result().fio;
    EXPECT_EQ(process.result().errors, 0U) << process.result().first_error;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      done.sizes[entry.path().filename()] = entry.file_size();
    }
    process.finish();
    read_ops(done);
    return done;
  }

  void read_ops(JobRun& done) {
    std::ifstream file(dir_.file("ops.csv"));
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::replace(line.begin(), line.end(), ',', ' ');
      std::istringstream fields(line);
      LoggedOp op;
      fields >> op.id >> op.kind >> op.tid >> op.start_ns >> op.end_ns >> op.result >>
          op.reap_from_ns;
      EXPECT_FALSE(fields.fail()) << line;
      done.ops.push_back(op);
    }
  }

  TempDir dir_;
};

TEST_F(JobRunTest, EveryEngineDoesAllOfIt) {
  for (const char* engine : {"libaio", "io_uring", "sync", "psync", "pvsync", "pvsync2"}) {
    for (const char* pattern : {"read", "write", "randread", "randwrite", "rw", "randrw"}) {
      JobRun done = run(fmt::format(
          "[j]\nioengine={}\nrw={}\ndirect=1\nbs=16k\nsize=512k\niodepth=4\nnrfiles=2\n", engine,
          pattern));
      uint64_t reads = done.workload["reads"];
      uint64_t writes = done.workload["writes"];
      EXPECT_EQ(reads + writes, 32U) << engine << " " << pattern;
      EXPECT_EQ(done.workload["bytes_read"], reads * 16384);
      bool both = std::string(pattern).ends_with("rw");
      EXPECT_EQ(reads > 0, both || std::string(pattern).ends_with("read"));
      EXPECT_EQ(writes > 0, both || std::string(pattern).ends_with("write"));
      EXPECT_EQ(done.sizes["j.0.0"], 262144U);
      EXPECT_EQ(done.sizes["j.0.1"], 262144U);
    }
  }
}

TEST_F(JobRunTest, StonewallWaits) {
  JobRun done =
      run("[global]\nsize=256k\nrw=write\nbs=64k\n[a]\nnumjobs=2\nthinktime=5ms\n[b]\nstonewall\n["
          "c]\n");
  std::map<pid_t, std::pair<uint64_t, uint64_t>> spans;
  for (const LoggedOp& op : done.ops) {
    if (op.kind != "write") continue;
    auto [found, fresh] = spans.try_emplace(op.tid, op.start_ns, op.end_ns);
    found->second.second = op.end_ns;
  }
  std::vector<std::pair<uint64_t, uint64_t>> order;
  for (const auto& thread : done.workload["threads"]) order.push_back(spans[thread["tid"]]);
  ASSERT_EQ(order.size(), 4U);
  uint64_t first_done = std::max(order[0].second, order[1].second);
  EXPECT_GE(order[2].first, first_done);
  EXPECT_GE(order[3].first, first_done);
  EXPECT_EQ(done.workload["jobs"].size(), 3U);
  EXPECT_EQ(done.fio["jobs"].size(), 4U);
  EXPECT_EQ(done.fio["jobs"][3]["groupid"], 1);
}

TEST_F(JobRunTest, BatchesAreOneCall) {
  for (const char* engine : {"libaio", "io_uring"}) {
    std::string job = fmt::format(
        "[j]\nioengine={}\nrw=randwrite\ndirect=1\nbs=4k\nsize=1m\niodepth=16\niodepth_batch=4\n",
        engine);
    bool ring = std::string(engine) == "io_uring";
    const char* call = ring ? "io_uring_enter" : "io_submit";
    JobRun done = run(job);
    // As strace counts fio's: completions are taken one by one, so that after the first four
    // batches the full queue submits what it has, a single request.
    EXPECT_EQ(done.count(call), 244U) << engine;
    EXPECT_EQ(done.count(ring ? "uring" : "aio"), 256U) << engine;
    done = run(job + "iodepth_batch_complete_min=4\n");
    EXPECT_EQ(done.count(call), 64U) << engine;
    EXPECT_EQ(done.count(ring ? "uring" : "aio"), 256U) << engine;
  }
}

TEST_F(JobRunTest, RingModesWork) {
  for (const char* modes : {"registerfiles\n", "fixedbufs\n", "registerfiles\nfixedbufs\n",
                            "sqthread_poll\n", "sqthread_poll\nregisterfiles\nfixedbufs\n"}) {
    JobRun done = run(fmt::format(
        "[j]\nioengine=io_uring\nrw=randrw\ndirect=1\nbs=4k\nsize=1m\niodepth=8\nnrfiles=2\n{}",
        modes));
    EXPECT_EQ(done.count("uring"), 256U) << modes;
  }
}

TEST_F(JobRunTest, RatesAndPausesHold) {
  JobRun done = run("[j]\nrw=write\nbs=4k\nsize=4m\nrate_iops=100\nruntime=500ms\ntime_based\n");
  EXPECT_NEAR(done.workload["writes"].get<double>(), 50, 5);
  done = run("[j]\nrw=write\nbs=4k\nsize=4m\nrate=409600\nruntime=500ms\ntime_based\n");
  EXPECT_NEAR(done.workload["writes"].get<double>(), 50, 5);
  done = run("[j]\nrw=write\nbs=4k\nsize=80k\nthinktime=10ms\nthinktime_blocks=5\n");
  EXPECT_EQ(done.workload["writes"], 20);
  EXPECT_GE(done.longest_gap_ns("write"), 10'000'000U);
  uint64_t pauses = 0;
  for (size_t i = 1; i < done.ops.size(); ++i) {
    pauses += done.ops[i].start_ns - done.ops[i - 1].end_ns >= 10'000'000 ? 1 : 0;
  }
  // A busy machine may add one.
  EXPECT_GE(pauses, 3U);
  EXPECT_LE(pauses, 5U);
}

TEST_F(JobRunTest, TheRampDoesNotCount) {
  JobRun done = run(
      "[j]\nrw=write\nbs=4k\nsize=4m\nrate_iops=100\nramp_time=300ms\nruntime=400ms\ntime_based\n");
  EXPECT_NEAR(done.workload["writes"].get<double>(), 40, 6);
  EXPECT_NEAR(static_cast<double>(done.count("write")), 70, 8);
  EXPECT_NEAR(done.workload["iops"].get<double>(), 100, 12);
}

TEST_F(JobRunTest, SyncsComeAfterTheirWrites) {
  JobRun done =
      run("[j]\nrw=write\nbs=4k\nsize=128k\nfdatasync=8\nend_fsync=1\nfsync_on_close=1\n");
  // As strace shows fio's: nothing is due after the last write, and both options mean one sync.
  EXPECT_EQ(done.count("fdatasync"), 3U);
  EXPECT_EQ(done.count("fsync"), 1U);
  EXPECT_EQ(done.count("ack"), 32U);
  done = run("[j]\nrw=write\nbs=4k\nsize=128k\nsync_file_range=wait_before,write:8\n");
  EXPECT_EQ(done.count("sync_file_range"), 3U);
  // In io_uring a sync is a request among the others, and due until one is seen complete: three
  // times, with up to `iodepth` of them. fio does 7 to 12 of these.
  done = run("[j]\nioengine=io_uring\nrw=write\nbs=4k\nsize=128k\niodepth=4\nfsync=8\n");
  EXPECT_GE(done.count("uring_sync"), 3U);
  EXPECT_LE(done.count("uring_sync"), 15U);
  EXPECT_EQ(done.count("fsync"), 0U);
  EXPECT_EQ(done.fio["jobs"][0]["sync"]["total_ios"], done.count("uring_sync"));
}

TEST_F(JobRunTest, LayoutsAreAsAsked) {
  JobRun done =
      run("[global]\nrw=write\nbs=4k\nsize=64k\nio_size=16k\n[none]\nfallocate=none\n"
          "[truncate]\nfallocate=truncate\n[made]\ncreate_on_open=1\nnrfiles=2\n[keep]\nfallocate="
          "keep\n");
  EXPECT_EQ(done.sizes["none.0.0"], 16384U);
  EXPECT_EQ(done.sizes["truncate.0.0"], 65536U);
  EXPECT_EQ(done.sizes["made.0.0"], 8192U);
  EXPECT_EQ(done.sizes["made.0.1"], 8192U);
  EXPECT_EQ(done.sizes["keep.0.0"], 16384U);
  EXPECT_EQ(done.count("open"), 2U);
  EXPECT_EQ(dir_.files(), 1U) << "all but the log are removed again";
}

TEST_F(JobRunTest, SyncFlagsReachTheFile) {
  for (const auto& [word, flag] : {std::pair{"dsync", O_DSYNC}, std::pair{"sync", O_SYNC}}) {
    JobSpec job =
        parse_fio_job(fmt::format("[j]\nrw=write\nsize=64k\nsync={}\n", word), "t", {})[0];
    File file = create_for_load(dir_.file(word), job);
    EXPECT_EQ(fcntl(file.get(), F_GETFL) & O_SYNC, flag);
  }
}

TEST_F(JobRunTest, RefusedSubmissionsAreCountedWithTheReason) {
  JobRun done =
      run("[global]\nioengine=pvsync2\nrw=write\ndirect=1\nbs=4k\nsize=64k\nnowait=1\n"
          "[grow]\nfallocate=none\n[plain]\nstonewall\noverwrite=1\n");
  const nlohmann::json& grow = done.workload["jobs"][0]["nowait"];
  const nlohmann::json& plain = done.workload["jobs"][1]["nowait"];
  EXPECT_EQ(grow["calls"], 16);
  EXPECT_EQ(plain["calls"], 16);
  uint64_t refused = grow["refused"];
  if (refused == 0 || grow["refused_why"].contains("not_supported")) {
    GTEST_SKIP() << "this file system does not refuse growing: " << grow.dump();
  }
  EXPECT_EQ(grow["refused_why"]["beyond_the_end"], refused) << grow.dump();
  EXPECT_EQ(done.workload["jobs"][0]["write"]["ios"], 16 - refused);
  EXPECT_LT(plain["refused"], 16);
}

TEST_F(JobRunTest, FiosLayoutHoldsTheFigures) {
  JobRun done = run(
      "[global]\nrw=randrw\nioengine=libaio\ndirect=1\nbs=4k\nsize=1m\niodepth=4\ngroup_reporting\n"
      "[j]\nnumjobs=2\npercentile_list=50:99\n[k]\nnew_group\n");
  ASSERT_EQ(done.fio["jobs"].size(), 2U);
  const auto& job = done.fio["jobs"][0];
  EXPECT_EQ(job["jobname"], "j");
  EXPECT_EQ(job["job options"]["numjobs"], "2");
  EXPECT_EQ(done.fio["global options"]["bs"], "4k");
  uint64_t ios =
      job["read"]["total_ios"].get<uint64_t>() + job["write"]["total_ios"].get<uint64_t>();
  EXPECT_EQ(ios, 512U);
  EXPECT_EQ(job["read"]["io_bytes"], job["read"]["total_ios"].get<uint64_t>() * 4096);
  EXPECT_EQ(job["read"]["clat_ns"]["N"], job["read"]["total_ios"]);
  EXPECT_EQ(job["read"]["clat_ns"]["percentile"].size(), 2U);
  EXPECT_NEAR(
      job["read"]["lat_ns"]["mean"].get<double>(),
      job["read"]["slat_ns"]["mean"].get<double>() + job["read"]["clat_ns"]["mean"].get<double>(),
      1000);
  double shares = 0;
  for (const char* unit : {"latency_ns", "latency_us", "latency_ms"}) {
    for (const auto& share : job[unit]) shares += share.get<double>();
  }
  EXPECT_NEAR(shares, 100, 0.01);
  EXPECT_EQ(done.fio["jobs"][1]["groupid"], 1);
}

}  // namespace
}  // namespace stalltrace::workloads

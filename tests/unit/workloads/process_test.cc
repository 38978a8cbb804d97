#include "workloads/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "tests/unit/workloads/temp_dir.h"
#include "userspace/base/clock.h"
#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

constexpr uint64_t kMs = 1'000'000;

class WorkloadProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!dir_.has_direct_io()) {
      GTEST_SKIP() << dir_.path() << " has no direct I/O: set TMPDIR to a directory that has";
    }
  }

  Scenario small() {
    JobSpec job;
    job.directory = dir_.path();
    job.jobs = 2;
    job.iodepth = 4;
    job.size_bytes = 4 << 20;
    job.fdatasync_every = 8;
    job.runtime_ns = 300 * kMs;
    Scenario scenario;
    scenario.name = "chunk-server";
    scenario.jobs = {job};
    return scenario;
  }

  static const WorkloadResult& run(WorkloadProcess& process) {
    EXPECT_TRUE(process.prepare());
    process.start();
    while (!process.wait(-1)) {
    }
    return process.result();
  }

  static uint64_t count(const WorkloadResult& result, const char* kind) {
    const nlohmann::json& latency = result.workload.at("latency_us");
    return latency.contains(kind) ? latency.at(kind).at("count").get<uint64_t>() : 0;
  }

  TempDir dir_;
};

TEST_F(WorkloadProcessTest, ChunkServerDoesWhatItWasAsked) {
  Scenario scenario = small();
  scenario.probe = ProbeSpec{.directory = dir_.path(), .interval_ns = 50 * kMs};
  WorkloadProcess process(scenario);
  EXPECT_NE(process.pid(), getpid());
  ASSERT_TRUE(process.prepare());
  EXPECT_EQ(dir_.files(), 3U);
  std::set<std::string> names;
  for (const LoadThread& thread : process.threads()) {
    std::ifstream comm("/proc/" + std::to_string(process.pid()) + "/task/" +
                       std::to_string(thread.tid) + "/comm");
    std::string name;
    std::getline(comm, name);
    EXPECT_EQ(name, thread.name);
    names.insert(name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"chunk-00", "chunk-01", "probe"}));

  uint64_t before = monotonic_ns();
  uint64_t start = process.start();
  EXPECT_GE(start, before);
  EXPECT_LE(start, monotonic_ns());
  while (!process.wait(-1)) {
  }
  uint64_t after = monotonic_ns();
  const WorkloadResult& result = process.result();
  EXPECT_EQ(result.start_ns, start);
  EXPECT_GE(result.end_ns, start + 300 * kMs);
  EXPECT_LE(result.end_ns, after);
  EXPECT_EQ(result.errors, 0U) << result.first_error;
  uint64_t writes = result.workload.at("writes");
  EXPECT_GT(writes, 0U);
  EXPECT_EQ(count(result, "io_submit"), writes);
  EXPECT_EQ(count(result, "aio"), writes);
  // After every eighth write of each thread; the end may come before the last.
  EXPECT_LE(count(result, "fdatasync"), writes / 8);
  EXPECT_GE(count(result, "fdatasync") + 2, writes / 8);
  EXPECT_EQ(result.workload.at("bytes_written"), writes * 65536);
  EXPECT_EQ(result.workload.at("ack_us").at("count").get<uint64_t>() +
                result.workload.at("unacknowledged").get<uint64_t>(),
            writes);

  ASSERT_TRUE(result.probe);
  EXPECT_GE(result.probe->requests.size(), 2U);
  EXPECT_LE(result.probe->requests.size(), 7U);
  uint64_t last_start = 0;
  for (const ProbeRequest& request : result.probe->requests) {
    EXPECT_EQ(request.result, 4096);
    EXPECT_GE(request.start_ns, std::max(start, last_start));
    EXPECT_LE(request.start_ns, request.submitted_ns);
    EXPECT_LE(request.submitted_ns, request.completed_ns);
    EXPECT_LE(request.completed_ns, after);
    last_start = request.start_ns + 50 * kMs;
  }
  EXPECT_EQ(dir_.files(), 3U) << "files stay until the tracing is over";
  process.finish();
  EXPECT_EQ(dir_.files(), 0U);
  EXPECT_NE(kill(process.pid(), 0), 0);
}

TEST_F(WorkloadProcessTest, SyncThreadsAcknowledgeEveryWrite) {
  Scenario scenario = small();
  scenario.jobs[0].fdatasync_every = 0;
  scenario.jobs[0].sync_threads = 2;
  WorkloadProcess process(scenario);
  const WorkloadResult& result = run(process);
  uint64_t writes = result.workload.at("writes");
  EXPECT_GT(writes, 0U);
  EXPECT_EQ(result.workload.at("ack_us").at("count"), writes);
  EXPECT_EQ(result.workload.at("unacknowledged"), 0);
  EXPECT_GT(count(result, "fdatasync"), 0U);
  EXPECT_EQ(result.errors, 0U) << result.first_error;
}

TEST_F(WorkloadProcessTest, UringDoesTheSame) {
  Scenario scenario = small();
  scenario.jobs[0].engine = Engine::kIoUring;
  WorkloadProcess process(scenario);
  try {
    const WorkloadResult& result = run(process);
    uint64_t writes = result.workload.at("writes");
    EXPECT_GT(writes, 0U);
    EXPECT_EQ(count(result, "io_uring_enter"), writes);
    EXPECT_EQ(count(result, "uring"), writes);
    EXPECT_EQ(result.errors, 0U) << result.first_error;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRefused);
    GTEST_SKIP() << error.what();
  }
}

TEST_F(WorkloadProcessTest, OnePassEndsWithItsSize) {
  for (Engine engine : {Engine::kPsync, Engine::kSync, Engine::kLibaio}) {
    Scenario scenario = small();
    JobSpec& job = scenario.jobs[0];
    job.engine = engine;
    job.pattern = Pattern::kReadWrite;
    job.fill = Fill::kWrite;
    job.time_based = false;
    job.runtime_ns = 0;
    job.iodepth = engine == Engine::kLibaio ? 4 : 1;
    WorkloadProcess process(scenario);
    const WorkloadResult& result = run(process);
    uint64_t reads = result.workload.at("reads");
    uint64_t writes = result.workload.at("writes");
    EXPECT_EQ(reads + writes, 2U * (4U << 20U) / 65536U);
    EXPECT_GT(reads, 0U);
    EXPECT_GT(writes, 0U);
    if (engine != Engine::kLibaio) {
      EXPECT_EQ(count(result, "read"), reads);
      EXPECT_EQ(count(result, "write"), writes);
    }
    EXPECT_EQ(result.errors, 0U) << result.first_error;
  }
}

TEST_F(WorkloadProcessTest, StopEndsEarlyWithAResult) {
  Scenario scenario = small();
  scenario.jobs[0].runtime_ns = 0;
  scenario.probe = ProbeSpec{.directory = dir_.path(), .interval_ns = 60'000 * kMs};
  WorkloadProcess process(scenario);
  ASSERT_TRUE(process.prepare());
  process.start();
  EXPECT_FALSE(process.wait(100));
  process.stop();
  while (!process.wait(-1)) {
  }
  EXPECT_GT(process.result().workload.at("writes"), 0);
  EXPECT_EQ(process.result().probe->requests.size(), 1U);
}

TEST_F(WorkloadProcessTest, ATerminatedLoadReports) {
  Scenario scenario = small();
  scenario.jobs[0].runtime_ns = 0;
  WorkloadProcess process(scenario);
  ASSERT_TRUE(process.prepare());
  process.start();
  ASSERT_EQ(kill(process.pid(), SIGINT), 0);  // a terminal's Ctrl-C: the parent decides
  EXPECT_FALSE(process.wait(100));
  ASSERT_EQ(kill(process.pid(), SIGTERM), 0);
  while (!process.wait(-1)) {
  }
  EXPECT_GT(process.result().workload.at("writes"), 0);
}

TEST_F(WorkloadProcessTest, AKilledLoadIsAnErrorAndLeavesNothing) {
  WorkloadProcess process(small());
  ASSERT_TRUE(process.prepare());
  process.start();
  ASSERT_EQ(kill(process.pid(), SIGKILL), 0);
  try {
    while (!process.wait(-1)) {
    }
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailed);
    EXPECT_NE(std::string(error.what()).find("signal 9"), std::string::npos) << error.what();
  }
  EXPECT_EQ(dir_.files(), 0U);
}

// Waits for the end of a process that is not our child until its parent has died.
bool ends_within(pid_t pid, std::chrono::seconds limit) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline) {
    if (waitpid(pid, nullptr, WNOHANG) == pid) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(WorkloadProcessTest, AKilledParentTakesTheLoadAlong) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  std::ofstream(dir_.file("mine")) << "x";
  std::array<int, 2> report{};
  ASSERT_EQ(pipe(report.data()), 0);
  pid_t parent = fork();
  if (parent == 0) {
    try {
      Scenario scenario = small();
      scenario.jobs[0].runtime_ns = 0;
      WorkloadProcess process(scenario);
      pid_t pid = process.pid();
      if (!process.prepare()) _exit(1);
      process.start();
      (void)!write(report[1], &pid, sizeof(pid));
      pause();
    } catch (const std::exception&) {
      // The test sees that nothing was reported.
    }
    _exit(1);
  }
  close(report[1]);
  pid_t load = 0;
  ASSERT_EQ(read(report[0], &load, sizeof(load)), static_cast<ssize_t>(sizeof(load)));
  EXPECT_EQ(dir_.files(), 3U);
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(ends_within(load, std::chrono::seconds(20)));
  EXPECT_EQ(dir_.files(), 1U);
  close(report[0]);
}

TEST_F(WorkloadProcessTest, CancelledPreparationLeavesNothing) {
  Scenario scenario = small();
  scenario.jobs[0].fill = Fill::kWrite;
  scenario.jobs[0].size_bytes = 512 << 20;
  WorkloadProcess process(scenario);
  EXPECT_FALSE(process.prepare([](uint64_t, uint64_t) { return false; }));
  EXPECT_EQ(dir_.files(), 0U);
}

TEST_F(WorkloadProcessTest, NeverStartedLeavesNothing) {
  {
    WorkloadProcess process(small());
    ASSERT_TRUE(process.prepare());
    EXPECT_EQ(dir_.files(), 2U);
  }
  EXPECT_EQ(dir_.files(), 0U);
}

TEST_F(WorkloadProcessTest, KeptFilesCanBeUsedAgain) {
  Scenario scenario = small();
  scenario.keep_files = true;
  {
    WorkloadProcess process(scenario);
    run(process);
  }
  EXPECT_EQ(dir_.files(), 2U);
  scenario.keep_files = false;
  {
    WorkloadProcess process(scenario);
    EXPECT_EQ(run(process).workload.at("files").at("reused"), 2);
  }
  EXPECT_EQ(dir_.files(), 2U) << "they existed before";
}

TEST_F(WorkloadProcessTest, ErrorsOfTheChildArriveAsTheyAre) {
  Scenario scenario = small();
  scenario.jobs[0].directory = dir_.file("missing");
  WorkloadProcess process(scenario);
  try {
    process.prepare();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos) << error.what();
  }
}

struct LogLine {
  uint64_t id, start_ns, end_ns, reap_from_ns;
  int64_t result;
  std::string kind;
  pid_t tid;
};

std::vector<LogLine> read_log(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "id,kind,tid,start_ns,end_ns,result,reap_from_ns");
  std::vector<LogLine> lines;
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    LogLine entry;
    fields >> entry.id >> entry.kind >> entry.tid >> entry.start_ns >> entry.end_ns >>
        entry.result >> entry.reap_from_ns;
    EXPECT_FALSE(fields.fail()) << line;
    lines.push_back(entry);
  }
  return lines;
}

TEST_F(WorkloadProcessTest, TheOperationsLogHoldsEverything) {
  Scenario scenario = small();
  scenario.ops_log = {.path = dir_.file("ops.csv"), .floor_ns = 0};
  scenario.probe = ProbeSpec{.directory = dir_.path(), .interval_ns = 50 * kMs};
  WorkloadProcess process(scenario);
  const WorkloadResult& result = run(process);
  process.finish();
  std::map<std::string, uint64_t> kinds;
  std::map<std::string, std::set<uint64_t>> ids;
  std::map<uint64_t, LogLine> submits;
  std::set<pid_t> tids;
  for (const LoadThread& thread : process.threads()) tids.insert(thread.tid);
  std::vector<LogLine> lines = read_log(scenario.ops_log.path);
  for (const LogLine& line : lines) {
    ++kinds[line.kind];
    EXPECT_TRUE(ids[line.kind].insert(line.id).second) << "an id twice: " << line.id;
    EXPECT_TRUE(tids.contains(line.tid));
    EXPECT_GE(line.start_ns, result.start_ns);
    EXPECT_LE(line.start_ns, line.reap_from_ns);
    EXPECT_LE(line.reap_from_ns, line.end_ns);
    if (line.kind == "io_submit") submits[line.id] = line;
  }
  EXPECT_EQ(kinds["io_submit"], count(result, "io_submit"));
  EXPECT_EQ(kinds["aio"], count(result, "aio"));
  EXPECT_EQ(kinds["fdatasync"], count(result, "fdatasync"));
  EXPECT_EQ(kinds["ack"], result.workload.at("ack_us").at("count"));
  EXPECT_EQ(kinds["probe_submit"], result.probe->requests.size());
  EXPECT_EQ(kinds["probe_request"], result.probe->requests.size());
  EXPECT_EQ(ids["aio"], ids["io_submit"]) << "a call has the id of the request it submits";
  for (const LogLine& line : lines) {
    if (line.kind != "aio") continue;
    EXPECT_EQ(line.result, 65536);
    EXPECT_EQ(line.start_ns, submits[line.id].start_ns);
    EXPECT_EQ(line.tid, submits[line.id].tid);
  }
  EXPECT_EQ(result.workload.at("ops_log").at("dropped"), 0);
}

TEST_F(WorkloadProcessTest, AProbeAloneEndsByItself) {
  Scenario scenario;
  scenario.name = "probe";
  scenario.probe =
      ProbeSpec{.directory = dir_.path(), .interval_ns = 50 * kMs, .runtime_ns = 220 * kMs};
  WorkloadProcess process(scenario);
  const WorkloadResult& result = run(process);
  ASSERT_TRUE(result.probe);
  EXPECT_GE(result.probe->requests.size(), 2U);
  EXPECT_LE(result.probe->requests.size(), 5U);
  EXPECT_FALSE(result.workload.contains("iops"));
  process.finish();
  EXPECT_EQ(dir_.files(), 0U);
}

TEST_F(WorkloadProcessTest, AThreadBeforeItIsAMistake) {
  std::atomic<bool> end = false;
  std::thread other([&end] { end.wait(false); });
  EXPECT_THROW(WorkloadProcess process(small()), std::logic_error);
  end = true;
  end.notify_all();
  other.join();
}

}  // namespace
}  // namespace stalltrace::workloads

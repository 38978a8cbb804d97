// The loads of a power cut, on an ordinary directory: what they promise, and what the checks see.
#include "workloads/powercut.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/workloads/temp_dir.h"
#include "userspace/base/clock.h"
#include "userspace/base/command.h"
#include "userspace/base/error.h"
#include "workloads/powercut_load.h"
#include "workloads/powercut_program.h"

namespace stalltrace::workloads {
namespace {

void wait_for_promises(PowercutLoad& load, uint64_t count) {
  const uint64_t deadline_ns = monotonic_ns() + 20'000'000'000;
  while (load.promised() < count) {
    ASSERT_LT(monotonic_ns(), deadline_ns);
    usleep(1000);
  }
}

TEST(PowercutContents, AreTheNamesOwn) {
  const auto contents = file_contents("cut-1", "000-0000001", 20481);
  EXPECT_EQ(contents.size(), 20481U);
  EXPECT_EQ(contents, file_contents("cut-1", "000-0000001", 20481));
  EXPECT_NE(contents, file_contents("cut-2", "000-0000001", 20481));
  EXPECT_NE(contents, file_contents("cut-1", "000-0000002", 20481));
  // No page is like another one: swapped pages are seen.
  EXPECT_NE(std::string(contents.data(), 4096), std::string(contents.data() + 4096, 4096));
}

TEST(PowercutContents, WhatIsMissingShortOrChangedIsSeen) {
  const TempDir dir;
  const std::string path = dir.path() + "/f";
  EXPECT_EQ(fate_of(dir.path(), "l", "f", 10'000), FileFate::kLost);
  const auto whole = file_contents("l", "f", 10'000);
  const auto put = [&](const std::vector<char>& contents) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(contents.data(), static_cast<std::streamsize>(contents.size()));
    return fate_of(dir.path(), "l", "f", 10'000);
  };
  EXPECT_EQ(put(whole), FileFate::kWhole);
  auto other = whole;
  other[9'999] ^= 1;
  EXPECT_EQ(put(other), FileFate::kTorn);
  other = whole;
  other.pop_back();
  EXPECT_EQ(put(other), FileFate::kTorn);
  other = whole;
  other.push_back('x');
  EXPECT_EQ(put(other), FileFate::kTorn);
  EXPECT_EQ(put({}), FileFate::kTorn);
}

TEST(PowercutFileLoad, KeepsItsPromisesWhereNothingIsCut) {
  const TempDir dir;
  FileLoad load({.folder = dir.path(), .label = "a", .threads = 3, .file_bytes = 5000});
  wait_for_promises(load, 30);
  load.end();
  const PowercutFindings findings = load.check(true);
  EXPECT_GE(findings.promised, 30U);
  EXPECT_EQ(findings.lost + findings.torn, 0U);
  EXPECT_TRUE(findings.faults.empty());
  EXPECT_LE(findings.promised, static_cast<uint64_t>(std::distance(
                                   std::filesystem::directory_iterator(dir.path()), {})));
  EXPECT_EQ(load.syncs_in_flight(monotonic_ns()), 0U);
}

TEST(PowercutFileLoad, NamesWhatIsLostAndTorn) {
  const TempDir dir;
  FileLoad load({.folder = dir.path(), .label = "a", .threads = 1, .file_bytes = 5000});
  wait_for_promises(load, 3);
  load.end();
  std::filesystem::remove(dir.path() + "/000-0000000");
  std::filesystem::resize_file(dir.path() + "/000-0000002", 4096);
  const PowercutFindings findings = load.check(true);
  EXPECT_EQ(findings.lost, 1U);
  EXPECT_EQ(findings.torn, 1U);
  EXPECT_EQ(findings.faults,
            (std::vector<std::string>{"lost a/000-0000000", "torn a/000-0000002"}));
  const PowercutFindings nothing = load.check(false);
  EXPECT_EQ(nothing.lost, nothing.promised);
}

TEST(PowercutFileLoad, ALoadThatFailsByItselfIsAnError) {
  const TempDir dir;
  std::ofstream(dir.path() + "/000-0000002") << "in the way";
  FileLoad load({.folder = dir.path(), .label = "a", .threads = 1, .file_bytes = 100});
  const auto wait = [&] {
    for (int i = 0; i < 10'000; ++i) {
      load.promised();
      usleep(1000);
    }
  };
  EXPECT_THROW(wait(), Error);
}

std::string script(const TempDir& dir, const std::string& name, const std::string& text) {
  const std::string path = dir.path() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
  chmod(path.c_str(), 0755);
  return path;
}

TEST(PowercutProgram, ItsPromisesReachTheChecker) {
  const TempDir dir;
  const std::string folder = dir.path() + "/data";
  std::filesystem::create_directory(folder);
  const std::string check =
      script(dir, "check",
             "while read t; do [ -e \"$1/$t\" ] || echo $t; done | grep . && exit 1\nexit 0");
  ProgramLoad load({.command = {"sh", "-c",
                                "i=0; echo noise; while :; do i=$((i+1)); "
                                ": > $STALLTRACE_DIR/f$i; echo promised f$i; sleep 0.01; done"},
                    .folder = folder,
                    .checker = check});
  wait_for_promises(load, 5);
  load.end();
  PowercutFindings findings = load.check(true);
  EXPECT_GE(findings.promised, 5U);
  EXPECT_EQ(findings.lost, 0U);
  std::filesystem::remove(folder + "/f2");
  findings = load.check(true);
  EXPECT_EQ(findings.lost, 1U);
  EXPECT_EQ(findings.faults, std::vector<std::string>{"lost f2"});
}

TEST(PowercutProgram, OneThatEndsBeforeTheCutIsAnError) {
  const TempDir dir;
  ProgramLoad load({.command = {"sh", "-c", "exit 3"}, .folder = dir.path(), .checker = "true"});
  const auto wait = [&] {
    for (int i = 0; i < 5000; ++i) {
      load.promised();
      usleep(1000);
    }
  };
  EXPECT_THROW(wait(), Error);
}

TEST(Command, TakesInputAndGivesOutputAndStatus) {
  const CommandEnd end = run_command({"sh", "-c", "cat; echo oops >&2; exit 7"}, "in\n");
  EXPECT_EQ(end.status, 7);
  EXPECT_EQ(end.output, "in\noops\n");
  EXPECT_EQ(run_command({"/nonexistent/program"}).status, 127);
  EXPECT_THROW(need_command({"false"}), Error);
}

class PowercutOfADisk : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/fuse";
    if (access("/dev/loop-control", R_OK | W_OK) != 0) GTEST_SKIP() << "needs loop devices";
    options_.disk.name = "unit-powercut-" + std::to_string(getpid());
    options_.disk.size_bytes = 256ULL << 20;
    options_.disk.cache = disk::Cache::kVolatile;
    options_.disk.flush_ns = 2'000'000;
    options_.files = 20;
  }
  void TearDown() override {
    const std::string folder = disk::mountpoint_for(options_.disk.name);
    EXPECT_FALSE(std::filesystem::exists(folder));
    EXPECT_THROW(disk::find(options_.disk.name), Error);
  }

  PowercutOptions options_;
  PowercutResult result_;
};

TEST_F(PowercutOfADisk, AnHonestOneLosesNothing) {
  options_.cuts = 3;
  unsigned told = 0;
  run_powercut(options_, {.stop = {}, .done = [&](const PowercutCut&) { ++told; }}, result_);
  EXPECT_EQ(told, 3U);
  ASSERT_EQ(result_.cuts.size(), 3U);
  for (const PowercutCut& cut : result_.cuts) {
    EXPECT_TRUE(cut.is_good()) << cut.faults.front();
    EXPECT_GE(cut.promised, 1U);
    EXPECT_GE(cut.disk.writes_dropped, 1U);
    EXPECT_GE(cut.syncs_in_flight.value_or(0), 1U);
  }
}

TEST_F(PowercutOfADisk, OneThatLiesIsCaught) {
  options_.disk.lie_one_in = 1;
  options_.until_lost = true;
  run_powercut(options_, {}, result_);
  ASSERT_FALSE(result_.cuts.empty());
  EXPECT_FALSE(result_.cuts.back().is_good());
  EXPECT_FALSE(result_.cuts.back().faults.empty());
}

TEST_F(PowercutOfADisk, CanBeStoppedAtAnyTime) {
  int asked = 0;
  run_powercut(options_, {.stop = [&] { return ++asked > 30; }, .done = {}}, result_);
  EXPECT_TRUE(result_.stopped);
  EXPECT_LT(result_.cuts.size(), 20U);
}

TEST(Powercut, RefusesOptionsThatCannotBe) {
  const auto code_of = [](const PowercutOptions& options) {
    PowercutResult result;
    try {
      run_powercut(options, {}, result);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kOk;
  };
  PowercutOptions options;
  options.cuts = 0;
  EXPECT_EQ(code_of(options), ExitCode::kUsage);
  options = {};
  options.threads = 0;
  EXPECT_EQ(code_of(options), ExitCode::kUsage);
  options = {};
  options.command = {"true"};
  EXPECT_EQ(code_of(options), ExitCode::kUsage);
  options.checker = "/nonexistent/check";
  EXPECT_EQ(code_of(options), ExitCode::kUsage);
  options = {};
  options.disk.profile = "floppy";
  EXPECT_EQ(code_of(options), ExitCode::kUsage);
}

}  // namespace
}  // namespace stalltrace::workloads

#include "workloads/layout.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/unit/workloads/temp_dir.h"
#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

LayoutHooks no_hooks() {
  return {.announce = [](const auto&) {}, .progress = [](uint64_t, uint64_t) { return true; }};
}

void expect_error(const std::vector<FileSpec>& specs, ExitCode code, const std::string& what) {
  FileSet files;
  try {
    files.check(specs);
    files.create(no_hooks());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

TEST(FileSet, PreallocatesWritesAndRemoves) {
  TempDir dir;
  FileSet files;
  std::vector<std::string> announced;
  uint64_t last_done = 0;
  uint64_t last_total = 0;
  LayoutHooks hooks{.announce = [&](const auto& paths) { announced = paths; },
                    .progress =
                        [&](uint64_t done, uint64_t total) {
                          EXPECT_GE(done, last_done);
                          last_done = done;
                          last_total = total;
                          return true;
                        }};
  files.check({{.path = dir.file("a"), .bytes = 1 << 20, .fill = Fill::kPreallocate},
               {.path = dir.file("b"), .bytes = 3 << 20, .fill = Fill::kWrite}});
  ASSERT_TRUE(files.create(hooks));
  EXPECT_EQ(announced, (std::vector<std::string>{dir.file("a"), dir.file("b")}));
  EXPECT_EQ(last_done, 4U << 20U);
  EXPECT_EQ(last_total, 4U << 20U);
  struct stat status {};
  ASSERT_EQ(stat(dir.file("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 1 << 20);
  EXPECT_GE(status.st_blocks, (1 << 20) / 512);  // reserved, not sparse
  ASSERT_EQ(stat(dir.file("b").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 3 << 20);
  EXPECT_EQ(files.created(), 2U);
  files.remove_created();
  EXPECT_EQ(dir.files(), 0U);
}

TEST(FileSet, KeepsWhatExistedBefore) {
  TempDir dir;
  std::ofstream(dir.file("a")) << std::string(8192, 'x');
  FileSet files;
  // A stranger's file is not overwritten; one that a load has made is used again.
  EXPECT_THROW(files.check({{.path = dir.file("a"), .bytes = 4096}}), Error);
  ASSERT_EQ(setxattr(dir.file("a").c_str(), "user.stalltrace.load", "1", 1, 0), 0);
  files.check({{.path = dir.file("a"), .bytes = 4096}, {.path = dir.file("b"), .bytes = 4096}});
  ASSERT_TRUE(files.create(no_hooks()));
  EXPECT_EQ(files.reused(), 1U);
  EXPECT_EQ(files.created(), 1U);
  files.remove_created();
  std::ifstream kept(dir.file("a"));
  std::string text((std::istreambuf_iterator<char>(kept)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, std::string(8192, 'x'));
  EXPECT_EQ(dir.files(), 1U);
}

TEST(FileSet, OneFileForManyIsMadeOnce) {
  TempDir dir;
  FileSet files;
  files.check({{.path = dir.file("a"), .bytes = 4096}, {.path = dir.file("a"), .bytes = 4096}});
  ASSERT_TRUE(files.create(no_hooks()));
  EXPECT_EQ(files.created(), 1U);
  files.remove_created();
}

TEST(FileSet, CancelLeavesNothing) {
  TempDir dir;
  FileSet files;
  LayoutHooks hooks{.announce = [](const auto&) {},
                    .progress = [](uint64_t done, uint64_t) { return done < (5U << 20U); }};
  files.check({{.path = dir.file("a"), .bytes = 4 << 20, .fill = Fill::kWrite},
               {.path = dir.file("b"), .bytes = 4 << 20, .fill = Fill::kWrite}});
  EXPECT_FALSE(files.create(hooks));
  EXPECT_EQ(dir.files(), 0U);
}

TEST(FileSet, DirectoriesThatCannotBeUsed) {
  TempDir dir;
  expect_error({{.path = dir.file("no/a"), .bytes = 4096}}, ExitCode::kUsage, "no directory");
  std::ofstream(dir.file("plain")) << "x";
  expect_error({{.path = dir.file("plain/a"), .bytes = 4096}}, ExitCode::kUsage,
               "is not a directory");
}

TEST(FileSet, FilesThatAreInTheWay) {
  TempDir dir;
  std::ofstream(dir.file("small")) << "x";
  expect_error({{.path = dir.file("small"), .bytes = 4096}}, ExitCode::kUsage, "remove it");
  ASSERT_EQ(mkfifo(dir.file("fifo").c_str(), 0600), 0);
  expect_error({{.path = dir.file("fifo"), .bytes = 4096}}, ExitCode::kUsage, "not a regular file");
  EXPECT_EQ(dir.files(), 2U);
}

TEST(FileSet, OnePathIsOneFile) {
  TempDir dir;
  FileSet files;
  files.check({{.path = dir.file("a"), .bytes = 4096, .fill = Fill::kNone},
               {.path = dir.file("a"), .bytes = 65536, .fill = Fill::kWrite},
               {.path = dir.file("a"), .bytes = 8192}});
  ASSERT_TRUE(files.create(no_hooks()));
  EXPECT_EQ(files.created(), 1U);
  EXPECT_EQ(std::filesystem::file_size(dir.file("a")), 65536U);
}

TEST(FileSet, WhatIsOnlyReadMayBeAnybodys) {
  TempDir dir;
  std::ofstream(dir.file("data")) << std::string(8192, 'x');
  FileSet files;
  files.check({{.path = dir.file("data"), .bytes = 8192, .only_read = true}});
  EXPECT_EQ(files.reused(), 1U);
  expect_error({{.path = dir.file("data"), .bytes = 8192}}, ExitCode::kUsage, "overwritten");
  // A second job that writes it makes it one that is written.
  expect_error({{.path = dir.file("data"), .bytes = 8192, .only_read = true},
                {.path = dir.file("data"), .bytes = 4096}},
               ExitCode::kUsage, "overwritten");
}

TEST(FileSet, AppendedFilesMayBeSmall) {
  TempDir dir;
  {
    FileSet files;
    files.check({{.path = dir.file("log"), .bytes = 4096}});
    ASSERT_TRUE(files.create(no_hooks()));
  }
  FileSet files;
  files.check({{.path = dir.file("log"), .bytes = 1 << 20, .append = true},
               {.path = dir.file("fresh"), .bytes = 4096, .fill = Fill::kNone, .append = true}});
  EXPECT_EQ(files.size_before(dir.file("log")), 4096U);
  EXPECT_EQ(files.size_before(dir.file("fresh")), 0U);
}

TEST(FileSet, WhoMakesTheFile) {
  TempDir dir;
  expect_error({{.path = dir.file("a"), .bytes = 4096, .may_create = false}}, ExitCode::kUsage,
               "allow_file_create");
  std::ofstream(dir.file("there")) << "x";
  expect_error({{.path = dir.file("there"), .bytes = 1, .made_later = true}}, ExitCode::kUsage,
               "is to create it");
  FileSet files;
  files.check({{.path = dir.file("later"), .bytes = 4096, .made_later = true}});
  ASSERT_TRUE(files.create(no_hooks()));
  EXPECT_FALSE(std::filesystem::exists(dir.file("later")));
  std::ofstream(dir.file("later")) << "x";
  files.remove_created();
  EXPECT_FALSE(std::filesystem::exists(dir.file("later")));
}

TEST(FileSet, MoreThanTheFileSystemHas) {
  TempDir dir;
  struct statvfs status {};
  ASSERT_EQ(statvfs(dir.path().c_str(), &status), 0);
  uint64_t more = status.f_blocks * status.f_frsize + 1;
  expect_error({{.path = dir.file("a"), .bytes = 4096}, {.path = dir.file("b"), .bytes = more}},
               ExitCode::kFailed, "not enough space");
  EXPECT_EQ(dir.files(), 0U);
}

TEST(OpenForLoad, ProcHasNoDirectIo) {
  try {
    open_for_load("/proc/self/comm", true, false, true, 4096);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("O_DIRECT"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace stalltrace::workloads

#include "userspace/kernel/symbols.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "userspace/base/error.h"

namespace stalltrace::kernel {
namespace {

SymbolTable table_of(const std::string& text) {
  std::istringstream stream(text);
  return SymbolTable(stream);
}

TEST(Symbols, FunctionAroundAnAddress) {
  SymbolTable table = table_of(
      "ffffffff81000000 T first\n"
      "ffffffff81000100 t second.isra.0\n"
      "ffffffff81000180 D not_a_function\n"
      "ffffffff81000200 W weak_one\n");
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.name_of(0xffffffff81000000), "first");
  EXPECT_EQ(table.name_of(0xffffffff810000ff), "first");
  EXPECT_EQ(table.name_of(0xffffffff81000100), "second");
  EXPECT_EQ(table.name_of(0xffffffff81000190), "second");
  EXPECT_EQ(table.name_of(0xffffffff81000250), "weak_one");
  EXPECT_EQ(table.name_of(0xffffffff80ffffff), "");
  EXPECT_EQ(table.name_of(0), "");
  EXPECT_EQ(table.name_of(0xffffffffc0000000), "") << "far behind the last function";
}

TEST(Symbols, ReturnAddressBehindACallThatNeverReturns) {
  SymbolTable table = table_of("1000 T dies\n1010 T next\n");
  EXPECT_EQ(table.name_of(0x1010), "next");
  EXPECT_EQ(table.name_of_return(0x1010), "dies");
  EXPECT_EQ(table.name_of_return(0x1011), "next");
  EXPECT_EQ(table.name_of_return(0), "");
}

// The aliases of 6.1 and of 6.18, in both orders.
TEST(Symbols, AliasesPreferWhatAPersonExpects) {
  for (const char* text : {"1000 T __sched_text_start\n1000 T io_schedule_timeout\n2000 T x\n",
                           "1000 T io_schedule_timeout\n1000 T __sched_text_start\n2000 T x\n"}) {
    SymbolTable table = table_of(text);
    EXPECT_EQ(table.name_of(0x1010), "io_schedule_timeout");
    EXPECT_EQ(table.address_of("__sched_text_start"), 0x1000U);
    EXPECT_EQ(table.address_of("io_schedule_timeout"), 0x1000U);
  }
  EXPECT_EQ(table_of("1000 T _stext\n1000 T __init_scratch_end\n1000 T real\n").name_of(0x1000),
            "real");
  EXPECT_EQ(table_of("1000 T __do_sys_sync\n1000 T __ia32_sys_sync\n1000 T __x64_sys_sync\n")
                .name_of(0x1000),
            "__x64_sys_sync");
}

TEST(Symbols, PaddingIsNoFunction) {
  SymbolTable table = table_of("1000 t __pfx_f\n1010 t f\n2000 t __cfi_g\n2010 t g\n");
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.name_of(0x1010), "f");
  EXPECT_EQ(table.name_of(0x2018), "g");
}

TEST(Symbols, AddressesByFullAndFoldedName) {
  SymbolTable table = table_of(
      "1000 t f.cold\n"
      "2000 t f.constprop.0\n"
      "3000 t g.part.0\n"
      "4000 T g\n"
      "5000 t h.cold\n");
  EXPECT_EQ(table.address_of("f"), 0x2000U);
  EXPECT_EQ(table.address_of("f.cold"), 0x1000U);
  EXPECT_EQ(table.address_of("g"), 0x4000U);
  EXPECT_EQ(table.address_of("h"), 0x5000U);
  EXPECT_EQ(table.address_of("nothing"), 0U);
  EXPECT_EQ(table.address_of(""), 0U);
}

TEST(Symbols, ModulesComeInAnyOrder) {
  SymbolTable table = table_of(
      "ffffffff81000000 T core\n"
      "ffffffffc0800000 t ext4_sync_file\t[ext4]\n"
      "ffffffffc0400000 t jbd2_log_wait_commit\t[jbd2]");  // and no newline at the end
  EXPECT_EQ(table.name_of(0xffffffffc0400010), "jbd2_log_wait_commit");
  EXPECT_EQ(table.name_of(0xffffffffc0800010), "ext4_sync_file");
  EXPECT_EQ(table.name_of(0xffffffff81000010), "core");
}

TEST(Symbols, HiddenAddressesAreRefused) {
  try {
    table_of("0000000000000000 T first\n0000000000000000 t second\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRefused);
    EXPECT_NE(std::string(error.what()).find("kptr_restrict"), std::string::npos);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
  EXPECT_THROW(table_of(""), Error);
  EXPECT_THROW(table_of("no symbols\nat all\n"), Error);
  EXPECT_THROW(SymbolTable::load("/nonexistent/kallsyms"), Error);
}

TEST(Symbols, LinesLongerThanTheReadBuffer) {
  std::string name(300 * 1024, 'a');
  SymbolTable table = table_of("1000 T f\n1100 T " + name + "\n2000 T g\n");
  EXPECT_EQ(table.name_of(0x1000), "f");
  EXPECT_EQ(table.name_of(0x2000), "g");
}

// ---- against this kernel

class RunningKernel : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file("/proc/kallsyms");
    std::string line;
    if (!std::getline(file, line) || line.starts_with("0000000000000000 ")) {
      GTEST_SKIP() << "this kernel hides its symbols from us";
    }
  }

  static std::string shell(const std::string& command) {
    std::string output;
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    for (size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
      output.append(buffer, got);
    }
    pclose(pipe);
    return output;
  }
};

TEST_F(RunningKernel, AgreesWithGrep) {
  SymbolTable table = SymbolTable::load();
  size_t found = 0;
  for (const char* name : {"io_schedule", "vfs_fsync_range", "blk_mq_get_tag", "schedule",
                           "wait_transaction_locked", "rwsem_down_read_slowpath"}) {
    std::string text =
        shell(std::string("grep -E '^[0-9a-f]+ [tTwW] ") + name + "$' /proc/kallsyms");
    if (text.empty()) continue;
    ++found;
    uint64_t address = std::stoull(text.substr(0, text.find(' ')), nullptr, 16);
    EXPECT_EQ(table.address_of(name), address) << name;
    EXPECT_EQ(table.name_of(address), name);
    EXPECT_EQ(table.name_of(address + 1), name);
  }
  EXPECT_GE(found, 3U);
}

TEST_F(RunningKernel, AgreesWithEveryLine) {
  SymbolTable table = SymbolTable::load();
  std::map<uint64_t, std::set<std::string>> names;
  std::ifstream file("/proc/kallsyms");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string address;
    std::string type;
    std::string name;
    words >> address >> type >> name;
    if (type.find_first_of("tTwW") == std::string::npos) continue;
    if (name.starts_with("__pfx_") || name.starts_with("__cfi_")) continue;
    if (name.starts_with("bpf_")) continue;  // programs that others load and unload meanwhile
    names[std::stoull(address, nullptr, 16)].insert(name.substr(0, name.find('.', 1)));
  }
  ASSERT_GT(names.size(), 1000U);
  for (const auto& [address, candidates] : names) {
    ASSERT_TRUE(candidates.contains(std::string(table.name_of(address))))
        << std::hex << address << " " << table.name_of(address);
  }
}

TEST_F(RunningKernel, LoadsFastAndSmall) {
  size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  auto start = std::chrono::steady_clock::now();
  SymbolTable table = SymbolTable::load();
  double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  size_t used = mallinfo2().uordblks + mallinfo2().hblkhd - before;
  RecordProperty("load_ms", std::to_string(ms));
  RecordProperty("kib", std::to_string(used / 1024));
  // An optimized build takes about 30 ms here; the bound leaves room for sanitizers and neighbours.
  EXPECT_LT(ms, 2000);
  EXPECT_LT(used, 15U << 20);
}

}  // namespace
}  // namespace stalltrace::kernel

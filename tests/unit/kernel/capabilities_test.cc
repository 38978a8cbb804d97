#include "userspace/kernel/capabilities.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>

#include "userspace/base/error.h"
#include "userspace/kernel/tasks.h"

namespace stalltrace::kernel {
namespace {

std::string shell(const char* command) {
  std::string output;
  FILE* pipe = popen(command, "r");
  char buffer[256];
  while (fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
  pclose(pipe);
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output;
}

Privileges privileges_of(const std::string& status) {
  std::istringstream stream(status);
  return parse_privileges(stream);
}

TEST(Capabilities, CpuModel) {
  std::istringstream two(
      "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7\n\nmodel name\t: B\n");
  EXPECT_EQ(parse_cpu_model(two), "AMD EPYC 7");
  std::istringstream none("processor\t: 0\nBogoMIPS\t: 50.00\n");
  EXPECT_EQ(parse_cpu_model(none), "");
}

TEST(Capabilities, EffectiveBits) {
  // From capabilities(7)'s numbers: SYS_PTRACE 19, SYS_ADMIN 21, SYS_RESOURCE 24, SYSLOG 34,
  // PERFMON 38, BPF 39.
  Privileges none =
      privileges_of("Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t0000000000000000\n");
  EXPECT_FALSE(none.bpf || none.perfmon || none.sys_admin || none.sys_resource || none.syslog ||
               none.sys_ptrace);
  Privileges two = privileges_of("CapEff:\t000000c000000000\n");
  EXPECT_TRUE(two.bpf && two.perfmon);
  EXPECT_FALSE(two.sys_admin || two.sys_resource || two.syslog || two.sys_ptrace);
  Privileges all_but_resource = privileges_of("CapEff:\t000001fffeffffff\n");
  EXPECT_TRUE(all_but_resource.sys_admin && all_but_resource.syslog && all_but_resource.bpf);
  EXPECT_FALSE(all_but_resource.sys_resource);
  EXPECT_THROW(privileges_of("Name:\tx\n"), Error);
}

TEST(Capabilities, Lockdown) {
  EXPECT_EQ(parse_lockdown("none [integrity] confidentiality\n"), "integrity");
  EXPECT_EQ(parse_lockdown("[none] integrity confidentiality\n"), "none");
  EXPECT_EQ(parse_lockdown(""), "");
}

TEST(Capabilities, DebugOptionsOfAConfiguration) {
  auto options = debug_options_in_config(
      "CONFIG_JBD2=y\nCONFIG_JBD2_DEBUG=y\n# CONFIG_LOCKDEP is not set\nCONFIG_KASAN=y\n"
      "CONFIG_LOCKDEP_SUPPORT=y\n");
  EXPECT_EQ(options, (std::vector<std::string>{"JBD2_DEBUG", "KASAN"}));
}

TEST(Capabilities, ThisMachine) {
  Capabilities here = detect_capabilities();
  EXPECT_EQ(here.release, shell("uname -r"));
  EXPECT_EQ(here.arch, shell("uname -m"));
  EXPECT_EQ(std::to_string(here.cpus), shell("getconf _NPROCESSORS_ONLN"));
  EXPECT_EQ(here.has_btf, shell("test -r /sys/kernel/btf/vmlinux && echo yes") == "yes");
  EXPECT_EQ(std::to_string(here.kptr_restrict.value_or(-1)),
            shell("cat /proc/sys/kernel/kptr_restrict 2>/dev/null || echo -1"));
  std::string mounted = shell("findmnt -n -t tracefs -o TARGET");
  if (mounted.empty()) {
    EXPECT_FALSE(here.tracefs);
  } else if (geteuid() == 0) {
    EXPECT_TRUE(here.tracefs);
  }
  std::string config = shell("zcat /proc/config.gz 2>/dev/null | grep -c '^CONFIG_JBD2_DEBUG=y'");
  if (config == "1") {
    EXPECT_NE(std::find(here.debug_options.begin(), here.debug_options.end(), "JBD2_DEBUG"),
              here.debug_options.end());
  }
}

TEST(Tasks, NamesOfTheLiving) {
  EXPECT_EQ(comm_of(getpid()), shell(("cat /proc/" + std::to_string(getpid()) + "/comm").c_str()));
  EXPECT_NE(cmdline_of(getpid()).find("kernel_test"), std::string::npos);
  EXPECT_EQ(process_of(getpid()), getpid());
  pid_t thread_id = 0;
  std::optional<pid_t> process;
  std::thread([&] {
    thread_id = gettid();
    process = process_of(thread_id);
  }).join();
  EXPECT_NE(thread_id, getpid());
  EXPECT_EQ(process, getpid());
}

TEST(Tasks, ThoseThatEnded) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(comm_of(child));
  EXPECT_EQ(cmdline_of(child), "");
  EXPECT_FALSE(process_of(child));
}

TEST(Tasks, ArgumentsAreJoined) {
  pid_t child = fork();
  if (child == 0) {
    execlp("sleep", "sleep", "30", static_cast<char*>(nullptr));
    _exit(127);
  }
  for (int i = 0; i < 1000 && cmdline_of(child) != "sleep 30"; ++i) usleep(5000);
  EXPECT_EQ(cmdline_of(child), "sleep 30");
  EXPECT_EQ(comm_of(child), "sleep");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace stalltrace::kernel

// Reports built by hand: the shapes that the outputs have to cope with.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "userspace/kernel/devices.h"
#include "userspace/model/dist.h"
#include "userspace/report/report.h"

namespace stalltrace::report::samples {

inline constexpr uint64_t kMs = 1000000;
inline constexpr uint64_t kSecond = 1000 * kMs;
inline constexpr uint32_t kLoop0 = kernel::make_kdev(7, 0);
inline constexpr uint64_t kStart = 500 * kSecond + 123;  // of the window, monotonic

inline blame::Root root(blame::RootKind kind, uint64_t ns, uint32_t dev = 0,
                        blame::TaskName task = {}) {
  return {kind, dev, std::move(task), ns, blame::Sure::kMeasured};
}

inline blame::Cause leaf(blame::CauseKind kind, std::string text, uint64_t start_ns, uint64_t ns,
                         blame::Root root) {
  blame::Cause cause;
  cause.kind = kind;
  cause.text = std::move(text);
  cause.start_ns = start_ns;
  cause.ns = ns;
  cause.root = std::move(root);
  cause.root.ns = ns;
  return cause;
}

inline blame::Cause link(blame::CauseKind kind, std::string id, std::string text,
                         std::vector<blame::Cause> causes) {
  blame::Cause cause;
  cause.kind = kind;
  cause.id = std::move(id);
  cause.text = std::move(text);
  cause.start_ns = causes.front().start_ns;
  for (const blame::Cause& one : causes) cause.ns += one.ns;
  cause.causes = std::move(causes);
  return cause;
}

inline Report empty_report() {
  Report report;
  report.version = "0.1.0";
  report.command = {"stalltrace", "run", "chunk-server", "--dir", "/mnt", "--runtime", "20s"};
  report.kernel = "6.18.0";
  report.arch = "x86_64";
  report.cpus = 2;
  report.start_unix_ns = 1700000000123456789;
  report.start_ns = kStart;
  report.end_ns = kStart + 20 * kSecond;
  report.threshold_ns = 10 * kMs;
  report.hooks = {{"sched_switch", "tp_btf", true, ""},
                  {"file_entry", "sys_enter tracepoints", true, "fentry is refused (EPERM)"}};
  DeviceInfo device;
  device.dev = device.fs_dev = kLoop0;
  device.name = "loop0";
  device.fs = "ext4";
  device.mountpoint = "/mnt";
  device.options = "rw,relatime,data=ordered";
  device.write_cache = "write back";
  device.has_journal = true;
  report.devices = {device};
  report.overhead.bpf_ns = 123456789;
  report.overhead.bpf_runs = 456789;
  report.overhead.bpf_cpu_share = 0.0031;
  report.overhead.self_cpu_s = 0.42;
  report.overhead.self_rss_mib = 35.1;
  return report;
}

// A stall of 1.91 s, of which 1.84 s were a flush three links away.
inline blame::Stall mission_stall(uint64_t at_ns = 12204 * kMs) {
  blame::Stall stall;
  stall.id = 1;
  stall.kind = wire::CALL_IO_SUBMIT;
  stall.task = {4242, 4240, "fio"};
  stall.dev = stall.fs_dev = kLoop0;
  stall.ino = 1311;
  stall.path = "/mnt/chunk-017";
  stall.start_ns = kStart + at_ns;
  stall.ns = 1910 * kMs + 345;

  uint64_t locked_ns = 1860 * kMs + 345;
  uint64_t flush_ns = 1840 * kMs + 1;
  auto flush = leaf(blame::CauseKind::kFlush, "commit 8840 was waiting for a flush of loop0",
                    stall.start_ns, flush_ns, root(blame::RootKind::kDeviceFlush, 0, kLoop0));
  flush.id = "77";
  flush.dev = kLoop0;
  auto log = leaf(blame::CauseKind::kRequest, "commit 8840 was waiting for journal writes to loop0",
                  stall.start_ns + flush_ns, locked_ns - flush_ns,
                  root(blame::RootKind::kDeviceWrite, 0, kLoop0));
  log.dev = kLoop0;
  auto buffer =
      link(blame::CauseKind::kCommit, "8840",
           "that buffer: inode table block 1050, being written by commit 8840", {flush, log});
  auto handle =
      link(blame::CauseKind::kHandle, "8841/4250",
           "the handle: fio[4250] (inode update), itself waiting in journal.buffer", {buffer});
  handle.task = {4250, 4240, "fio"};
  handle.sure = blame::Sure::kInferred;
  handle.evidence = {"its task woke the journal thread"};
  auto commit = link(blame::CauseKind::kCommit, "8841",
                     "commit 8841 was locked, waiting for 1 open handle", {handle});
  commit.dev = kLoop0;

  blame::Part locked;
  locked.wait_class = kernel::WaitClass::kJournalLocked;
  locked.start_ns = stall.start_ns;
  locked.ns = locked_ns;
  locked.stack = {
      "start_this_handle",  "jbd2__journal_start", "__ext4_journal_start_sb", "ext4_dirty_inode",
      "__mark_inode_dirty", "file_update_time",    "ext4_file_write_iter",    "aio_write"};
  locked.causes = {commit};
  blame::Part cpu;
  cpu.wait_class = kernel::WaitClass::kCpuWait;
  cpu.start_ns = locked.start_ns + locked.ns;
  cpu.ns = stall.ns - locked.ns;
  cpu.root = root(blame::RootKind::kTaskRunnable, cpu.ns, 0, {99, 99, "kworker/1:2"});
  stall.parts = {locked, cpu};
  stall.roots = {root(blame::RootKind::kDeviceFlush, flush_ns, kLoop0), cpu.root,
                 root(blame::RootKind::kDeviceWrite, locked_ns - flush_ns, kLoop0)};
  return stall;
}

// A call of which nothing is known but the time, all of it on one root.
inline blame::Stall simple_stall(uint64_t id, wire::wire_call_kind kind, uint64_t at_ns,
                                 uint64_t ns, kernel::WaitClass wait_class, blame::RootKind why) {
  blame::Stall stall;
  stall.id = id;
  stall.kind = kind;
  stall.task = {static_cast<uint32_t>(5000 + id), 5000, "worker"};
  stall.dev = stall.fs_dev = kLoop0;
  stall.ino = 100 + id;
  stall.path = fmt::format("/mnt/file-{:03}", id);
  stall.start_ns = kStart + at_ns;
  stall.ns = ns;
  blame::Part part;
  part.wait_class = wait_class;
  part.start_ns = stall.start_ns;
  part.ns = ns;
  part.stack = {"folio_wait_bit_common", "ext4_sync_file", "vfs_fsync_range"};
  part.root = root(why, ns, kLoop0);
  stall.parts = {part};
  stall.roots = {part.root};
  return stall;
}

inline void add_totals(Report& report) {
  std::map<kernel::WaitClass, WaitShare> waits;
  std::map<blame::RootKind, RootShare> roots;
  for (const blame::Stall& stall : report.stalls) {
    for (const blame::Part& part : stall.parts) {
      WaitShare& share = waits[part.wait_class];
      share.wait_class = part.wait_class;
      share.dev = kLoop0;
      share.ns += part.ns;
      ++share.stalls;
    }
    for (const blame::Root& root : stall.roots) {
      RootShare& share = roots[root.kind];
      share.kind = root.kind;
      share.dev = root.dev;
      share.ns += root.ns;
      ++share.stalls;
    }
  }
  for (const auto& [key, share] : waits) report.waits.push_back(share);
  for (const auto& [key, share] : roots) report.roots.push_back(share);
  auto longer = [](const auto& a, const auto& b) { return a.ns > b.ns; };
  std::sort(report.waits.begin(), report.waits.end(), longer);
  std::sort(report.roots.begin(), report.roots.end(), longer);
}

inline Report mission_report() {
  Report report = empty_report();
  report.stalls = {mission_stall()};
  add_totals(report);
  return report;
}

// Forty submitters behind one commit, each a little shorter than the one before.
inline Report herd_report() {
  Report report = empty_report();
  for (uint32_t i = 0; i < 40; ++i) {
    blame::Stall stall = mission_stall(12204 * kMs + i * 10 * kMs);
    stall.id = i + 1;
    stall.task = {4242 + i, 4240, fmt::format("chunk-{:02}", i)};
    stall.path = fmt::format("/mnt/chunk-{:03}", i);
    stall.ino = 1311 + i;
    uint64_t less_ns = uint64_t{i} * 10 * kMs;
    stall.ns -= less_ns;
    stall.parts[0].ns -= less_ns;
    stall.parts[1].start_ns -= less_ns;
    blame::Cause* cause = stall.parts[0].causes.data();
    while (true) {
      cause->ns -= less_ns;
      if (cause->causes.empty()) break;
      cause = cause->causes.data();
    }
    cause->root.ns -= less_ns;
    blame::Cause* parent = stall.parts[0].causes.data();
    while (parent->causes.size() == 1) parent = parent->causes.data();
    parent->causes[1].start_ns -= less_ns;
    stall.roots[0].ns -= less_ns;
    report.stalls.push_back(stall);
  }
  add_totals(report);
  return report;
}

inline Dist dist_ms(std::vector<uint64_t> samples_ms) {
  for (uint64_t& sample : samples_ms) sample *= kMs;
  return model::dist_of_samples(std::move(samples_ms));
}

inline Report quiet_report() {
  Report report = empty_report();
  report.ops = {{wire::CALL_IO_SUBMIT, kLoop0,
                 model::dist_of_samples(std::vector<uint64_t>(12034, 12345)), 0, 0},
                {wire::CALL_FDATASYNC, kLoop0, dist_ms({1, 2, 3, 4, 5}), 0, 0}};
  return report;
}

inline Report loss_report() {
  Report report = mission_report();
  report.loss.events = 1204;
  report.loss.stalls = 1;
  report.loss.map_full = 7;
  return report;
}

// Names that attack a terminal or a JSON parser.
inline Report hostile_report() {
  Report report = mission_report();
  blame::Stall& stall = report.stalls.front();
  stall.task.comm = "\x1b[31mred\x07\xff\xc0\xaf";
  stall.path =
      "/mnt/\x1b]0;title\x07/line\nbreak\r\t\x7f\xe2\x80\xae"
      "gpj.exe \xed\xa0\x80 \xf0\x9f\x92\xa9 \xc2\x9b"
      "31m\"\\";
  stall.parts[0].stack[0] = "\x1b[2Jclear";
  stall.parts[0].causes[0].text = "text\x1b[0m with\nline \xfe";
  report.devices[0].mountpoint = "/mnt/\x1b[5m\n";
  report.devices[0].name = "lo\xffop0";
  report.command = {"stalltrace", "trace", "--", "sh", "-c", "printf '\x1b[1m\xff'\n"};
  report.notes = {"a note with \x1b[31m and \n a break"};
  report.missing_results = {"result \x9b"};
  report.hooks.push_back({"hook\x1b", "none", false, "why\n\xff"});
  report.culprits = {{{1, 1, "\x1b"}, "/\n", "\xff", kMs, 1}};
  report.workload = {{"key\xff\x1b", "value\x1b\xff"}, {"list", {"\x1b[1m", "\xfe"}}};
  report.probe = {{"requests", {{{"at_us", "no\xff"}, {"us", nullptr}}}}, {"\x1b", 1}};
  return report;
}

// Everything that a report can hold, at once.
inline Report full_report() {
  Report report = herd_report();
  report.notes = {"/mnt/other: ext4 without a journal: no journal chains there"};
  report.missing_results = {"holders of inode locks"};
  report.hooks.push_back({"contention_begin", "none", false, "not in this kernel"});
  for (uint64_t i = 0; i < 30; ++i) {
    report.stalls.push_back(
        simple_stall(100 + i, i % 2 == 0 ? wire::CALL_FDATASYNC : wire::CALL_WRITE, i * 600 * kMs,
                     20 * kMs + i * 1234567,
                     i % 2 == 0 ? kernel::WaitClass::kBlockFlush : kernel::WaitClass::kBlockTag,
                     i % 2 == 0 ? blame::RootKind::kDeviceFlush : blame::RootKind::kDeviceQueue));
  }
  blame::Stall unknown = simple_stall(200, wire::CALL_RENAME, 3 * kSecond, 2500 * kMs,
                                      kernel::WaitClass::kOther, blame::RootKind::kUnexplained);
  unknown.unfinished = true;
  unknown.cut = blame::Cut::kEnd;
  unknown.parts[0].stack = std::vector<std::string>(20, "some_long_kernel_function_name_here");
  unknown.path = "/mnt/" + std::string(150, 'd') + "/the-name-at-the-end";
  report.stalls.push_back(unknown);
  report.waits.clear();
  report.roots.clear();
  add_totals(report);
  report.ops = {
      {wire::CALL_IO_SUBMIT, kLoop0, dist_ms({1, 1, 1, 2, 5, 1900}), 40, 68600 * kMs + 13800},
      {wire::CALL_FDATASYNC, kLoop0, dist_ms({3, 4, 5, 1900}), 15, 1234567},
      {wire::CALL_READ, kLoop0, dist_ms({1, 1, 1}), 0, 0}};
  AsyncStats async;
  async.kind = "aio";
  async.dev = kLoop0;
  async.latency = dist_ms({10, 20, 1900});
  async.parts = {{"submit", dist_ms({1, 2, 1000})},
                 {"queue", dist_ms({3, 4, 500})},
                 {"device", dist_ms({5, 12, 300})},
                 {"complete", dist_ms({1, 2, 100})}};
  AsyncSlow slow;
  slow.task = {4242, 4240, "fio"};
  slow.dev = kLoop0;
  slow.start_ns = kStart + 7 * kSecond;
  slow.ns = 1900 * kMs;
  slow.submit_ns = 1000 * kMs;
  slow.queue_ns = 500 * kMs;
  slow.device_ns = 300 * kMs;
  slow.complete_ns = 100 * kMs;
  slow.user_id = 77;
  slow.roots = {root(blame::RootKind::kDeviceFlush, 1900 * kMs, kLoop0)};
  async.slow = {slow};
  report.async = {async};
  report.culprits = {{{4250, 4240, "fio"}, "/mnt/chunk-025", "inode update", 70 * kSecond, 39},
                     {{812, 812, "jbd2/loop0-8"}, "", "committing", 3 * kSecond, 4}};
  CommitStats commit;
  commit.dev = kLoop0;
  commit.count = 13;
  commit.proc_count = 13;
  commit.syncs_per_commit = model::dist_of_samples({1, 4, 4, 9});
  commit.phases = {{"commit.handles", dist_ms({1, 2, 1800})},
                   {"commit.log", dist_ms({1, 2, 3})},
                   {"commit.record", dist_ms({1500, 1500, 1510})},
                   {"total", dist_ms({1502, 1504, 3300})}};
  report.commits = {commit};
  FlushStats flush;
  flush.dev = kLoop0;
  flush.count = 27;
  flush.diskstats_count = 28;
  flush.callers_per_flush = model::dist_of_samples({1, 2, 3, 12});
  flush.queue = dist_ms({0, 0, 1400});
  flush.device = dist_ms({1500, 1501, 1502});
  flush.list = {{kStart + kSecond, 1500 * kMs + 1, 1400 * kMs, 3},
                {kStart + 4 * kSecond, 1501 * kMs, std::nullopt, 0}};
  report.flushes = {flush};
  report.locks = {{kernel::WaitClass::kLockInode,
                   kLoop0,
                   1311,
                   "/mnt/chunk-000",
                   true,
                   12,
                   4 * kSecond,
                   kSecond,
                   {{{4250, 4240, "fio"}, "fdatasync, in journal.commit", 3 * kSecond}}}};
  nlohmann::json requests = nlohmann::json::array();
  for (int i = 0; i < 20; ++i) {
    double us = i % 5 == 4 ? 1900123.5 - 10000 * i : 380 + 3 * i;
    requests.push_back(
        {{"at_us", i * 1000123.0}, {"us", us}, {"submit_us", us - 200}, {"complete_us", 200}});
  }
  report.probe = {{"latency_us",
                   {{"count", 20},
                    {"mean", 380500.25},
                    {"p50", 401},
                    {"p90", 1800000},
                    {"p99", 1860123.5},
                    {"p999", 1860123.5},
                    {"max", 1860123.5}}},
                  {"requests", requests}};
  report.workload = {
      {"scenario", "chunk-server"},
      {"engine", "libaio"},
      {"jobs", 32},
      {"written_bytes", 123456789},
      {"writes_per_s", 1234.56},
      {"runtime_s", 20.01},
      {"acknowledge_us",
       {{"count", 4000}, {"mean", 8123.4}, {"p50", 1200}, {"p99", 1900000.5}, {"max", 2100000}}},
      {"threads", {1, 4, 8}},
      {"nested", {{"errors", 0}, {"ok", true}}}};
  return report;
}

}  // namespace stalltrace::report::samples

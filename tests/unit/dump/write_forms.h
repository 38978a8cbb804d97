// Writes stacks as kernels and tools print them. Shares nothing with the parser.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace stalltrace::dump {

struct Written {
  std::string comm = "fio";
  unsigned pid = 4242;
  char state = 'D';
  std::vector<std::string> frames;
};

enum class TextForm {
  kHungNew,
  kHungSyslogQuoted,
  kHungOld,
  kSysrqW,
  kJournalctl,
  kProcStack,
  kArm64,
  kCrash,
  kPerf,
  kSystemtap,
  kLatencyStats,
  kBpftrace,
  kBcc,
  kJson,
  kFtraceHist,
};
inline constexpr std::array kAllForms{TextForm::kHungNew,      TextForm::kHungSyslogQuoted,
                                      TextForm::kHungOld,      TextForm::kSysrqW,
                                      TextForm::kJournalctl,   TextForm::kProcStack,
                                      TextForm::kArm64,        TextForm::kCrash,
                                      TextForm::kPerf,         TextForm::kSystemtap,
                                      TextForm::kLatencyStats, TextForm::kBpftrace,
                                      TextForm::kBcc,          TextForm::kJson,
                                      TextForm::kFtraceHist};

// What the kernel leaves out of /proc/PID/stack and latency_stats: functions of its section for
// scheduling and sleeping locks.
inline bool in_scheduler_section(const std::string& name) {
  static const std::set<std::string> kNames{
      "__schedule",         "schedule",      "schedule_timeout",    "io_schedule",
      "__switch_to",        "bit_wait_io",   "__wait_on_bit",       "out_of_line_wait_on_bit",
      "__cond_resched",     "_cond_resched", "io_schedule_timeout", "rwsem_down_write_failed",
      "wait_for_completion"};
  return kNames.contains(name);
}

inline std::vector<std::string> without_scheduler(const std::vector<std::string>& frames) {
  std::vector<std::string> rest;
  std::copy_if(frames.begin(), frames.end(), std::back_inserter(rest),
               [](const std::string& name) { return !in_scheduler_section(name); });
  return rest;
}

inline std::string module_of(const std::string& name) {
  if (name.starts_with("jbd2_") || name.find("journal") != std::string::npos) return " [jbd2]";
  if (name.starts_with("ext4_") || name.starts_with("__ext4_")) return " [ext4]";
  if (name.starts_with("xfs_")) return " [xfs]";
  return "";
}

// The lines of a kernel log, without prefixes.
inline std::vector<std::string> log_lines(const Written& task, bool hung, bool old) {
  std::vector<std::string> lines;
  if (hung) {
    lines.push_back(fmt::format("INFO: task {}:{} blocked for more than {} seconds.", task.comm,
                                task.pid, old ? 120 : 181));
    lines.push_back(old ? "      Tainted: G           OE    4.18.0-240.el8.x86_64 #1"
                        : "      Not tainted 6.1.0-18-amd64 #1 Debian 6.1.76-1");
    lines.emplace_back(
        "\"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables this message.");
  }
  if (old) {
    lines.push_back(task.state == 'R'
                        ? fmt::format("{:<15.15} R  running task        0 {:5} {:6} 0x00000080",
                                      task.comm, task.pid, 2)
                        : fmt::format("{:<15.15} {} ffff88003fd13b40     0 {:5} {:6} 0x00000080",
                                      task.comm, task.state, task.pid, 2));
    lines.emplace_back(" ffff88022517b7c8 0000000000000086 ffff8802261f8c80 ffff8800cf85f080");
  } else {
    lines.push_back(fmt::format(
        "task:{:<15.15} state:{}{} stack:{:5} pid:{:5} tgid:{:5} ppid:{:6} flags:0x{:08x}",
        task.comm, task.state, task.state == 'R' ? "  running task    " : "", 0, task.pid, task.pid,
        2, 0x4000));
  }
  lines.emplace_back("Call Trace:");
  if (!old) lines.emplace_back(" <TASK>");
  unsigned offset = 0x10;
  for (const std::string& frame : task.frames) {
    offset += 0x1b;
    std::string place =
        fmt::format("{}+0x{:x}/0x{:x}{}", frame, offset, offset + 0x90, module_of(frame));
    lines.push_back(old ? fmt::format(" [<ffffffff81{:06x}>] {}", offset * 257, place)
                        : " " + place);
    // Old calls that the unwinder saw on the way.
    if (offset % 4 == 0) {
      std::string stray = "? __wake_up_common_lock+0x89/0xc0";
      lines.push_back(old ? " [<ffffffff8106aaaa>] " + stray : " " + stray);
    }
  }
  if (!old) {
    lines.emplace_back(" ? __pfx_kthread+0x10/0x10");
    lines.emplace_back(" </TASK>");
  }
  return lines;
}

inline std::string join(const std::vector<std::string>& lines, const std::string& prefix,
                        const std::string& end = "\n") {
  std::string text;
  for (const std::string& line : lines) text += prefix + line + end;
  return text;
}

inline std::string write_stack(const Written& task, TextForm form) {
  std::string text;
  unsigned offset = 0x20;
  auto next = [&offset] { return offset += 0x11; };
  switch (form) {
    case TextForm::kHungNew:
      return join(log_lines(task, true, false), "[ 1234.567890] ");
    case TextForm::kHungSyslogQuoted:
      return join(log_lines(task, true, false), ">> Mar  4 12:00:01 host-7 kernel: [98765.432100] ",
                  "\r\n");
    case TextForm::kHungOld:
      return join(log_lines(task, true, true), "> ");
    case TextForm::kSysrqW:
      return "[Mon Mar  4 12:00:01 2024] sysrq: Show Blocked State\n" +
             join(log_lines(task, false, false), "[Mon Mar  4 12:00:01 2024] ");
    case TextForm::kJournalctl:
      return join(log_lines(task, true, false), "2024-03-04T12:00:01+0100 box kernel: ");
    case TextForm::kProcStack:
      text = fmt::format("==> /proc/{}/stack <==\n", task.pid);
      for (const std::string& frame : without_scheduler(task.frames)) {
        text +=
            fmt::format("[<0>] {}+0x{:x}/0x{:x}{}\n", frame, next(), offset + 9, module_of(frame));
      }
      return text;
    case TextForm::kArm64:
      text =
          fmt::format("task:{:<15.15} state:{} stack:{:<5} pid:{:<5} ppid:{:<6} flags:0x{:08x}\n",
                      task.comm, task.state, 0, task.pid, 1, 0x20c);
      text += "Call trace:\n";
      for (const std::string& frame : task.frames) {
        text += fmt::format(" {}+0x{:x}/0x{:x}{}\n", frame, next(), offset + 9,
                            offset % 3 == 0 ? " (P)" : "");
      }
      return text;
    case TextForm::kCrash:
      text = fmt::format("PID: {:<8} TASK: ffff9e3c1a2b8000  CPU: 20   COMMAND: \"{}\"\n", task.pid,
                         task.comm);
      for (size_t i = 0; i < task.frames.size(); ++i) {
        text +=
            fmt::format(" #{} [ffffb2f1c0a7f{:03x}] {}.constprop.114+{} at ffffffffbb28d741{}\n", i,
                        next(), task.frames[i], offset, module_of(task.frames[i]));
      }
      return text;
    case TextForm::kPerf:
      text = fmt::format(
          "{} {:5} [001] 17555.123456: sched:sched_switch: {}:{} [120] {} ==> "
          "swapper/1:0 [120]\n",
          task.comm, task.pid, task.comm, task.pid, task.state);
      for (const std::string& frame : task.frames) {
        text += fmt::format("\t{:16x} {} ([kernel.kallsyms])\n", 0x7fff92878491 + next(), frame);
      }
      return text + "\t    7f12345678 __libc_pwrite (/usr/lib/libc.so.6)\n\n";
    case TextForm::kSystemtap:
      for (const std::string& frame : task.frames) {
        text += fmt::format(" 0xffffffff816acfc5 : {}+0x{:x}/0x{:x} [kernel]\n", frame, next(),
                            offset + 5);
        if (offset % 2 == 0) text += " 0xffffffffc04a1d3e\n 0xffffffffc04a1d3e [xfs]\n";
      }
      return text;
    case TextForm::kLatencyStats: {
      text = "Latency Top version : v0.1\n405 28572881 2619592";
      auto frames = without_scheduler(task.frames);
      for (size_t i = 0; i < std::min<size_t>(frames.size(), 12); ++i) text += " " + frames[i];
      return text + "\n";
    }
    case TextForm::kBpftrace:
      text = "Attaching 1 probe...\n^C\n\n@[\n";
      for (const std::string& frame : task.frames) {
        text += fmt::format("        {}+{}\n", frame, next());
      }
      return text + fmt::format(", {}, {}]: 17\n", task.comm, task.pid);
    case TextForm::kBcc:
      text = "Tracing off-CPU time (us) of all threads by kernel stack... Hit Ctrl-C to end.\n\n";
      for (const std::string& frame : task.frames) text += fmt::format("    b'{}'\n", frame);
      return text +
             fmt::format("    -                {} ({})\n        2619592\n\n", task.comm, task.pid);
    case TextForm::kJson: {
      nlohmann::json list = nlohmann::json::array();
      for (const std::string& frame : task.frames) {
        list.push_back(fmt::format(" {}+0x{:x}/0x{:x}", frame, next(), offset + 5));
      }
      return list.dump() + "\n";
    }
    case TextForm::kFtraceHist:
      text = "# event histogram\n#\n\n{ delta: ~ 0-99, stack.stacktrace         ";
      for (const std::string& frame : task.frames) {
        text += fmt::format("{}+0x{:x}/0x{:x}\n         ", frame, next(), offset + 5);
      }
      return text + "} hitcount:          1\n\nTotals:\n    Hits: 1\n";
  }
  return text;
}

// Does the form say who it is?
inline bool has_pid(TextForm form) {
  return form != TextForm::kSystemtap && form != TextForm::kLatencyStats &&
         form != TextForm::kJson && form != TextForm::kFtraceHist;
}

struct Reported {
  std::string report, role, wait_class;
  Written task;
};

// Stacks from public reports.
inline std::vector<Reported> reported_stacks() {
  std::filesystem::path file =
      std::filesystem::path(__FILE__).parent_path() / "../../cases/stacks.jsonl";
  std::ifstream lines(file);
  std::vector<Reported> all;
  unsigned pid = 300;
  for (std::string line; std::getline(lines, line);) {
    auto item = nlohmann::json::parse(line);
    Reported one{item["report"], item["role"], item["wait_class"], {}};
    std::string task = item["task"];
    one.task.comm = task.substr(0, task.find('('));
    one.task.pid = pid += 11;
    one.task.state = item["state"].get<std::string>()[0];
    one.task.frames = item["frames"].get<std::vector<std::string>>();
    all.push_back(one);
  }
  return all;
}

inline std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    if (word != "<" && !word.empty()) list.push_back(word);
    at = end + 1;
  }
  return list;
}

// A sysrq-w of several tasks.
inline std::string sysrq(const std::vector<Written>& tasks,
                         const std::string& title = "sysrq: Show Blocked State") {
  std::string text = "[ 2000.000000] " + title + "\n";
  for (const Written& task : tasks) text += join(log_lines(task, false, false), "[ 2000.000001] ");
  return text;
}

inline std::vector<Written> of_report(const std::string& report) {
  std::vector<Written> tasks;
  for (const Reported& one : reported_stacks()) {
    if (one.report == report) tasks.push_back(one.task);
  }
  return tasks;
}

}  // namespace stalltrace::dump

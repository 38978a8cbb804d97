#include "userspace/dump/parse.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "userspace/dump/parser.h"
#include "userspace/kernel/frames.h"
#include "userspace/kernel/wait_class.h"

namespace stalltrace::dump {
namespace {

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [text](std::string_view one) { return text.starts_with(one); });
}

}  // namespace

std::string_view name_of(Form form) {
  switch (form) {
    case Form::kKernelLog:
      return "kernel log";
    case Form::kOnCpu:
      return "CPU backtrace";
    case Form::kProcStack:
      return "/proc/PID/stack";
    case Form::kCrash:
      return "crash bt";
    case Form::kPerf:
      return "perf script";
    case Form::kSystemtap:
      return "systemtap";
    case Form::kLatencyStats:
      return "latency_stats";
    case Form::kBpftrace:
      return "bpftrace";
    case Form::kBcc:
      return "bcc";
    case Form::kJson:
      return "JSON list";
    case Form::kFtrace:
      return "ftrace";
    case Form::kPlain:
      return "list of functions";
  }
  return "";
}

bool Parser::is_loose() const {
  return task_.form != Form::kKernelLog && task_.form != Form::kOnCpu && task_.form != Form::kCrash;
}

// Single words are a stack only if some of them are the kernel's.
void Parser::discard_unless_kernel_stack() {
  if (task_.form != Form::kPlain && task_.form != Form::kBcc && task_.form != Form::kBpftrace &&
      task_.form != Form::kJson) {
    return;
  }
  std::vector<std::string_view> names;
  for (const Frame& frame : task_.frames) names.push_back(frame.symbol);
  bool scheduler = std::any_of(names.begin(), names.end(), kernel::is_generic);
  bool entry = std::any_of(names.begin(), names.end(), [](std::string_view name) {
    return starts_with_any(name, {"entry_SYSCALL", "do_syscall_", "ret_from_fork", "sys_", "__x64_",
                                  "system_call", "el0_svc"}) ||
           name == "kthread";
  });
  bool known = scheduler || entry || !kernel::match_wait(names).row.empty();
  if (names.size() < 2 || !known) task_.frames.clear();
}

void Parser::end_stack() {
  if (open_ == Open::kStack) {
    discard_unless_kernel_stack();
    if (!task_.frames.empty()) dump_.tasks.push_back(std::move(task_));
  }
  open_ = Open::kNothing;
  task_ = {};
  in_interrupt_ = false;
  expects_task_end_ = false;
  in_json_list_ = false;
  trace_begun_ = false;
}

Task& Parser::begin(Form form) {
  end_stack();
  task_.form = form;
  task_.line = dump_.lines;
  open_ = Open::kStack;
  return task_;
}

void Parser::begin_with(const Header& header) {
  end_stack();
  task_.comm = header.comm;
  task_.pid = header.pid;
  task_.state = header.state;
  task_.on_cpu = header.on_cpu;
  task_.line = dump_.lines;
  task_.blocked_s = header.blocked_s;
  switch (header.kind) {
    case Header::Kind::kOnCpu:
      task_.form = Form::kOnCpu;
      break;
    case Header::Kind::kCrash:
      task_.form = Form::kCrash;
      break;
    case Header::Kind::kPerf:
      task_.form = Form::kPerf;
      break;
    default:
      break;
  }
  if (header.kind == Header::Kind::kTask && hung_ && hung_->pid == header.pid) {
    task_.blocked_s = hung_->blocked_s;
  }
  if (clock_s_ >= 0) {
    dump_.first_s = dump_.first_s < 0 ? clock_s_ : std::min(dump_.first_s, clock_s_);
    dump_.last_s = std::max(dump_.last_s, clock_s_);
  }
  hung_.reset();
  title_.reset();
  open_ = Open::kHeader;
}

void Parser::add(const FrameLine& frame) {
  if (in_interrupt_) return;
  open_ = Open::kStack;
  if (!frame.symbol.empty()) task_.frames.push_back({frame.symbol, frame.unreliable});
}

void Parser::add_alone(std::vector<FrameLine> frames, Form form) {
  begin(form);
  for (const FrameLine& frame : frames) add(frame);
}

// "Call Trace:", "<IRQ>", "</TASK>" and the like, in lines of their own or before a frame.
bool Parser::trace_start(std::string_view& text) {
  if (starts_with_any(text, {"Call Trace:", "Call trace:", "Backtrace:", "Call Trace :"})) {
    // Of one header there may be an interrupt's and the task's; without one it is another task's.
    // "RIP: ..." over a CPU's trace is its first frame.
    bool only_rip = task_.form == Form::kOnCpu && !trace_begun_;
    bool has_trace = open_ == Open::kStack && (!task_.frames.empty() || is_loose()) && !only_rip;
    if (has_trace && !in_interrupt_) end_stack();
    if (open_ == Open::kNothing) {
      if (hung_) {
        begin_with(*hung_);
      } else {
        begin(Form::kKernelLog);
      }
    }
    open_ = Open::kStack;
    trace_begun_ = true;
    text = trimmed(text.substr(11));
    return text.empty();
  }
  while (text.starts_with('<') || text.starts_with("--- <")) {
    if (text.starts_with("---")) text.remove_prefix(4);
    size_t close = text.find('>');
    if (close == kNowhere || close > 16) return false;
    std::string_view tag = text.substr(1, close - 1);
    if (tag == "IRQ" || tag == "NMI" || tag == "SOFTIRQ" || tag.starts_with('#') ||
        tag == "NMI exception stack" || tag == "IRQ stack") {
      // crash shows the interrupt first and then the task below it.
      in_interrupt_ = !tag.ends_with("stack");
    } else if (tag == "EOI" || tag == "EOE" || tag == "/IRQ" || tag == "/NMI" ||
               tag == "/SOFTIRQ" || tag.starts_with("/#") || tag == "<EOE" || tag == "<EOI") {
      in_interrupt_ = false;
    } else if (tag == "TASK") {
      in_interrupt_ = false;
      expects_task_end_ = true;
    } else if (tag == "/TASK") {
      end_stack();
    } else {
      return false;
    }
    text = trimmed(text.substr(close + 1));
    while (text.starts_with('>')) text = trimmed(text.substr(1));
    if (text.empty() || text == "---") return true;
  }
  return false;
}

bool Parser::lock_line(std::string_view text) {
  if (auto owner = parse_lock_owner(text)) {
    end_stack();
    lock_owner_ = owner->pid;
    lock_owner_comm_[owner->pid] = owner->comm;
    locks_[owner->pid].clear();
    dump_.has_locks = true;
    return true;
  }
  if (lock_owner_) {
    if (auto lock = parse_held_lock(text)) {
      locks_[*lock_owner_].push_back(*lock);
      return true;
    }
  }
  return false;
}

bool Parser::marker_line(std::string_view text) {
  if (text.starts_with("Workqueue: ")) {
    std::string_view work = trimmed(text.substr(11));
    if (open_ != Open::kNothing) task_.workqueue = std::string(work);
    return true;
  }
  if (text.find("Show Blocked State") != kNowhere || text.find("Show blocked tasks") != kNowhere) {
    end_stack();
    saw_blocked_list_ = true;
    return true;
  }
  if (text.find("Show State") != kNowhere && text.find("ysrq") != kNowhere) {
    end_stack();
    dump_.sysrq_all = true;
    return true;
  }
  if (text.find("SysRq : Show State") != kNowhere) {
    end_stack();
    dump_.sysrq_all = true;
    return true;
  }
  if (text.starts_with("RIP: 0010:") && open_ == Open::kHeader) {
    // Where the CPU was; the trace below it begins with the caller.
    if (auto frame = parse_frame(text.substr(10))) add(*frame);
    if (task_.frames.empty()) open_ = Open::kHeader;
    return true;
  }
  if (text.starts_with("------------[ cut here") || text.starts_with("---[ end trace") ||
      text.starts_with("Showing busy workqueues") || text.starts_with("Sched Debug Version") ||
      text.starts_with("Showing all locks held")) {
    end_stack();
    return true;
  }
  return false;
}

bool Parser::structure_line(std::string_view text) {
  if (text.empty()) {
    if (open_ == Open::kStack && is_loose() && !in_key_ && !in_json_list_) end_stack();
    file_.reset();
    return true;
  }
  if (trace_start(text)) return true;
  if (lock_line(text)) return true;
  if (marker_line(text)) return true;
  if (auto blocked = parse_blocked_by(text)) {
    blocked_by_[blocked->pid] = blocked->by;
    return true;
  }
  if (histogram_line(text)) return true;
  return false;
}

bool Parser::frame_line(std::string_view text) {
  auto frame = parse_frame(text);
  if (!frame) return false;
  bool in_stack = open_ == Open::kStack;
  auto continue_or_begin = [&](Form form, std::initializer_list<Form> also = {}) {
    bool fits = in_stack && (task_.form == form ||
                             std::find(also.begin(), also.end(), task_.form) != also.end());
    if (!fits) begin(form);
  };
  switch (frame->shape) {
    case Shape::kProc: {
      bool fresh = !in_stack || task_.form != Form::kProcStack;
      std::optional<Title> title = take_title();
      if (fresh || title) {
        begin(Form::kProcStack);
        if (title) {
          task_.pid = title->pid;
          task_.comm = title->comm;
          task_.state = title->state;
        }
      }
      break;
    }
    case Shape::kOffsets:
    case Shape::kAddress:
    case Shape::kSource:
      if (in_key_ && in_stack) break;
      if (open_ == Open::kHeader) {
        // A title above a stack whose header said all.
        break;
      }
      if (in_stack && (!is_loose() || task_.form == Form::kProcStack || task_.form == Form::kBcc ||
                       task_.form == Form::kFtrace)) {
        break;
      }
      if (hung_) {
        begin_with(*hung_);
      } else {
        std::optional<Title> title = take_title();
        begin(title ? Form::kProcStack : Form::kKernelLog);
        if (title) {
          task_.pid = title->pid;
          task_.comm = title->comm;
          task_.state = title->state;
        }
      }
      break;
    case Shape::kCrash:
      if (open_ != Open::kHeader) continue_or_begin(Form::kCrash);
      break;
    case Shape::kPerf:
      if (open_ != Open::kHeader) continue_or_begin(Form::kPerf);
      break;
    case Shape::kSystemtap:
      if (frame->symbol.empty() && !in_stack) return true;
      continue_or_begin(Form::kSystemtap);
      break;
    case Shape::kArrow:
      continue_or_begin(Form::kFtrace);
      break;
    case Shape::kDecimal:
      if (!in_key_ || !in_stack) continue_or_begin(Form::kBpftrace, {Form::kPlain});
      break;
    case Shape::kBcc:
      continue_or_begin(Form::kBcc, {Form::kPlain});
      if (task_.form == Form::kPlain) task_.form = Form::kBcc;
      break;
    case Shape::kBare:
      if (in_key_ && in_stack) break;
      if (in_stack && !is_loose()) return false;
      if (open_ == Open::kHeader) return false;
      // A name alone in a line may also be the task's, over its /proc/PID/stack.
      title_ = Title{.comm = std::string(text)};
      title_line_ = dump_.lines;
      continue_or_begin(Form::kPlain, {Form::kBcc, Form::kBpftrace, Form::kPerf});
      break;
  }
  add(*frame);
  return true;
}

void Parser::line(std::string_view raw, size_t number) {
  dump_.lines = number;
  Line cleaned = clean_line(raw);
  if (cleaned.foreign) return;
  if (cleaned.kernel_s >= 0) clock_s_ = cleaned.kernel_s;
  std::string_view text = trimmed(cleaned.text);
  // "/proc/12/stack:[<0>] sym+0x1/0x2", as grep prints it.
  std::string_view rest;
  if (auto path = take_proc_path(text, rest)) {
    rest = trimmed(rest);
    if (path->file == "stack" && !rest.empty()) {
      bool same = open_ == Open::kStack && task_.form == Form::kProcStack && task_.pid == path->pid;
      if (!same) {
        begin(Form::kProcStack);
        task_.pid = path->pid;
      }
      if (auto frame = parse_frame(rest)) add(*frame);
      return;
    }
    if (!rest.empty()) {
      end_stack();
      file_ = path;
      frame_of_file(rest);
      file_.reset();
      return;
    }
  }
  if (structure_line(text)) return;
  // structure_line may have taken a tag off its own copy; frames behind "<EOI>" are rare enough to
  // take it off again here.
  while (text.starts_with('<')) {
    size_t close = text.find('>');
    if (close == kNowhere || close > 8) break;
    text = trimmed(text.substr(close + 1));
  }
  if (file_ && frame_of_file(text)) return;
  if (frame_line(text)) return;
  if (auto header = parse_header(text, !cleaned.logged)) {
    lock_owner_.reset();
    if (header->kind == Header::Kind::kAfter) {
      if (open_ == Open::kStack && is_loose()) {
        task_.comm = header->comm;
        task_.pid = header->pid;
        end_stack();
      }
      return;
    }
    if (header->kind == Header::Kind::kHung) {
      end_stack();
      hung_ = header;
      saw_hung_ = true;
      return;
    }
    if (header->kind == Header::Kind::kOnCpu && hung_) {
      // A hung-task report on old kernels has no such line; what follows is another event.
      hung_.reset();
    }
    if (std::string_view release = kernel_release_in(text); !release.empty()) {
      dump_.kernel = release;
    }
    begin_with(*header);
    return;
  }
  if (std::string_view release = kernel_release_in(text); !release.empty()) {
    dump_.kernel = release;
    return;
  }
  if (latency_line(text)) return;
  if (json_line(text)) return;
  if (auto chain = parse_chain(text); !chain.empty()) {
    add_alone(std::move(chain), Form::kPlain);
    end_stack();
    return;
  }
  bool ends = open_ == Open::kStack && is_loose() && !in_key_ && !in_json_list_ &&
              task_.form != Form::kSystemtap && !cleaned.logged;
  // bcc's errors and its time behind a stack are single numbers.
  if (ends) end_stack();
  if (!cleaned.logged) remember_title(text);
}

Dump Parser::finish() {
  dump_.cut = open_ == Open::kHeader || expects_task_end_;
  end_stack();
  for (Task& task : dump_.tasks) {
    auto known = known_.find(task.pid);
    if (task.pid == 0 || known == known_.end()) continue;
    if (task.comm.empty()) task.comm = known->second.comm;
    if (task.state == 0) task.state = known->second.state;
  }
  // Of several reports of one task the last counts, in the place of the first.
  std::unordered_map<uint32_t, size_t> first;
  std::vector<Task> kept;
  kept.reserve(dump_.tasks.size());
  std::vector<Task> all = std::move(dump_.tasks);
  for (Task& task : all) {
    if (task.pid == 0) {
      kept.push_back(std::move(task));
      continue;
    }
    auto [at, is_new] = first.try_emplace(task.pid, kept.size());
    if (is_new) {
      kept.push_back(std::move(task));
      continue;
    }
    Task& before = kept[at->second];
    bool same_name = before.comm == task.comm || before.comm.empty() || task.comm.empty();
    if (!same_name) {  // an id used again
      at->second = kept.size();
      kept.push_back(std::move(task));
      continue;
    }
    bool same_stack = std::equal(
        before.frames.begin(), before.frames.end(), task.frames.begin(), task.frames.end(),
        [](const Frame& a, const Frame& b) { return a.symbol == b.symbol; });
    task.times_seen = before.times_seen + 1;
    task.moved = before.moved || !same_stack;
    task.blocked_s = std::max(task.blocked_s, before.blocked_s);
    if (task.comm.empty()) task.comm = before.comm;
    if (task.state == 0) task.state = before.state;
    if (task.workqueue.empty()) task.workqueue = before.workqueue;
    before = std::move(task);
  }
  for (Task& task : kept) {
    if (task.pid == 0) continue;
    if (auto locks = locks_.find(task.pid); locks != locks_.end()) {
      task.locks = std::move(locks->second);
      locks_.erase(locks);
    }
    if (auto by = blocked_by_.find(task.pid); by != blocked_by_.end()) task.blocked_by = by->second;
  }
  // Who holds locks without a stack here may still be the one that others wait for.
  for (auto& [pid, locks] : locks_) {
    if (locks.empty()) continue;
    Task task;
    task.pid = pid;
    task.comm = lock_owner_comm_[pid];
    task.locks = std::move(locks);
    kept.push_back(std::move(task));
  }
  dump_.tasks = std::move(kept);
  dump_.lists_blocked_only = (saw_hung_ || saw_blocked_list_) && !dump_.sysrq_all;
  return std::move(dump_);
}

namespace {

struct RawLine {
  std::string_view text;
  size_t number = 0;  // from 1
  size_t caller = 0;  // in the order in which they appear; 0: the line names none
};

std::vector<RawLine> lines_of(std::string_view text) {
  std::vector<RawLine> lines;
  std::unordered_map<std::string_view, size_t> callers;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    // A log that a crash cut off holds runs of zero bytes.
    while (line.starts_with('\0')) line.remove_prefix(1);
    line = line.substr(0, line.find('\0'));
    std::string_view caller = clean_line(line).caller;
    size_t number =
        caller.empty() ? 0 : callers.try_emplace(caller, callers.size() + 1).first->second;
    lines.push_back({line, lines.size() + 1, number});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  // Two that print at a time (CONFIG_PRINTK_CALLER tells them apart) do not finish each other's
  // stacks.
  if (callers.size() > 1) {
    std::stable_sort(lines.begin(), lines.end(),
                     [](const RawLine& a, const RawLine& b) { return a.caller < b.caller; });
  }
  return lines;
}

}  // namespace

Dump parse(std::string_view text) {
  Parser parser;
  std::vector<RawLine> lines = lines_of(text);
  for (const RawLine& line : lines) parser.line(line.text, line.number);
  Dump dump = parser.finish();
  dump.lines = lines.size();
  return dump;
}

std::string plain_text(std::string_view text) {
  bool has_newlines = text.find('\n') != std::string_view::npos;
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      // A control sequence ends with its first letter (ECMA-48).
      i += 2;
      while (i < text.size() && !(text[i] >= '@' && text[i] <= '~')) ++i;
    } else if (text[i] == '\r' && !has_newlines) {
      plain += '\n';
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace stalltrace::dump

#include "userspace/dump/header.h"

#include <algorithm>
#include <array>
#include <vector>

#include "userspace/dump/frame.h"
#include "userspace/dump/line.h"

namespace stalltrace::dump {
namespace {

constexpr std::string_view kStates = "RSDTtXZPIWKN";

bool is_state(std::string_view word) {
  return word.size() == 1 && kStates.find(word[0]) != kNowhere;
}

// The number behind `key`, which blanks may follow.
std::string_view value_after(std::string_view text, std::string_view key) {
  size_t at = text.find(key);
  if (at == kNowhere) return {};
  text.remove_prefix(at + key.size());
  return take_word(text);
}

// "fio:12": names may hold colons.
bool split_task(std::string_view text, std::string& comm, uint32_t& pid) {
  size_t colon = text.rfind(':');
  if (colon == kNowhere || colon == 0) return false;
  pid = to_id(text.substr(colon + 1));
  comm = std::string(trimmed(text.substr(0, colon)));
  return pid != 0;
}

std::optional<Header> parse_hung(std::string_view text) {
  constexpr std::string_view kBegin = "INFO: task ";
  size_t begin = text.find(kBegin);
  if (begin == kNowhere) return {};
  text.remove_prefix(begin + kBegin.size());
  size_t blocked = text.find(" blocked ");
  constexpr std::string_view kFor = "for more than ";
  size_t more = blocked == kNowhere ? kNowhere : text.find(kFor, blocked);
  if (more == kNowhere) return {};
  Header header{.kind = Header::Kind::kHung, .state = 'D'};
  if (!split_task(text.substr(0, blocked), header.comm, header.pid)) return {};
  std::string_view rest = text.substr(more + kFor.size());
  if (auto seconds = to_number(take_word(rest))) header.blocked_s = *seconds;
  return header;
}

// "task:jbd2/sda9-8   state:D stack:    0 pid:  287 ppid:     2 flags:0x00004000", since 5.11.
std::optional<Header> parse_new_task(std::string_view text) {
  if (!text.starts_with("task:")) return {};
  size_t state = text.find(" state:");
  if (state == kNowhere || state + 7 >= text.size()) return {};
  Header header;
  header.comm = std::string(trimmed(text.substr(5, state - 5)));
  header.state = text[state + 7];
  std::string_view rest = text.substr(state + 8);
  // "pid:" is also the end of "tgid:"'s neighbour "ppid:".
  header.pid = to_id(value_after(rest, " pid:"));
  return header;
}

// "jbd2/sda9-8     D ffff88003fd13b40     0   287      2 0x00000000", "bash  R  running task ...".
std::optional<Header> parse_old_task(std::string_view text) {
  // 2.6: a list of relatives and "(L-TLB)" or "(NOTLB)" stand at the end.
  std::string_view last = last_word(text);
  bool old_end = last.starts_with('(') && last.ends_with("TLB)");
  if (!old_end && !(last.starts_with("0x") && is_hex(last.substr(2)))) return {};
  std::vector<std::string_view> words;
  std::string_view rest = text;
  while (words.size() <= 16) {
    std::string_view word = take_word(rest);
    if (word.empty()) break;
    words.push_back(word);
  }
  if (words.size() < 5 || words.size() > 16) return {};
  // The name may hold blanks and single letters: the last word that fits is the state.
  for (size_t i = words.size() - 1; i-- > 1;) {
    if (!is_state(words[i])) continue;
    size_t next = i + 1;
    if (next + 1 < words.size() && words[next] == "running" && words[next + 1] == "task") {
      next += 2;
    } else if (next < words.size() && words[next].size() >= 8 && is_hex(words[next])) {
      ++next;
    }
    // The free stack, then the pid.
    if (next + 1 >= words.size() || !to_number(words[next])) continue;
    uint32_t pid = to_id(words[next + 1]);
    if (pid == 0 && words[next + 1] != "0") continue;
    Header header;
    const char* end = words[i - 1].data() + words[i - 1].size();
    header.comm = std::string(words[0].data(), static_cast<size_t>(end - words[0].data()));
    header.state = words[i][0];
    header.pid = pid;
    return header;
  }
  return {};
}

std::optional<Header> parse_on_cpu(std::string_view text) {
  size_t cpu = text.find("CPU: ");
  if (cpu == kNowhere || cpu > 8) return {};
  size_t pid = text.find(" PID: ");
  constexpr std::string_view kComm = " Comm: ";
  size_t comm = text.find(kComm);
  if (pid == kNowhere || comm == kNowhere || comm < pid) return {};
  Header header{.kind = Header::Kind::kOnCpu, .state = 'R', .on_cpu = true};
  header.pid = to_id(value_after(text, " PID: "));
  std::string_view name = text.substr(comm + kComm.size());
  for (std::string_view end : {" Not tainted", " Tainted:", " Kdump:"}) {
    name = name.substr(0, name.find(end));
  }
  header.comm = std::string(trimmed(name));
  return header;
}

std::optional<Header> parse_crash_header(std::string_view text) {
  if (!text.starts_with("PID:")) return {};
  size_t command = text.find("COMMAND:");
  if (command == kNowhere || text.find("TASK:") == kNowhere) return {};
  Header header{.kind = Header::Kind::kCrash};
  header.pid = to_id(value_after(text, "PID:"));
  std::string_view name = trimmed(text.substr(command + 8));
  if (name.starts_with('"')) name.remove_prefix(1);
  if (name.ends_with('"')) name.remove_suffix(1);
  header.comm = std::string(name);
  return header;
}

char switched_out_state(std::string_view text) {
  std::string_view state = value_after(text, "prev_state=");
  if (state.empty()) {
    // "fio:12 [120] D ==> swapper/1:0 [120]"
    size_t arrow = text.find(" ==> ");
    if (arrow != kNowhere) state = last_word(text.substr(0, arrow));
  }
  return !state.empty() && kStates.find(state[0]) != kNowhere ? state[0] : '\0';
}

// "fio 12/13 [001] 17.5:   1 sched:sched_switch: prev_comm=..." or, without the cpu, "fio
// 12 17.5:".
std::optional<Header> parse_perf_header(std::string_view text) {
  if (text.size() > 1000) return {};
  std::string_view rest = text;
  std::vector<std::string_view> words;
  while (words.size() < 12) {
    std::string_view word = take_word(rest);
    if (word.empty()) break;
    words.push_back(word);
  }
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    size_t time = i + 1;
    if (words[time].starts_with('[') && words[time].ends_with(']')) ++time;
    if (time >= words.size()) break;
    std::string_view stamp = words[time];
    if (!stamp.ends_with(':')) continue;
    stamp.remove_suffix(1);
    bool is_stamp =
        stamp.find('.') != kNowhere && stamp.find_first_not_of("0123456789.") == kNowhere;
    if (!is_stamp) continue;
    std::string_view id = words[i];
    if (size_t slash = id.find('/'); slash != kNowhere) id.remove_prefix(slash + 1);
    if (!to_number(id)) continue;
    Header header{.kind = Header::Kind::kPerf};
    header.pid = to_id(id);
    const char* end = words[i - 1].data() + words[i - 1].size();
    header.comm = std::string(words[0].data(), static_cast<size_t>(end - words[0].data()));
    header.state = switched_out_state(text);
    return header;
  }
  return {};
}

// "    -                fio (12)": bcc's offcputime, behind the stack.
std::optional<Header> parse_after(std::string_view text) {
  if (!text.starts_with("- ") || !text.ends_with(')')) return {};
  size_t paren = text.rfind('(');
  if (paren == kNowhere) return {};
  Header header{.kind = Header::Kind::kAfter};
  header.pid = to_id(text.substr(paren + 1, text.size() - paren - 2));
  header.comm = std::string(trimmed(text.substr(2, paren - 2)));
  if (header.pid == 0 || header.comm.empty()) return {};
  return header;
}

// The task's id of "/proc/12/task/13/stack".
std::optional<Title> parse_proc_path(std::string_view path) {
  if (!path.starts_with("/proc/")) return {};
  size_t slash = path.rfind('/');
  if (slash <= 5) return {};
  std::string_view id = path.substr(6, slash - 6);
  if (size_t task = id.find("/task/"); task != kNowhere) id.remove_prefix(task + 6);
  Title title{.is_path = true, .file = path.substr(slash + 1)};
  title.pid = to_id(id);
  if (title.pid == 0) return {};
  return title;
}

}  // namespace

std::optional<Header> parse_header(std::string_view text, bool by_tools) {
  text = trimmed(text);
  if (text.size() < 8) return {};
  if (auto header = parse_hung(text)) return header;
  if (auto header = parse_new_task(text)) return header;
  if (auto header = parse_on_cpu(text)) return header;
  if (auto header = parse_crash_header(text)) return header;
  if (auto header = parse_old_task(text)) return header;
  if (!by_tools) return {};
  if (auto header = parse_after(text)) return header;
  return parse_perf_header(text);
}

std::optional<Title> take_proc_path(std::string_view text, std::string_view& rest) {
  if (!text.starts_with("/proc/")) return {};
  size_t colon = text.find(':');
  if (colon == kNowhere) return {};
  auto title = parse_proc_path(text.substr(0, colon));
  if (title) rest = text.substr(colon + 1);
  return title;
}

std::optional<Title> parse_title(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text.size() > 120) return {};
  if (size_t path = text.find("/proc/"); path != kNowhere) {
    std::string_view rest = text.substr(path);
    std::string_view word = take_word(rest);
    while (word.ends_with(':') || word.ends_with(',')) word.remove_suffix(1);
    return parse_proc_path(word);
  }
  size_t words = 0;
  // Whatever decorates it, the first number is the id, a single letter the state, and the first
  // other word that is no label the name.
  Title title;
  for (;; ++words) {
    std::string_view word = take_word(text);
    if (word.empty()) break;
    constexpr std::string_view kDecoration = "=-#*<>()[]{},:;'\"";
    while (!word.empty() && kDecoration.find(word.front()) != kNowhere) word.remove_prefix(1);
    while (!word.empty() && kDecoration.find(word.back()) != kNowhere) word.remove_suffix(1);
    for (std::string_view label : {"pid=", "pid:", "PID:", "PID=", "tid=", "comm=", "comm:",
                                   "state=", "state:", "Pid:", "Name:", "State:"}) {
      if (word.starts_with(label)) word.remove_prefix(label.size());
    }
    if (word.empty()) continue;
    static constexpr std::array<std::string_view, 14> kLabels{
        "pid",     "PID",   "Pid", "tid",    "TID",   "comm", "task",
        "process", "stack", "of",  "thread", "state", "cat",  "Process"};
    if (std::find(kLabels.begin(), kLabels.end(), word) != kLabels.end()) continue;
    if (title.pid == 0 && to_id(word) != 0) {
      title.pid = to_id(word);
    } else if (title.state == 0 && is_state(word)) {
      title.state = word[0];
    } else if (title.comm.empty()) {
      // "fio:12", "fio[12]", "fio/12", "fio(12)"
      size_t split = word.find_last_of(":[(");
      if (title.pid == 0 && split != kNowhere && to_id(word.substr(split + 1)) != 0) {
        title.pid = to_id(word.substr(split + 1));
        word = word.substr(0, split);
      }
      title.comm = std::string(word);
    }
  }
  // Without a number only a word or two can be meant as a heading.
  if (title.pid == 0 && (title.comm.empty() || words > 2)) return {};
  return title;
}

std::optional<BlockedLine> parse_blocked_by(std::string_view text) {
  constexpr std::string_view kBegin = "INFO: task ";
  size_t begin = text.find(kBegin);
  size_t blocked = text.find("blocked on a");
  if (begin == kNowhere || blocked == kNowhere || blocked < begin + kBegin.size()) return {};
  BlockedLine line;
  std::string_view waiter =
      trimmed(text.substr(begin + kBegin.size(), blocked - begin - kBegin.size()));
  if (waiter.ends_with(" is")) waiter = trimmed(waiter.substr(0, waiter.size() - 3));
  if (waiter.ends_with('>')) waiter = trimmed(waiter.substr(0, waiter.rfind('<')));
  std::string comm;
  if (!split_task(waiter, comm, line.pid)) return {};
  std::string_view rest = text.substr(blocked + 12);
  if (rest.starts_with('n')) rest.remove_prefix(1);
  rest = trimmed(rest);
  size_t likely = rest.find(" likely ");
  constexpr std::string_view kTask = " task ";
  size_t owner = rest.find(kTask);
  if (likely == kNowhere || owner == kNowhere || owner < likely) return {};
  line.by.lock = rest.substr(0, likely);
  std::string_view task = trimmed(rest.substr(owner + kTask.size()));
  if (task.ends_with('.')) task.remove_suffix(1);
  if (task.ends_with('>')) {
    line.by.owner_reads = task.ends_with("<reader>");
    task = trimmed(task.substr(0, task.rfind('<')));
  }
  if (!split_task(task, line.by.owner_comm, line.by.owner_pid)) return {};
  return line;
}

std::optional<LockOwner> parse_lock_owner(std::string_view text) {
  text = trimmed(text);
  for (std::string_view words : {" locks held by ", " lock held by "}) {
    size_t at = text.find(words);
    if (at == kNowhere || !to_number(text.substr(0, at))) continue;
    std::string_view task = text.substr(at + words.size());
    if (task.ends_with(':')) task.remove_suffix(1);
    size_t slash = task.rfind('/');
    if (slash == kNowhere) return {};
    LockOwner owner{std::string(task.substr(0, slash)), to_id(task.substr(slash + 1))};
    if (owner.pid == 0) return {};
    return owner;
  }
  return {};
}

std::optional<HeldLock> parse_held_lock(std::string_view text) {
  // "#1: ffff88800 (&sb->s_type->i_mutex_key#10){++++}-{3:3}, at: ext4_buffered_write_iter+0x1/0x2"
  text = trimmed(text);
  size_t colon = text.find(": ");
  if (!text.starts_with('#') || colon == kNowhere || !to_number(text.substr(1, colon - 1))) {
    return {};
  }
  std::string_view rest = text.substr(colon + 2);
  HeldLock lock;
  std::string_view word = take_word(rest);
  if (word.starts_with('(')) {  // before 4.18 the address was not there
    rest = text.substr(colon + 2);
  } else {
    lock.address = word;
  }
  rest = trimmed(rest);
  if (!rest.starts_with('(')) return {};
  size_t brace = rest.find("){");
  if (brace == kNowhere) return {};
  lock.name = rest.substr(1, brace - 1);
  size_t at = rest.find("at: ");
  if (at != kNowhere) {
    std::string_view where = rest.substr(at + 4);
    if (auto frame = parse_frame(take_word(where))) lock.where = frame->symbol;
  }
  return lock;
}

std::string_view kernel_release_in(std::string_view text) {
  size_t at = text.find("ainted");
  if (at == kNowhere) return {};
  std::string_view rest = text.substr(at + 6);
  for (int i = 0; i < 12; ++i) {
    std::string_view word = take_word(rest);
    if (word.empty()) break;
    bool release = word[0] >= '0' && word[0] <= '9' && word.find('.') != kNowhere &&
                   word.find(':') == kNowhere;
    if (release) return word;
  }
  return {};
}

}  // namespace stalltrace::dump

// Histograms, latency statistics and JSON lists.
#include "userspace/dump/parser.h"

namespace stalltrace::dump {
namespace {

// The value of a key in a line of JSON, without its quotes.
std::string_view json_value(std::string_view text, std::string_view key) {
  size_t at = text.find(key);
  if (at == kNowhere) return {};
  text = trimmed(text.substr(at + key.size()));
  if (!text.starts_with(':')) return {};
  text = trimmed(text.substr(1));
  if (text.starts_with('"')) return text.substr(1, text.find('"', 1) - 1);
  return text.substr(0, text.find_first_of(",} "));
}

}  // namespace

// Keys of ftrace's hist triggers and of bpftrace's maps.
bool Parser::histogram_line(std::string_view text) {
  size_t stack = text.find("stacktrace");
  if (text.starts_with('{') && stack != kNowhere) {
    begin(Form::kFtrace);
    in_key_ = true;
    if (size_t pid = text.find("common_pid: "); pid != kNowhere) {
      std::string_view rest = text.substr(pid + 12);
      size_t open = rest.find('[');
      size_t close = rest.find(']');
      if (open != kNowhere && close != kNowhere && open < close) {
        task_.comm = std::string(trimmed(rest.substr(0, open)));
        task_.pid = to_id(trimmed(rest.substr(open + 1, close - open - 1)));
      }
    }
    text.remove_prefix(stack + 10);
    if (text.starts_with(':')) text.remove_prefix(1);
    while (true) {
      std::string_view before = text;
      std::string_view word = take_word(text);
      if (word.empty() || word.find('+') == kNowhere) {
        text = before;
        break;
      }
      if (auto frame = parse_frame(word)) add(*frame);
    }
    end_of_key(text);
    return true;
  }
  if (text.starts_with("@") && text.find('[') != kNowhere && !text.ends_with(']')) {
    size_t bracket = text.find('[');
    if (text.find("]: ") == kNowhere) {
      begin(Form::kBpftrace);
      in_key_ = true;
      // "@[fio, 12," before the stack.
      std::string_view keys = text.substr(bracket + 1);
      while (!keys.empty()) {
        size_t comma = keys.find(',');
        std::string_view key = trimmed(keys.substr(0, comma));
        if (uint32_t pid = to_id(key); pid != 0) {
          task_.pid = pid;
        } else if (!key.empty()) {
          task_.comm = std::string(key);
        }
        if (comma == kNowhere) break;
        keys.remove_prefix(comma + 1);
      }
      return true;
    }
  }
  if (in_key_ && (text.find("hitcount:") != kNowhere || text.find("]: ") != kNowhere)) {
    end_of_key(text);
    return true;
  }
  return false;
}

void Parser::end_of_key(std::string_view text) {
  if (size_t hits = text.find("hitcount:"); hits != kNowhere) {
    std::string_view rest = text.substr(hits + 9);
    if (auto count = to_number(take_word(rest))) task_.count = *count;
  } else if (size_t close = text.find("]: "); close != kNowhere) {
    std::string_view rest = text.substr(close + 3);
    if (auto count = to_number(take_word(rest))) task_.count = *count;
    // ", fio, 12]: 5" behind the stack.
    std::string_view keys = text.substr(0, close);
    while (!keys.empty()) {
      size_t comma = keys.find(',');
      std::string_view key = trimmed(keys.substr(0, comma));
      if (uint32_t pid = to_id(key); pid != 0) {
        task_.pid = pid;
      } else if (!key.empty() && task_.comm.empty()) {
        task_.comm = std::string(key);
      }
      if (comma == kNowhere) break;
      keys.remove_prefix(comma + 1);
    }
  } else {
    return;
  }
  in_key_ = false;
  end_stack();
}

// "405 28572881 2619592 jbd2_log_wait_commit ext4_sync_file ...": count, total and maximum in us.
bool Parser::latency_line(std::string_view text) {
  std::string_view rest = text;
  auto count = to_number(take_word(rest));
  auto total = count ? to_number(take_word(rest)) : std::nullopt;
  auto most = total ? to_number(take_word(rest)) : std::nullopt;
  if (!most) return false;
  std::vector<FrameLine> frames;
  while (true) {
    std::string_view word = take_word(rest);
    if (word.empty()) break;
    auto symbol = symbol_of(word);
    if (!symbol) return false;
    frames.push_back({*symbol, false, Shape::kBare});
  }
  if (frames.empty()) return false;
  add_alone(std::move(frames), Form::kLatencyStats);
  task_.count = *count;
  task_.total_us = *total;
  task_.max_us = *most;
  end_stack();
  return true;
}

bool Parser::json_line(std::string_view text) {
  if (text.find('"') == kNowhere) return false;
  size_t list = kNowhere;
  // The first list whose first element is a string.
  for (size_t at = text.find('['); at != kNowhere; at = text.find('[', at + 1)) {
    std::string_view rest = trimmed(text.substr(at + 1));
    if (rest.starts_with('"') || (rest.empty() && !in_json_list_)) {
      list = at;
      break;
    }
  }
  if (list != kNowhere) {
    size_t end = text.find(']', list);
    auto frames = parse_strings(text.substr(list + 1, end == kNowhere ? end : end - list - 1));
    if (frames.empty() && end != kNowhere) return false;
    std::string_view before = text.substr(0, list);
    add_alone(std::move(frames), Form::kJson);
    for (std::string_view key : {"\"comm\"", "\"task\""}) {
      if (std::string_view value = json_value(before, key); !value.empty()) task_.comm = value;
    }
    for (std::string_view key : {"\"pid\"", "\"tid\""}) {
      if (uint32_t value = to_id(json_value(before, key)); value != 0) task_.pid = value;
    }
    std::string_view state = json_value(before, "\"state\"");
    if (state.size() == 1) task_.state = state[0];
    if (end == kNowhere) {
      in_json_list_ = true;
    } else {
      end_stack();
    }
    return true;
  }
  if (in_json_list_ && open_ == Open::kStack && text.starts_with('"')) {
    for (const FrameLine& frame : parse_strings(text)) add(frame);
    if (text.find(']') != kNowhere) end_stack();
    return true;
  }
  return false;
}

}  // namespace stalltrace::dump

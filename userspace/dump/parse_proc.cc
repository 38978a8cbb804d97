// What stands around a /proc/PID/stack: headings, and other files of the task.
#include <utility>

#include "userspace/dump/parser.h"

namespace stalltrace::dump {
// The content of a /proc file named by a title before it: comm, status or stat.
bool Parser::frame_of_file(std::string_view text) {
  if (!file_) return false;
  Title& known = known_[file_->pid];
  if (file_->file == "comm") {
    known.comm = std::string(text);
    file_.reset();
    return true;
  }
  if (file_->file == "status") {
    if (text.starts_with("Name:")) known.comm = std::string(trimmed(text.substr(5)));
    if (text.starts_with("State:")) {
      std::string_view state = trimmed(text.substr(6));
      if (!state.empty()) known.state = state[0];
    }
    return true;
  }
  if (file_->file == "stat") {
    size_t open = text.find('(');
    size_t close = text.rfind(')');
    if (open != kNowhere && close != kNowhere && open < close) {
      known.comm = std::string(text.substr(open + 1, close - open - 1));
      std::string_view rest = text.substr(close + 1);
      std::string_view state = take_word(rest);
      if (!state.empty()) known.state = state[0];
    }
    file_.reset();
    return true;
  }
  file_.reset();
  return false;
}

// Of /proc/PID/status printed over the stack.
bool Parser::status_line(std::string_view text) {
  if (text.starts_with("Name:")) {
    title_ = Title{};
    title_->comm = std::string(trimmed(text.substr(5)));
  } else if (title_ && text.starts_with("State:")) {
    std::string_view state = trimmed(text.substr(6));
    if (!state.empty()) title_->state = state[0];
  } else if (title_ && text.starts_with("Pid:")) {
    title_->pid = to_id(trimmed(text.substr(4)));
  } else {
    return text.find(":\t") != kNowhere;  // a line of that file that says nothing to us
  }
  // The other lines of the file follow before the stack does.
  title_line_ = dump_.lines + 70;
  return true;
}

// A heading counts for a stack that begins within the next lines.
std::optional<Title> Parser::take_title() {
  std::optional<Title> title = std::exchange(title_, std::nullopt);
  if (title && dump_.lines > title_line_ + 3) title.reset();
  return title;
}

void Parser::remember_title(std::string_view text) {
  if (status_line(text)) return;
  auto title = parse_title(text);
  if (!title) return;
  if (title->is_path && title->file != "stack") {
    end_stack();
    file_ = title;
    return;
  }
  // Between the frames of a /proc/PID/stack nothing stands: a heading ends it.
  if (open_ == Open::kStack && task_.form == Form::kProcStack) end_stack();
  // A path right under a heading with more in it ("== 12 fio D ==") adds nothing.
  if (title_ && title->is_path && title_->pid == title->pid) return;
  // The name may stand in a line of its own above or below the number.
  if (title_ && title_line_ + 1 == dump_.lines && title->pid != 0 && title_->pid == 0) {
    if (title->comm.empty()) title->comm = title_->comm;
  }
  title_ = std::move(title);
  title_line_ = dump_.lines;
}

}  // namespace stalltrace::dump

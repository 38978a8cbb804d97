// The state of reading a text line by line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "userspace/dump/frame.h"
#include "userspace/dump/header.h"
#include "userspace/dump/line.h"
#include "userspace/dump/task.h"

namespace stalltrace::dump {

class Parser {
 public:
  // `number`: of the text, from 1.
  void line(std::string_view raw, size_t number);
  Dump finish();

 private:
  // What the frames that follow belong to.
  enum class Open : uint8_t { kNothing, kHeader, kStack };

  [[nodiscard]] bool is_loose() const;
  void end_stack();
  void discard_unless_kernel_stack();
  Task& begin(Form form);
  void begin_with(const Header& header);
  void add(const FrameLine& frame);
  void add_alone(std::vector<FrameLine> frames, Form form);

  bool structure_line(std::string_view text);
  bool marker_line(std::string_view text);
  bool trace_start(std::string_view& text);
  bool lock_line(std::string_view text);
  bool histogram_line(std::string_view text);
  bool latency_line(std::string_view text);
  bool json_line(std::string_view text);
  bool frame_line(std::string_view text);
  bool frame_of_file(std::string_view text);
  void remember_title(std::string_view text);
  bool status_line(std::string_view text);
  std::optional<Title> take_title();
  void end_of_key(std::string_view text);

  Dump dump_;
  Open open_ = Open::kNothing;
  Task task_;
  std::optional<Header> hung_;  // a hung-task line whose task line is still to come
  std::optional<Title> title_;  // a heading that may belong to a /proc/PID/stack below it
  size_t title_line_ = 0;
  bool in_interrupt_ = false;      // between <IRQ> and <EOI>
  bool expects_task_end_ = false;  // <TASK> was seen, </TASK> not yet
  bool trace_begun_ = false;       // "Call Trace:" was seen
  bool in_json_list_ = false;
  bool in_key_ = false;  // of a histogram of ftrace or bpftrace
  bool saw_hung_ = false;
  bool saw_blocked_list_ = false;
  std::optional<uint32_t> lock_owner_;
  std::unordered_map<uint32_t, std::vector<HeldLock>> locks_;
  std::unordered_map<uint32_t, std::string> lock_owner_comm_;
  std::unordered_map<uint32_t, BlockedBy> blocked_by_;
  // From /proc files of a task other than its stack.
  std::unordered_map<uint32_t, Title> known_;
  std::optional<Title> file_;  // such a file whose content follows
  double clock_s_ = -1;
};

}  // namespace stalltrace::dump

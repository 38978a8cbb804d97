#include "userspace/report/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "userspace/kernel/frames.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/page.h"
#include "userspace/report/plain_words.h"

namespace stalltrace::report {
namespace {

using dump::Dump;
using dump::Explanation;
using dump::Group;
using dump::Reading;
using dump::Root;
using dump::Task;
using kernel::WaitClass;

constexpr size_t kNamedTasks = 6;
constexpr size_t kMostRoots = 4;

class ExplainPrinter {
 public:
  ExplainPrinter(const Dump& dump, const Explanation& found, const TextStyle& style)
      : dump_(dump), found_(found), style_(style), page_(style) {}

  std::string print(std::string_view source) {
    conclusion();
    for (size_t i = 0; i < std::min(found_.roots.size(), kMostRoots); ++i) chain(i);
    cycles();
    next_steps();
    overview();
    details();
    about(source);
    return page_.take();
  }

 private:
  [[nodiscard]] std::string clean(std::string_view text) const {
    return printable(text, style_.utf8);
  }
  [[nodiscard]] std::string label(size_t at) const {
    return clean(dump::label_of(dump_.tasks[at]));
  }
  [[nodiscard]] const Reading& reading(size_t at) const { return found_.readings[at]; }

  // "fio[1], fio[2] and 9998 more"; one name for many threads of one.
  [[nodiscard]] std::string names(const std::vector<size_t>& tasks) const {
    std::string text;
    size_t shown = std::min(tasks.size(), kNamedTasks);
    if (tasks.size() == kNamedTasks + 1) shown = tasks.size();
    for (size_t i = 0; i < shown; ++i) {
      if (i > 0) text += i + 1 == tasks.size() ? " and " : ", ";
      text += label(tasks[i]);
    }
    if (shown < tasks.size()) text += fmt::format(" and {} more", tasks.size() - shown);
    return text;
  }

  [[nodiscard]] std::string place(const Root& root) const {
    if (root.cause == "cycle") return "a deadlock";
    std::string text = root.cause;
    if (!root.dev.empty()) text += " " + clean(root.dev);
    return text;
  }

  void conclusion() {
    if (found_.roots.empty()) {
      if (found_.blocked == 0) {
        page_.line({{"no task here is blocked on storage", Ink::kGreen}});
      }
      return;
    }
    const Root& root = found_.roots.front();
    Spans spans;
    if (root.cause == "unexplained") {
      spans.push_back({"no root in this text: ", Ink::kYellow});
      std::string text = clean(root.text);
      const auto& last = root.chain.back().task;
      bool thread = last && reading(*last).wait_class == WaitClass::kCommitHandles;
      if (found_.holder_missing && thread) {
        text = fmt::format("{} waits for a handle that is still open; {}", label(*last), text);
      }
      spans.push_back({text, Ink::kBold});
    } else if (root.task && root.cause != "cycle") {
      spans.push_back({fmt::format("root candidate: {}", place(root)), Ink::kRed});
      spans.push_back({fmt::format(" - {}", label(*root.task)), Ink::kBold});
      spans.push_back(
          {fmt::format(" {}; {}", clean(root.chain.back().text), clean(root.text)), Ink::kPlain});
    } else {
      spans.push_back({fmt::format("root candidate: {}", place(root)), Ink::kRed});
      spans.push_back({fmt::format(" - {}", clean(root.text)), Ink::kBold});
    }
    if (root.cause != "unexplained") {
      spans.push_back({fmt::format(" ({})", dump::name_of(root.sure)), Ink::kPlain});
    }
    page_.wrapped(0, 2, spans);
    page_.wrapped(2, 2, {{behind(root), Ink::kPlain}});
    for (size_t i = 1; i < std::min(found_.roots.size(), kMostRoots); ++i) {
      const Root& other = found_.roots[i];
      std::string text = fmt::format("also: {}", place(other));
      if (other.task && other.cause != "cycle") text += " - " + label(*other.task);
      text += fmt::format(", {} behind it", counted(other.waiting.size(), "task", "tasks"));
      page_.wrapped(0, 2, {{text, Ink::kPlain}});
    }
    if (found_.roots.size() > kMostRoots) {
      page_.line(
          fmt::format("and {} more places where chains end", found_.roots.size() - kMostRoots));
    }
  }

  // "12 of 14 blocked tasks are behind it: 9 in journal.locked, 3 in page.dirty_throttle"
  [[nodiscard]] std::string behind(const Root& root) const {
    std::map<std::string_view, size_t> by_class;
    size_t victims = 0;
    for (size_t at : root.waiting) {
      if (reading(at).journal_thread) continue;
      ++victims;
      ++by_class[kernel::name_of(reading(at).wait_class)];
    }
    if (victims == 0) return "no other task here waits for it";
    std::vector<std::pair<std::string_view, size_t>> sorted(by_class.begin(), by_class.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text = fmt::format("{} of {} behind it:", victims,
                                   counted(found_.blocked, "blocked task is", "blocked tasks are"));
    if (victims == found_.blocked) {
      text = fmt::format("{} behind it:", victims == 1
                                              ? "the one blocked task is"
                                              : fmt::format("all {} blocked tasks are", victims));
    }
    for (size_t i = 0; i < sorted.size(); ++i) {
      text += fmt::format("{} {} in {}", i == 0 ? "" : ",", sorted[i].second, sorted[i].first);
    }
    uint64_t longest = longest_s(root.waiting);
    if (longest > 0) text += fmt::format("; for more than {} s", longest);
    return text;
  }

  [[nodiscard]] uint64_t longest_s(const std::vector<size_t>& tasks) const {
    uint64_t longest = 0;
    for (size_t at : tasks) longest = std::max(longest, dump_.tasks[at].blocked_s);
    return longest;
  }

  void chain(size_t index) {
    const Root& root = found_.roots[index];
    page_.title(index == 0 ? "How they come to wait"
                           : fmt::format("How others come to wait ({})", index + 1));
    for (size_t i = 0; i < root.chain.size(); ++i) {
      const dump::Link& link = root.chain[i];
      bool last = i + 1 == root.chain.size();
      Spans spans;
      size_t indent = 2 + 2 * i;
      if (i == 0) {
        // Those behind this root that wait for the same, whatever led them there.
        size_t count = std::count_if(root.waiting.begin(), root.waiting.end(), [&](size_t at) {
          return reading(at).wait_class == reading(*link.task).wait_class;
        });
        spans.push_back(
            {count <= 1 ? label(*link.task) : counted(count, "task", "tasks"), Ink::kBold});
        spans.push_back({":", Ink::kPlain});
        if (link.text.empty()) {
          spans.push_back(
              {fmt::format(" {}", meaning_of(reading(*link.task).wait_class)), Ink::kPlain});
        }
      } else {
        spans.push_back({label(*link.task), Ink::kBold});
        if (!link.also.empty()) {
          spans.push_back({fmt::format(" (or {})", names(link.also)), Ink::kPlain});
        }
      }
      if (!link.text.empty()) spans.push_back({" " + clean(link.text), Ink::kPlain});
      if (i > 0) spans.push_back({fmt::format(" ({})", dump::name_of(link.sure)), Ink::kDim});
      if (link.task && reading(*link.task).serves.empty()) {
        spans.push_back({" ", Ink::kPlain});
        spans.push_back(
            {fmt::format("[{}]", kernel::name_of(reading(*link.task).wait_class)), Ink::kCyan});
      }
      if (last && root.cause == "cycle") spans.push_back({" <- back at the top", Ink::kRed});
      page_.wrapped(indent, indent + 2, spans);
      // The stack that shows it, where it is not one of those below.
      if (link.task && i > 0) stack(*link.task, indent + 2);
    }
    if (root.cause == "cycle") return;
    size_t indent = 2 + 2 * root.chain.size();
    Spans end{{clean(root.text), Ink::kPlain}};
    if (root.cause == "unexplained") {
      end.push_back({"  <- the chain is lost here", Ink::kYellow});
    } else {
      end.push_back({fmt::format("  <- root candidate: {}", place(root)), Ink::kRed});
    }
    page_.wrapped(indent, indent + 2, end);
  }

  void stack(size_t at, size_t indent) {
    const Reading& one = reading(at);
    if (one.frames.empty()) return;
    std::vector<std::string_view> kept = kernel::meaningful(one.frames, 7);
    // The function that shows an open handle or a lock is the evidence: it must be among them.
    for (std::string_view frame : {one.handle_frame, one.inode_frame}) {
      if (!frame.empty() && frame != "lockdep") kept.push_back(frame);
    }
    std::vector<std::string_view> shown;
    for (std::string_view frame : one.frames) {
      auto known = std::find(kept.begin(), kept.end(), frame);
      if (known == kept.end()) continue;
      shown.push_back(frame);
      std::erase(kept, frame);
    }
    std::string text;
    for (std::string_view frame : shown) text += (text.empty() ? "" : " < ") + clean(frame);
    page_.wrapped(indent, indent + 2, {{text, Ink::kDim}});
  }

  void cycles() {
    for (const dump::Cycle& cycle : found_.cycles) {
      page_.title("The deadlock");
      for (const dump::Edge& edge : cycle) {
        page_.wrapped(2, 4,
                      {{label(edge.from), Ink::kBold},
                       {" waits for ", Ink::kPlain},
                       {label(edge.to), Ink::kBold},
                       {fmt::format(", which {} ({})", clean(edge.text), dump::name_of(edge.sure)),
                        Ink::kPlain}});
      }
    }
  }

  void next_steps() {
    if (found_.advice.empty()) return;
    page_.title("What to do next");
    for (const dump::Advice& one : found_.advice) {
      page_.wrapped(2, 2, {{clean(one.text), Ink::kPlain}});
      // A command is there to be copied: it is never broken.
      for (const std::string& command : one.commands) {
        page_.wrapped(6, 6, {{command, Ink::kGreen}});
      }
    }
  }

  void overview() {
    if (found_.groups.empty()) return;
    struct Sum {
      size_t tasks = 0;
      uint64_t longest_s = 0;
      std::vector<size_t> members;
      std::set<std::string> ends;
    };
    std::map<WaitClass, Sum> sums;
    for (const Group& group : found_.groups) {
      Sum& sum = sums[group.wait_class];
      sum.tasks += group.tasks.size();
      sum.longest_s = std::max(sum.longest_s, longest_s(group.tasks));
      sum.members.insert(sum.members.end(), group.tasks.begin(), group.tasks.end());
      if (group.root) sum.ends.insert(found_.roots[*group.root].cause);
    }
    std::vector<std::pair<WaitClass, const Sum*>> sorted;
    for (const auto& [wait_class, sum] : sums) sorted.emplace_back(wait_class, &sum);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second->tasks > b.second->tasks;
    });
    page_.title("What they wait for");
    Table table({{.title = "tasks"},
                 {.title = "longest"},
                 {.title = "class", .align = Column::Align::kLeft},
                 {.title = "ends in", .align = Column::Align::kLeft, .drop = 1},
                 {.title = "who", .align = Column::Align::kLeft, .shrink = true}});
    for (const auto& [wait_class, sum] : sorted) {
      std::string ends;
      for (const std::string& one : sum->ends) ends += (ends.empty() ? "" : ", ") + one;
      table.row({std::to_string(sum->tasks),
                 sum->longest_s > 0 ? fmt::format("{} s", sum->longest_s) : "",
                 std::string(kernel::name_of(wait_class)), ends, names(sum->members)});
    }
    table.print(page_);
  }

  void details() {
    if (found_.groups.empty()) return;
    page_.title("Each wait, with its stack");
    std::vector<std::pair<WaitClass, std::vector<const Group*>>> classes;
    for (const Group& group : found_.groups) {
      auto same = std::find_if(classes.begin(), classes.end(),
                               [&](const auto& one) { return one.first == group.wait_class; });
      if (same == classes.end()) {
        classes.push_back({group.wait_class, {&group}});
      } else {
        same->second.push_back(&group);
      }
    }
    size_t room = std::max<size_t>(style_.most_groups, 1) * 2;
    size_t left_stacks = 0;
    size_t left_tasks = 0;
    for (const auto& [wait_class, groups] : classes) {
      size_t most = std::max<size_t>(room / 4, 1);
      for (size_t i = 0; i < groups.size(); ++i) {
        if (room == 0 || (i >= most && classes.size() > 1)) {
          ++left_stacks;
          left_tasks += groups[i]->tasks.size();
          continue;
        }
        --room;
        bool one_meaning =
            std::ranges::all_of(groups, [first = groups.front()](const Group* other) {
              return other->meaning == first->meaning;
            });
        if (i == 0) class_line(wait_class);
        one_stack(*groups[i], !one_meaning || wait_class == WaitClass::kOther);
      }
    }
    if (left_stacks > 0) {
      page_.wrapped(2, 2,
                    {{fmt::format("and {} with {} (--json has them all)",
                                  counted(left_tasks, "more task", "more tasks"),
                                  counted(left_stacks, "other stack", "other stacks")),
                      Ink::kPlain}});
    }
  }

  void class_line(WaitClass wait_class) {
    page_.wrapped(2, 4,
                  {{std::string(kernel::name_of(wait_class)), Ink::kCyan},
                   {fmt::format(": {}", meaning_of(wait_class)), Ink::kPlain}});
  }

  void one_stack(const Group& group, bool with_meaning) {
    size_t first = group.tasks.front();
    const Reading& one = reading(first);
    const Task& task = dump_.tasks[first];
    Spans spans{{names(group.tasks), Ink::kBold}};
    std::string more;
    auto add = [&more](const std::string& text) { more += (more.empty() ? " " : ", ") + text; };
    if (task.state != 0) add(fmt::format("state {}", clean(std::string(1, task.state))));
    if (uint64_t longest = longest_s(group.tasks); longest > 0)
      add(fmt::format("over {} s", longest));
    if (with_meaning && !group.meaning.empty()) add(clean(group.meaning));
    if (group.sure == dump::Sure::kGuess) add("a guess");
    if (one.handle == dump::Handle::kOpen) {
      add(fmt::format("has a handle open ({})", clean(one.handle_frame)));
    }
    if (!one.serves.empty()) add(fmt::format("does a {} for its loop device", one.serves));
    if (one.handle == dump::Handle::kPerhaps) {
      add(fmt::format("may have a handle open ({})", clean(one.handle_frame)));
    }
    if (!task.workqueue.empty()) add(fmt::format("works on {}", clean(task.workqueue)));
    spans.push_back({more, Ink::kPlain});
    page_.wrapped(4, 6, spans);
    histogram(task, group.tasks.size());
    stack(first, 6);
  }

  void histogram(const Task& task, size_t tasks) {
    if (tasks != 1) return;
    std::string text;
    if (task.count > 1) text = fmt::format("seen {} times", task.count);
    if (task.total_us > 0) {
      text += fmt::format("{}{:.3f} s in all", text.empty() ? "" : ", ",
                          static_cast<double>(task.total_us) / 1e6);
    }
    if (task.max_us > 0) {
      text += fmt::format(", {:.3f} s at most", static_cast<double>(task.max_us) / 1e6);
    }
    if (!text.empty()) page_.wrapped(6, 6, {{text, Ink::kPlain}});
  }

  void about(std::string_view source) {
    page_.title("About this text");
    std::set<std::string_view> forms;
    for (const Task& task : dump_.tasks) forms.insert(dump::name_of(task.form));
    std::string text =
        fmt::format("{}: {} in {}", clean(source), counted(dump_.tasks.size(), "stack", "stacks"),
                    counted(dump_.lines, "line", "lines"));
    std::string kinds;
    for (std::string_view form : forms) kinds += (kinds.empty() ? "" : ", ") + std::string(form);
    text += fmt::format(" ({})", kinds);
    if (!dump_.kernel.empty()) text += fmt::format(", Linux {}", clean(dump_.kernel));
    text += fmt::format("; {} blocked, {} runnable, {} idle or waiting on purpose", found_.blocked,
                        found_.runnable, found_.idle);
    page_.wrapped(2, 2, {{text, Ink::kPlain}});
    for (const std::string& note : found_.notes) page_.wrapped(2, 2, {{clean(note), Ink::kPlain}});
    page_.wrapped(
        2, 2,
        {{"Nothing here is measured. \"inferred\": the stacks leave no other reading that "
          "we know; \"guess\": likely, look before you act.",
          Ink::kDim}});
  }

  const Dump& dump_;
  const Explanation& found_;
  TextStyle style_;
  Page page_;
};

}  // namespace

std::string explain_text(const Dump& dump, const Explanation& explanation, std::string_view source,
                         const TextStyle& style) {
  return ExplainPrinter(dump, explanation, style).print(source);
}

}  // namespace stalltrace::report

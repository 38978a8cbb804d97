#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "userspace/base/units.h"
#include "userspace/model/call_names.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/plain_words.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

// Of a stall, 1 in 200: half a percent.
constexpr uint64_t kFoldBelow = 200;
constexpr size_t kMostStallRows = 12;
constexpr size_t kMostBranches = 6;
constexpr size_t kMostLevels = 40;
constexpr size_t kRightEdge = 100;  // of a stall's first line, on wider terminals too
constexpr size_t kLeastClass = 14;
constexpr size_t kChainColumn = 10;  // below the time of the part
constexpr size_t kBranch = 2;        // where a branch begins, and how wide its time is
constexpr size_t kBranchTime = 9;

// Causes of one text but for its figures, told once.
struct Node {
  std::vector<const blame::Cause*> members;
  uint64_t ns = 0;

  [[nodiscard]] const blame::Cause& longest() const {
    return **std::max_element(members.begin(), members.end(),
                              [](const auto* a, const auto* b) { return a->ns < b->ns; });
  }
};

struct Row {
  std::vector<const blame::Part*> members;
  uint64_t ns = 0;
  uint64_t tenths = 0;  // of a percent
};

struct Line {
  size_t indent = 0;
  std::string time;  // of one of several branches
  std::string text;
  std::string sure;  // " (inferred)"; empty: measured
  Ink ink = Ink::kPlain;
};

// Where a chain ends: which line of which row, and for how long.
struct Leaf {
  const blame::Root* root = nullptr;
  size_t row = 0;
  size_t line = 0;  // 0: the row itself, else line - 1 of its chain
  uint64_t ns = 0;
};

std::string without_digits(const std::string& text) {
  std::string result;
  for (char c : text) {
    bool digit = (c >= '0' && c <= '9') || c == '.';
    if (!digit) result += c;
  }
  return result;
}

std::vector<Node> merged(const std::vector<const blame::Cause*>& causes, bool by_id) {
  std::map<std::tuple<int, uint32_t, std::string, std::string, int>, size_t> known;
  std::vector<Node> nodes;
  for (const blame::Cause* cause : causes) {
    int end = cause->causes.empty() ? static_cast<int>(cause->root.kind) : -1;
    bool has_id =
        cause->kind == blame::CauseKind::kCommit || cause->kind == blame::CauseKind::kFlush;
    auto [place, is_new] = known.try_emplace(
        {static_cast<int>(cause->kind), cause->dev, by_id && has_id ? cause->id : std::string(),
         without_digits(cause->text), end},
        nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[place->second].members.push_back(cause);
    nodes[place->second].ns += cause->ns;
  }
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const Node& a, const Node& b) { return a.ns > b.ns; });
  return nodes;
}

// Tenths of a percent by largest remainder: the column adds up to 100.0.
void set_tenths(std::vector<Row>& rows) {
  uint64_t total_ns = 0;
  for (const Row& row : rows) total_ns += row.ns;
  if (total_ns == 0) return;
  std::vector<std::pair<double, size_t>> remainders;
  uint64_t left = 1000;
  for (size_t i = 0; i < rows.size(); ++i) {
    double exact = 1000.0 * static_cast<double>(rows[i].ns) / static_cast<double>(total_ns);
    rows[i].tenths = std::min(static_cast<uint64_t>(exact), left);
    left -= rows[i].tenths;
    remainders.emplace_back(exact - static_cast<double>(rows[i].tenths), i);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < remainders.size() && left > 0; ++i, --left) {
    ++rows[remainders[i].second].tenths;
  }
}

std::string tenths_text(uint64_t tenths) {
  if (tenths == 1000) return "100";
  return fmt::format("{}.{}", tenths / 10, tenths % 10);
}

std::string sure_mark(blame::Sure sure) {
  if (sure == blame::Sure::kMeasured) return {};
  return fmt::format(" ({})", blame::name_of(sure));
}

class StallPrinter {
 public:
  StallPrinter(Page& page, const Names& names, const blame::Stall& stall)
      : page_(page), names_(names), stall_(stall) {}

  void print() {
    gather_rows();
    for (size_t i = 0; i < visible_; ++i) {
      chains_.emplace_back();
      build_chain(i);
    }
    pick_mark();
    for (const Row& row : rows_) time_width_ = std::max(time_width_, format_time(row.ns).size());
    for (size_t i = 0; i < visible_; ++i) {
      class_width_ = std::max(class_width_, class_of(i).size());
    }
    print_header();
    for (size_t i = 0; i < visible_; ++i) print_row(i);
    print_folded();
    print_root();
  }

 private:
  [[nodiscard]] bool is_small(uint64_t ns) const { return ns * kFoldBelow < stall_.ns; }

  [[nodiscard]] std::string_view class_of(size_t row) const {
    return kernel::name_of(rows_[row].members.front()->wait_class);
  }

  void gather_rows() {
    std::map<std::tuple<int, int, uint32_t, std::vector<std::string>>, size_t> known;
    for (const blame::Part& part : stall_.parts) {
      bool leaf = part.causes.empty();
      auto [place, is_new] = known.try_emplace(
          {static_cast<int>(part.wait_class), leaf ? static_cast<int>(part.root.kind) : -1,
           leaf ? part.root.task.tid : 0, part.stack},
          rows_.size());
      if (is_new) rows_.emplace_back();
      rows_[place->second].members.push_back(&part);
      rows_[place->second].ns += part.ns;
    }
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Row& a, const Row& b) { return a.ns > b.ns; });
    set_tenths(rows_);
    while (visible_ < rows_.size() && visible_ < kMostStallRows) {
      if (visible_ > 0 && is_small(rows_[visible_].ns)) break;
      ++visible_;
    }
  }

  void build_chain(size_t row) {
    std::vector<const blame::Cause*> causes;
    for (const blame::Part* part : rows_[row].members) {
      for (const blame::Cause& cause : part->causes) causes.push_back(&cause);
    }
    if (causes.empty()) {
      const blame::Part& part = *rows_[row].members.front();
      leaves_.push_back({&part.root, row, 0, rows_[row].ns});
      if (part.root.kind == blame::RootKind::kUnexplained) {
        std::string text = "unexplained: nothing that was seen tells what this waited for";
        chains_[row].push_back({0, "", text, "", Ink::kRed});
      }
      return;
    }
    add_links(row, causes, {0, kBranch}, format_time(rows_[row].ns), 0);
  }

  // A part without causes explains itself, but not always fully by its class.
  [[nodiscard]] std::string own_root(const blame::Part& part) const {
    bool cpu = part.root.kind == blame::RootKind::kTaskRunnable;
    if (part.causes.empty() && cpu && part.root.task.tid == 0) {
      return "what ran on the CPU was not seen";
    }
    bool other = part.root.task.tid != 0 && part.root.task.tid != stall_.task.tid;
    if (!part.causes.empty() || !other) return {};
    return fmt::format("{} {}", cpu ? "the CPU was running" : "because of",
                       names_.task(part.root.task)) +
           sure_mark(part.root.sure);
  }

  // Where the next link stands when it is the only one, and where when there are several.
  struct Indents {
    size_t single, branch;
  };

  void add_links(size_t row, const std::vector<const blame::Cause*>& causes, Indents indents,
                 const std::string& time_above, size_t level) {
    std::vector<Node> nodes = merged(causes, true);
    if (nodes.size() > kMostBranches) nodes = merged(causes, false);
    size_t shown = 0;
    while (shown < nodes.size() && shown < kMostBranches) {
      if (shown > 0 && is_small(nodes[shown].ns)) break;
      ++shown;
    }
    bool branches = shown > 1;
    size_t indent = branches ? indents.branch : indents.single;
    for (size_t i = 0; i < shown; ++i) {
      add_link(row, nodes[i], indent, branches ? "" : time_above, level);
    }
    uint64_t rest_ns = 0;
    size_t rest = 0;
    for (size_t i = shown; i < nodes.size(); ++i) {
      rest_ns += nodes[i].ns;
      rest += nodes[i].members.size();
    }
    if (rest > 0 && !is_small(rest_ns)) {
      chains_[row].push_back({indent, format_time(rest_ns),
                              fmt::format("in {}", counted(rest, "shorter link", "shorter links")),
                              "", Ink::kDim});
    }
  }

  void add_link(size_t row, const Node& node, size_t indent, const std::string& time_above,
                size_t level) {
    const blame::Cause& cause = node.longest();
    std::string time = format_time(node.ns);
    std::string text = link_text(cause);
    // A time is told where it is another than that of the line above; in front where branches
    // have to be compared.
    bool is_branch = time_above.empty();
    if (node.members.size() > 1) {
      text += fmt::format(" (the longest of {} like it, {} in all)", node.members.size(), time);
    } else if (!is_branch && time != time_above && text.find(time) == std::string::npos) {
      text += fmt::format(": {}", time);
    }
    chains_[row].push_back({indent, is_branch ? time : std::string(), std::move(text),
                            sure_mark(cause.sure), Ink::kPlain});
    std::vector<const blame::Cause*> next;
    for (const blame::Cause* member : node.members) {
      for (const blame::Cause& deeper : member->causes) next.push_back(&deeper);
    }
    if (next.empty()) {
      if (cause.root.kind == blame::RootKind::kUnexplained) chains_[row].back().ink = Ink::kRed;
      leaves_.push_back({&cause.root, row, chains_[row].size(), node.ns});
    } else if (level == kMostLevels) {
      chains_[row].push_back({indent, "", "and so on: the JSON has the rest", "", Ink::kDim});
    } else {
      Indents deeper{is_branch ? indent + kBranchTime : indent, indent + kBranch};
      add_links(row, next, deeper, time, level + 1);
    }
  }

  // The link's own words, with the commit and the task that a developer will look for.
  [[nodiscard]] std::string link_text(const blame::Cause& cause) const {
    std::string text = names_.clean(cause.text);
    if (text.empty()) text = std::string(blame::name_of(cause.kind));
    bool names_id = cause.id.empty() || cause.text.find(cause.id) != std::string::npos;
    if (cause.kind == blame::CauseKind::kCommit && !names_id) {
      text = fmt::format("commit {}: {}", names_.clean(cause.id), text);
    }
    std::string tid = fmt::format("[{}]", cause.task.tid);
    bool matters = cause.kind == blame::CauseKind::kHandle ||
                   cause.kind == blame::CauseKind::kHolder || cause.kind == blame::CauseKind::kTask;
    bool named = !matters || cause.task.tid == 0 || cause.task.tid == stall_.task.tid ||
                 cause.text.find(tid) != std::string::npos;
    if (!named) text += fmt::format(" ({})", names_.task(cause.task));
    return text;
  }

  void pick_mark() {
    const Leaf* best = nullptr;
    auto is_main = [&](const Leaf& leaf) {
      if (stall_.roots.empty()) return false;
      const blame::Root& main = stall_.roots.front();
      return leaf.root->kind == main.kind && leaf.root->dev == main.dev &&
             leaf.root->task.tid == main.task.tid;
    };
    for (const Leaf& leaf : leaves_) {
      bool better = best == nullptr || (is_main(leaf) && !is_main(*best)) ||
                    (is_main(leaf) == is_main(*best) && leaf.ns > best->ns);
      if (better) best = &leaf;
    }
    if (best != nullptr) mark_ = {best->row, best->line};
  }

  [[nodiscard]] std::string mark_text() const {
    return page_.utf8() ? "  \xe2\x86\x90 root cause" : "  <- root cause";
  }

  void print_header() {
    std::string call(model::call_name(stall_.kind));
    std::string task = names_.task(stall_.task);
    std::string when =
        fmt::format("{} at {}", format_time(stall_.ns), names_.since_start(stall_.start_ns));
    std::string file = names_.file(stall_.path, stall_.ino, stall_.dev);
    size_t fixed = columns_of(std::string_view(call)) + 2 + columns_of(std::string_view(task)) + 2 +
                   2 + columns_of(std::string_view(when));
    file = page_.cut_front(file, page_.width() > fixed ? page_.width() - fixed : 0);
    size_t edge = std::min(page_.width(), kRightEdge);
    size_t used = fixed + columns_of(std::string_view(file));
    std::string pad(edge > used ? edge - used : 0, ' ');
    page_.line({{call, Ink::kBold},
                {"  " + task + "  " + file + pad + "  ", Ink::kPlain},
                {when, Ink::kBold}});
    print_home();
    if (stall_.unfinished) {
      note("still blocked: the time is what was seen so far");
    } else if (stall_.cut == blame::Cut::kEnd) {
      note("cut off by the end of tracing: the time is what was seen");
    }
    if (stall_.cut == blame::Cut::kStart) {
      note("began before tracing did: the time is what was seen");
    }
  }

  // How it is called where it lives: in a container.
  void print_home() {
    const blame::Home& home = stall_.home;
    std::string text;
    auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
    if (home.inner_pid != 0) {
      add(home.inner_pid == home.inner_tid
              ? fmt::format("process {} inside", home.inner_pid)
              : fmt::format("thread {} of process {} inside", home.inner_tid, home.inner_pid));
    }
    if (!home.inner_path.empty() && home.inner_path != stall_.path) {
      add("the file is " + names_.clean(home.inner_path) + " there");
    }
    if (!home.cgroup.empty() && home.cgroup != "/") add("cgroup " + names_.clean(home.cgroup));
    if (!text.empty()) page_.wrapped(2, 4, {{text, Ink::kDim}});
  }

  void note(const char* text) { page_.line({{"  ", {}}, {text, Ink::kYellow}}); }

  void print_row(size_t i) {
    const Row& row = rows_[i];
    const blame::Part& part = *row.members.front();
    Spans spans{{fmt::format("  {:>4} %  {:>{}}  ", tenths_text(row.tenths), format_time(row.ns),
                             time_width_),
                 Ink::kPlain},
                {fmt::format("{:<{}}", class_of(i), class_width_), Ink::kCyan}};
    std::string detail;
    if (row.members.size() > 1) detail = fmt::format("  {} times", row.members.size());
    std::string mark = mark_ == std::pair{i, size_t{0}} ? mark_text() : std::string();
    size_t used = columns_of(spans) + detail.size() + 2 + columns_of(std::string_view(mark));
    size_t room = page_.width() > used ? page_.width() - used : 0;
    // Who had the CPU says more than the frames that were about to run.
    std::string own = page_.cut(own_root(part), room);
    std::string frames = own.empty() ? stack(part.stack, room) : std::string();
    spans.push_back({detail + (frames.empty() && own.empty() ? "" : "  ") + own, Ink::kPlain});
    spans.push_back({frames, Ink::kDim});
    spans.push_back({mark, Ink::kGreen});
    page_.line(spans);
    for (size_t line = 0; line < chains_[i].size(); ++line) {
      print_link(chains_[i][line], mark_ == std::pair{i, line + 1});
    }
    bool unexplained = part.causes.empty() && part.root.kind == blame::RootKind::kUnexplained;
    if (unexplained && frames.ends_with(page_.ellipsis())) print_whole_stack(part);
  }

  // Whole frames, innermost first, as many as there is room for.
  [[nodiscard]] std::string stack(const std::vector<std::string>& frames, size_t room) const {
    std::string text;
    std::string more = fmt::format(" < {}", page_.ellipsis());
    for (size_t i = 0; i < frames.size(); ++i) {
      std::string next = (i == 0 ? "" : " < ") + names_.clean(frames[i]);
      bool last = i + 1 == frames.size();
      size_t reserve = last ? 0 : columns_of(std::string_view(more));
      size_t needed = columns_of(std::string_view(text)) + columns_of(std::string_view(next));
      if (needed + reserve > room) {
        if (text.empty()) return page_.cut(next, room);
        return text + more;
      }
      text += next;
    }
    return text;
  }

  // Without an explanation the stack is all there is to go on.
  void print_whole_stack(const blame::Part& part) {
    std::string text;
    for (const std::string& frame : part.stack) {
      if (!text.empty()) text += " < ";
      text += names_.clean(frame);
    }
    page_.wrapped(kChainColumn, kChainColumn, {{text, Ink::kDim}});
  }

  void print_link(const Line& line, bool marked) {
    // Deep chains must not run out of the terminal.
    size_t column = std::min(kChainColumn + line.indent, page_.width() / 2);
    std::string beginning(column, ' ');
    if (!line.time.empty()) beginning += fmt::format("{:<{}}", line.time, kBranchTime);
    size_t hanging = beginning.size();
    Spans spans{{line.text, line.ink}, {line.sure, Ink::kYellow}};
    if (marked) spans.push_back({mark_text().substr(1), Ink::kGreen, true});
    page_.wrapped_after({{beginning, Ink::kPlain}}, hanging, spans);
  }

  void print_folded() {
    uint64_t tenths = 0;
    uint64_t ns = 0;
    size_t parts = 0;
    for (size_t i = visible_; i < rows_.size(); ++i) {
      tenths += rows_[i].tenths;
      ns += rows_[i].ns;
      parts += rows_[i].members.size();
    }
    if (parts == 0) return;
    page_.line(
        {{fmt::format("  and {} % in {}: {}", tenths == 0 ? "under 0.1" : tenths_text(tenths),
                      counted(parts, "shorter part", "shorter parts"), format_time(ns)),
          Ink::kDim}});
  }

  void print_root() {
    if (stall_.roots.empty()) return;
    const blame::Root& main = stall_.roots.front();
    Spans spans{{"root cause: ", Ink::kBold},
                {fmt::format("{}, {} of {}", names_.root(main), format_time(main.ns),
                             format_time(stall_.ns)),
                 Ink::kGreen}};
    if (main.kind == blame::RootKind::kUnexplained) spans.back().ink = Ink::kRed;
    spans.push_back({sure_mark(main.sure), Ink::kYellow});
    std::string others;
    constexpr size_t kMostOthers = 3;
    for (size_t i = 1; i < stall_.roots.size() && i <= kMostOthers; ++i) {
      const blame::Root& root = stall_.roots[i];
      if (is_small(root.ns)) break;
      others += fmt::format("{} {} {}", others.empty() ? "; also" : ",", names_.root(root),
                            format_time(root.ns));
    }
    spans.push_back({others, Ink::kPlain});
    page_.wrapped(0, 2, spans);
  }

  Page& page_;
  const Names& names_;
  const blame::Stall& stall_;
  std::vector<Row> rows_;
  size_t visible_ = 0;
  std::vector<std::vector<Line>> chains_;  // of the visible rows
  std::vector<Leaf> leaves_;
  std::pair<size_t, size_t> mark_{SIZE_MAX, 0};
  size_t time_width_ = 6;
  size_t class_width_ = kLeastClass;
};

}  // namespace

void print_stall(Page& page, const Names& names, const blame::Stall& stall) {
  StallPrinter(page, names, stall).print();
}

}  // namespace stalltrace::report

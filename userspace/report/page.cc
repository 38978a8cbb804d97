#include "userspace/report/page.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "userspace/report/clean_text.h"

namespace stalltrace::report {
namespace {

// Below this no table could be read.
constexpr size_t kLeastWidth = 60;
constexpr size_t kBetween = 2;
constexpr size_t kLeastShrunk = 16;

std::string_view code_of(Ink ink) {
  switch (ink) {
    case Ink::kBold:
      return "\x1b[1m";
    case Ink::kDim:
      return "\x1b[2m";
    case Ink::kRed:
      return "\x1b[1;31m";
    case Ink::kYellow:
      return "\x1b[33m";
    case Ink::kGreen:
      return "\x1b[32m";
    case Ink::kCyan:
      return "\x1b[36m";
    case Ink::kPlain:
      break;
  }
  return "";
}

// "1.84 s" is not torn apart.
bool is_figure_before_unit(std::string_view word, std::string_view rest) {
  static constexpr std::array<std::string_view, 9> kUnits{"s",   "ms",  "us",  "ns", "%",
                                                          "KiB", "MiB", "GiB", "B"};
  if (word.empty() || word.back() < '0' || word.back() > '9') return false;
  std::string_view unit = rest.substr(0, rest.find_first_of(" ,;:.)"));
  return std::find(kUnits.begin(), kUnits.end(), unit) != kUnits.end();
}

// Fills lines with words, which may change ink within; a word longer than a line is broken.
class Wrapper {
 public:
  Wrapper(size_t width, size_t hanging, Spans beginning)
      : width_(width),
        hanging_(std::min(hanging, width / 2)),
        line_(std::move(beginning)),
        used_(columns_of(line_)) {}

  void word(const Spans& fragments) {
    size_t blank = fresh_ ? 0 : 1;
    if (used_ + blank + columns_of(fragments) > width_ && !fresh_) {
      next_line();
      blank = 0;
    }
    if (blank > 0) add(" ", Ink::kPlain);
    for (const Span& fragment : fragments) broken(fragment.text, fragment.ink);
  }

  std::vector<Spans> finish() {
    lines_.push_back(std::move(line_));
    return std::move(lines_);
  }

 private:
  void broken(std::string_view text, Ink ink) {
    while (used_ + columns_of(text) > width_) {
      std::string_view head = first_columns(text, width_ - std::min(used_, width_));
      if (head.empty() && fresh_) break;  // a character wider than a line
      if (!head.empty()) add(head, ink);
      text.remove_prefix(head.size());
      next_line();
    }
    if (!text.empty()) add(text, ink);
  }

  void add(std::string_view text, Ink ink) {
    line_.push_back({std::string(text), ink});
    used_ += columns_of(text);
    fresh_ = false;
  }

  void next_line() {
    lines_.push_back(std::move(line_));
    line_ = {{std::string(hanging_, ' '), Ink::kPlain}};
    used_ = hanging_;
    fresh_ = true;
  }

  size_t width_;
  size_t hanging_;
  std::vector<Spans> lines_;
  Spans line_;
  size_t used_;
  bool fresh_ = true;
};

}  // namespace

size_t columns_of(const Spans& spans) {
  return std::accumulate(spans.begin(), spans.end(), size_t{0},
                         [](size_t sum, const Span& span) { return sum + columns_of(span.text); });
}

Page::Page(const TextStyle& style) : style_(style), width_(std::max(style.width, kLeastWidth)) {}

std::string_view Page::ellipsis() const {
  return style_.utf8 ? "\xe2\x80\xa6" : "...";
}

void Page::put(const Spans& spans) {
  // Neighbours of one ink become one, blanks between them included.
  Spans runs;
  for (const Span& span : spans) {
    bool blank = span.text.find_first_not_of(' ') == std::string::npos;
    if (!runs.empty() && (blank || runs.back().ink == span.ink)) {
      runs.back().text += span.text;
    } else if (!span.text.empty()) {
      runs.push_back(span);
    }
  }
  if (!runs.empty()) {
    // Only the last can end in blanks: a run of nothing else was joined to the one before.
    std::string& last = runs.back().text;
    last.resize(last.find_last_not_of(' ') + 1);
  }
  for (const Span& run : runs) {
    bool colored = style_.color && run.ink != Ink::kPlain;
    if (colored) text_ += code_of(run.ink);
    text_ += run.text;
    if (colored) text_ += "\x1b[0m";
  }
  text_ += '\n';
}

void Page::line(const Spans& spans) {
  if (columns_of(spans) <= width_) {
    put(spans);
    return;
  }
  Spans fitting;
  size_t left = width_;
  for (const Span& span : spans) {
    size_t columns = columns_of(span.text);
    if (columns >= left) {
      // Even if this span just fits: there is more behind it that does not.
      std::string text = span.text;
      if (columns == left) text += "    ";
      fitting.push_back({cut(text, left), span.ink});
      break;
    }
    fitting.push_back(span);
    left -= columns;
  }
  put(fitting);
}

void Page::wrapped(size_t first, size_t hanging, const Spans& spans) {
  wrapped_after({{std::string(first, ' '), Ink::kPlain}}, hanging, spans);
}

void Page::wrapped_after(const Spans& beginning, size_t hanging, const Spans& spans) {
  Wrapper wrapper(width_, hanging, beginning);
  Spans word;
  auto end_word = [&] {
    if (!word.empty()) wrapper.word(word);
    word.clear();
  };
  for (const Span& span : spans) {
    std::string_view text = span.text;
    if (span.whole) {
      end_word();
      word.push_back(span);
      end_word();
      continue;
    }
    while (!text.empty()) {
      size_t blank = std::min(text.find(' '), text.size());
      if (blank > 0) word.push_back({std::string(text.substr(0, blank)), span.ink});
      bool blank_follows = blank < text.size();
      text.remove_prefix(std::min(blank + 1, text.size()));
      if (!blank_follows) continue;
      if (!word.empty() && is_figure_before_unit(word.back().text, text)) {
        word.push_back({" ", span.ink});
      } else {
        end_word();
      }
    }
  }
  end_word();
  for (const Spans& line : wrapper.finish()) put(line);
}

void Page::gap() {
  if (!text_.empty() && !text_.ends_with("\n\n")) text_ += '\n';
}

void Page::title(std::string_view text) {
  gap();
  wrapped(0, 2, {{std::string(text), Ink::kBold}});
}

std::string Page::cut(std::string_view text, size_t columns) const {
  if (columns_of(text) <= columns) return std::string(text);
  std::string_view mark = first_columns(ellipsis(), columns);
  std::string result(first_columns(text, columns - columns_of(mark)));
  return result.append(mark);
}

std::string Page::cut_front(std::string_view text, size_t columns) const {
  if (columns_of(text) <= columns) return std::string(text);
  std::string mark(first_columns(ellipsis(), columns));
  return mark.append(last_columns(text, columns - columns_of(std::string_view(mark))));
}

void Table::row(std::vector<std::string> cells, Ink ink) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), ink});
}

std::vector<size_t> Table::widths() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (size_t i = 0; i < columns_.size(); ++i) {
    for (const Row& row : rows_) widths[i] = std::max(widths[i], columns_of(row.cells[i]));
    if (widths[i] > 0) widths[i] = std::max(widths[i], columns_of(columns_[i].title));
  }
  return widths;
}

namespace {

size_t total_of(const std::vector<size_t>& widths) {
  size_t sum = 0;
  for (size_t width : widths) sum += width == 0 ? 0 : width + kBetween;
  return sum == 0 ? 0 : sum - kBetween;
}

}  // namespace

void Table::shrink(std::vector<size_t>& widths, size_t room) const {
  while (total_of(widths) > room) {
    size_t widest = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      bool candidate = columns_[i].shrink && widths[i] > kLeastShrunk;
      if (candidate && (widest == columns_.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
  }
}

void Table::fit(std::vector<size_t>& widths, size_t room) const {
  shrink(widths, room);
  while (total_of(widths) > room) {
    size_t worst = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      bool candidate = widths[i] > 0 && columns_[i].drop > 0;
      if (candidate && (worst == columns_.size() || columns_[i].drop > columns_[worst].drop)) {
        worst = i;
      }
    }
    if (worst == columns_.size()) break;
    widths[worst] = 0;
  }
}

void Table::print_block(Page& page, size_t indent, const std::vector<size_t>& widths) const {
  auto print_row = [&](const std::vector<std::string>& cells, Ink ink) {
    std::string text(indent, ' ');
    bool first = true;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      if (!first) text.append(kBetween, ' ');
      first = false;
      std::string cell = columns_[i].keep_end ? page.cut_front(cells[i], widths[i])
                                              : page.cut(cells[i], widths[i]);
      size_t pad = widths[i] - columns_of(cell);
      if (columns_[i].align == Column::Align::kRight) text.append(pad, ' ');
      text += cell;
      if (columns_[i].align == Column::Align::kLeft) text.append(pad, ' ');
    }
    page.line({{text, ink}});
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  print_row(titles, Ink::kDim);
  for (const Row& row : rows_) print_row(row.cells, row.ink);
}

void Table::print_folded(Page& page, size_t indent, std::vector<size_t> widths) const {
  size_t room = page.width() - indent;
  std::vector<size_t> names(widths);
  std::fill(names.begin() + static_cast<std::ptrdiff_t>(names_), names.end(), 0);
  auto end_of_group = [&](size_t begin) {
    size_t end = begin + 1;
    while (end < columns_.size() && columns_[end].joined) ++end;
    return end;
  };
  auto put_group = [&](std::vector<size_t>& block, size_t begin) {
    for (size_t i = begin; i < end_of_group(begin); ++i) block[i] = widths[i];
  };
  // Each group of the others has to fit beside the names.
  for (size_t begin = names_; begin < columns_.size(); begin = end_of_group(begin)) {
    std::vector<size_t> alone = names;
    put_group(alone, begin);
    shrink(alone, room);
    std::copy_n(alone.begin(), names_, names.begin());
  }
  std::vector<size_t> block = names;
  bool filled = false;
  for (size_t begin = names_; begin < columns_.size(); begin = end_of_group(begin)) {
    std::vector<size_t> more = block;
    put_group(more, begin);
    if (filled && total_of(more) > room) {
      print_block(page, indent, block);
      more = names;
      put_group(more, begin);
    }
    block = std::move(more);
    filled = true;
  }
  print_block(page, indent, block);
}

void Table::print(Page& page, size_t indent) const {
  std::vector<size_t> widths = this->widths();
  if (names_ > 0) {
    print_folded(page, indent, std::move(widths));
    return;
  }
  fit(widths, page.width() - indent);
  print_block(page, indent, widths);
}

}  // namespace stalltrace::report

// Lines of text that fit a terminal: wrapping, tables, colour. Everything written to a page must be
// printable already (clean_text.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/report/text.h"

namespace stalltrace::report {

enum class Ink { kPlain, kBold, kDim, kRed, kYellow, kGreen, kCyan };

struct Span {
  std::string text;
  Ink ink = Ink::kPlain;
  bool whole = false;  // one word, whatever blanks are in it
};
using Spans = std::vector<Span>;

class Page {
 public:
  explicit Page(const TextStyle& style);

  [[nodiscard]] size_t width() const { return width_; }
  [[nodiscard]] bool utf8() const { return style_.utf8; }
  // "..." or its one-column form.
  [[nodiscard]] std::string_view ellipsis() const;

  // One line; what does not fit is cut off.
  void line(const Spans& spans);
  void line(std::string text) { line(Spans{{std::move(text), Ink::kPlain}}); }
  // As many lines as needed, broken at blanks; the first indented by `first`, the others by
  // `hanging` columns.
  void wrapped(size_t first, size_t hanging, const Spans& spans);
  // The same after a beginning that is `hanging` columns wide.
  void wrapped_after(const Spans& beginning, size_t hanging, const Spans& spans);
  // An empty line, unless the page is empty or ends with one.
  void gap();
  // A gap and a title.
  void title(std::string_view text);

  // Cut to `columns`, marked with an ellipsis: at the end, or at the beginning.
  [[nodiscard]] std::string cut(std::string_view text, size_t columns) const;
  [[nodiscard]] std::string cut_front(std::string_view text, size_t columns) const;

  std::string take() { return std::move(text_); }

 private:
  void put(const Spans& spans);

  TextStyle style_;
  size_t width_;
  std::string text_;
};

struct Column {
  std::string title;
  enum class Align { kLeft, kRight } align = Align::kRight;
  int drop = 0;           // on a narrow terminal the highest goes first; 0: never
  bool shrink = false;    // may be cut to fit
  bool keep_end = false;  // cut at its beginning: the end of a path tells more
  bool joined = false;    // means nothing without the column before it
};

// Columns aligned, two blanks between; a column without any text is left out, and so are those
// that do not fit.
class Table {
 public:
  // `names`: so many columns name the row. They are repeated where the others do not fit beside
  // them: those go on below, and none is left out. Without names there is but one block.
  explicit Table(std::vector<Column> columns, size_t names = 0)
      : columns_(std::move(columns)), names_(names) {}

  void row(std::vector<std::string> cells, Ink ink = Ink::kPlain);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  void print(Page& page, size_t indent = 2) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Ink ink;
  };
  [[nodiscard]] std::vector<size_t> widths() const;
  void fit(std::vector<size_t>& widths, size_t room) const;
  void shrink(std::vector<size_t>& widths, size_t room) const;
  void print_folded(Page& page, size_t indent, std::vector<size_t> widths) const;
  void print_block(Page& page, size_t indent, const std::vector<size_t>& widths) const;

  std::vector<Column> columns_;
  size_t names_;
  std::vector<Row> rows_;
};

size_t columns_of(const Spans& spans);

}  // namespace stalltrace::report

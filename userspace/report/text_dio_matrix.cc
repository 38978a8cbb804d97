// The tables of `run dio-matrix`, from its JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "userspace/report/json_figures.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

using enum Column::Align;

// "4k", "1024k": as the report that asked for these tables wrote them.
std::string block_text(double bytes) {
  const auto whole = static_cast<uint64_t>(bytes);
  return whole % 1024 == 0 ? fmt::format("{}k", whole / 1024) : fmt::format("{}", whole);
}

std::string mb_text(const Figures* cell, const char* key) {
  return cell == nullptr || !has_number(*cell, key) ? "-"
                                                    : fmt::format("{:.1f}", number_at(*cell, key));
}

std::string both_text(const Figures* cell) {
  if (cell == nullptr) return "-";
  return mb_text(cell, "read_mb_per_s") + "/" + mb_text(cell, "write_mb_per_s");
}

std::string share_of(const Figures& readers, const char* key) {
  return fmt::format("{:.1f} %", 100 * number_at(readers, key));
}

class MatrixText {
 public:
  MatrixText(Page& page, const Names& names, const Figures& workload)
      : page_(page), names_(names), workload_(workload) {
    for (const Figures& cell : workload["cells"]) {
      const double bytes = number_at(cell, "bs");
      const double threads = number_at(cell, "threads");
      rows_.insert({bytes, threads});
      cells_[{bytes, threads, text_at(cell, "test"), text_at(cell, "target")}] = &cell;
    }
    if (!workload.contains("targets") || !workload["targets"].is_array()) return;
    for (const Figures& target : workload["targets"]) targets_.push_back(&target);
  }

  void print() {
    for (const Figures* target : targets_) print_target(*target);
    print_combined();
    print_readers();
    print_verdicts();
  }

 private:
  [[nodiscard]] const Figures* cell(double bytes, double threads, const std::string& test,
                                    const std::string& target) const {
    auto found = cells_.find({bytes, threads, test, target});
    return found == cells_.end() ? nullptr : found->second;
  }

  void print_target(const Figures& target) {
    const std::string name = text_at(target, "name");
    std::string title =
        fmt::format("{}: {}", names_.clean(name), names_.clean(text_at(target, "path")));
    if (std::string fs = text_at(target, "fs"); !fs.empty()) {
      title +=
          fmt::format(" ({} on {})", names_.clean(fs), names_.clean(text_at(target, "device")));
    }
    page_.title(title + ", MB/s over all threads");
    if (std::string note = text_at(target, "note"); !note.empty()) {
      page_.line("  " + names_.clean(note));
    }
    Table table({{"BlkSz"}, {"Trd"}, {"LinRd"}, {"RndRd"}, {"LinWr"}, {"RndWr"}, {"RndRd/RndWr"}});
    for (const auto& [bytes, threads] : rows_) {
      table.row({block_text(bytes), fmt::format("{:.0f}", threads),
                 mb_text(cell(bytes, threads, "read", name), "read_mb_per_s"),
                 mb_text(cell(bytes, threads, "randread", name), "read_mb_per_s"),
                 mb_text(cell(bytes, threads, "write", name), "write_mb_per_s"),
                 mb_text(cell(bytes, threads, "randwrite", name), "write_mb_per_s"),
                 both_text(cell(bytes, threads, "mixed", name))});
    }
    table.print(page_);
  }

  void print_combined() {
    if (!has_mixed()) return;
    page_.title("Random reads and random writes at once, read/write MB/s");
    std::vector<Column> columns{{"BlkSz"}, {"Trd"}};
    for (const Figures* target : targets_) {
      columns.push_back({names_.clean(text_at(*target, "name"))});
    }
    Table table(std::move(columns));
    for (const auto& [bytes, threads] : rows_) {
      std::vector<std::string> row{block_text(bytes), fmt::format("{:.0f}", threads)};
      for (const Figures* target : targets_) {
        row.push_back(both_text(cell(bytes, threads, "mixed", text_at(*target, "name"))));
      }
      table.row(std::move(row));
    }
    table.print(page_);
  }

  [[nodiscard]] bool has_mixed() const {
    return std::any_of(cells_.begin(), cells_.end(),
                       [](const auto& cell) { return std::get<2>(cell.first) == "mixed"; });
  }

  void print_readers() {
    Table table({{"BlkSz"},
                 {"Trd"},
                 {"target", kLeft},
                 {"lock.inode"},
                 {"queue"},
                 {"device"},
                 {"other"},
                 {"short"},
                 {"bytes"},
                 {"of fair"}});
    for (const auto& [key, one] : cells_) {
      if (!one->contains("readers") || !(*one)["readers"].is_object()) continue;
      const Figures& readers = (*one)["readers"];
      const double other = number_at(readers, "other") + number_at(readers, "lock.other");
      table.row({block_text(number_at(*one, "bs")),
                 fmt::format("{:.0f}", number_at(*one, "threads")),
                 names_.clean(text_at(*one, "target")), share_of(readers, "lock.inode"),
                 share_of(readers, "queue"), share_of(readers, "device"),
                 fmt::format("{:.1f} %", 100 * other), share_of(readers, "short"),
                 fmt::format("{:.1f} %", 100 * number_at(*one, "readers_share")),
                 fmt::format("{:.2f}", number_at(*one, "fairness"))});
    }
    if (table.empty()) return;
    page_.title("The readers' time while others write, and their share of the bytes");
    table.print(page_);
    page_.wrapped(
        2, 2,
        {{"short: reads too short to be looked into, and time between them; of fair: 1 is "
          "what both kinds would have in turn, 0 is starved",
          Ink::kDim}});
    print_holders();
  }

  void print_holders() {
    for (const auto& [key, one] : cells_) {
      if (!one->contains("readers") || !(*one)["readers"].is_object()) continue;
      const std::string text = holders_text((*one)["readers"]);
      if (text.empty()) continue;
      page_.wrapped(2, 4,
                    {{fmt::format("{} x {:.0f} on {}, the inode's lock was held by: ",
                                  block_text(number_at(*one, "bs")), number_at(*one, "threads"),
                                  names_.clean(text_at(*one, "target"))),
                      Ink::kCyan},
                     {text, Ink::kPlain}});
    }
  }

  [[nodiscard]] std::string holders_text(const Figures& readers) const {
    constexpr size_t kMost = 3;
    if (number_at(readers, "lock.inode") < 0.01) return {};
    if (!readers.contains("holders") || !readers["holders"].is_array()) return {};
    std::string text;
    size_t shown = 0;
    for (const Figures& holder : readers["holders"]) {
      if (shown == kMost || number_at(holder, "share") < 0.05) break;
      const std::string doing = text_at(holder, "doing");
      text += fmt::format(
          "{}{}{} {:.0f} %", shown++ == 0 ? "" : "; ", names_.clean(text_at(holder, "who")),
          doing.empty() ? "" : " (" + names_.clean(doing) + ")", 100 * number_at(holder, "share"));
    }
    return text;
  }

  void print_verdicts() {
    if (!workload_.contains("verdicts") || !workload_["verdicts"].is_array()) return;
    if (workload_["verdicts"].empty()) return;
    page_.title("Verdicts");
    for (const Figures& verdict : workload_["verdicts"]) {
      page_.wrapped(2, 4,
                    {{names_.clean(text_at(verdict, "about")) + ": ", Ink::kCyan},
                     {names_.clean(text_at(verdict, "text")), Ink::kPlain}});
    }
  }

  Page& page_;
  const Names& names_;
  const Figures& workload_;
  std::set<std::pair<double, double>> rows_;  // block size, threads
  std::map<std::tuple<double, double, std::string, std::string>, const Figures*> cells_;
  std::vector<const Figures*> targets_;
};

}  // namespace

bool is_dio_matrix(const Figures& workload) {
  return text_at(workload, "scenario") == "dio-matrix" && workload.contains("cells") &&
         workload["cells"].is_array();
}

void print_dio_matrix(Page& page, const Names& names, const Figures& workload) {
  MatrixText(page, names, workload).print();
}

bool is_printed_by_dio_matrix(std::string_view key) {
  return key == "cells" || key == "targets" || key == "verdicts" || key == "loss";
}

}  // namespace stalltrace::report

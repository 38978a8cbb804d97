#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "userspace/base/units.h"
#include "userspace/report/clean_text.h"
#include "userspace/report/json_figures.h"
#include "userspace/report/text_parts.h"

namespace stalltrace::report {
namespace {

using enum Column::Align;

constexpr size_t kMostEntries = 60;
constexpr size_t kMostDepth = 8;

std::string plain_number(double number) {
  if (!std::isfinite(number)) return "-";
  if (number == std::floor(number) && std::fabs(number) < 1e15)
    return fmt::format("{:.0f}", number);
  return fmt::format("{:.{}f}", number, std::fabs(number) < 10 ? 3 : 1);
}

bool is_dist(const Figures& value) {
  return has_number(value, "count") && (has_number(value, "mean") || has_number(value, "p50"));
}

// Distributions are of times, but for counts of one thing per another.
bool is_time(std::string_view key) {
  return key.find("_per_") == std::string_view::npos;
}

bool ends(std::string_view text, std::string_view tail) {
  return text.size() > tail.size() && text.ends_with(tail);
}

// Of scalars only.
bool is_flat(const Figures& value) {
  return std::none_of(value.begin(), value.end(),
                      [](const Figures& item) { return item.is_structured(); });
}

std::string_view last_key(std::string_view path) {
  size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

// The unit is said with the value: "latency_us.fsync" is called latency.fsync.
std::string without_units(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    size_t dot = std::min(path.find('.'), path.size());
    std::string_view key = path.substr(0, dot);
    path.remove_prefix(std::min(dot + 1, path.size()));
    for (std::string_view unit : {"_us", "_bytes", "_s"}) {
      if (ends(key, unit) && !ends(key, "_per_s")) {
        key.remove_suffix(unit.size());
        break;
      }
    }
    result += (result.empty() ? "" : ".") + std::string(key);
  }
  return result;
}

// A JSON object as plain figures and a table of its distributions.
class Flat {
 public:
  Flat(Page& page, const Names& names) : page_(page), names_(names) {}

  void add(const std::string& path, const Figures& value, size_t depth = 0) {
    if (value.is_null() || depth > kMostDepth) return;
    if (is_dist(value)) {
      add_dist(path, value);
    } else if (value.is_object() && !path.empty() && value.size() > 1 && is_flat(value)) {
      put(path, members(value));
    } else if (value.is_object()) {
      for (const auto& [key, item] : value.items()) {
        add(path.empty() ? key : path + "." + key, item, depth + 1);
      }
    } else if (value.is_array()) {
      add_array(path, value, depth);
    } else {
      put(path, scalar(path, value));
    }
  }

  void print() {
    constexpr size_t kMostKey = 32;
    size_t width = 0;
    for (const auto& [key, text] : entries_) {
      width = std::max(width, std::min(columns_of(std::string_view(key)), kMostKey));
    }
    for (const auto& [key, text] : entries_) {
      std::string name = page_.cut(key, width);
      name.append(width - columns_of(std::string_view(name)), ' ');
      page_.wrapped_after({{"  " + name + "  ", Ink::kCyan}}, width + 4, {{text, Ink::kPlain}});
    }
    if (left_out_ > 0) page_.line(fmt::format("  and {} more figures, see --json", left_out_));
    if (!dists_.empty()) dists_.print(page_);
  }

  [[nodiscard]] bool empty() const { return entries_.empty() && dists_.empty(); }

 private:
  [[nodiscard]] std::string scalar(std::string_view path, const Figures& value) const {
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_string()) return names_.clean(value.get_ref<const std::string&>());
    if (!value.is_number()) return "-";
    double number = value.get<double>();
    std::string_view key = last_key(path);
    if (ends(key, "_us")) return time_of_us(number);
    if (ends(key, "_s") && !ends(key, "_per_s")) return plain_number(number) + " s";
    bool bytes = key.ends_with("bytes") || key.starts_with("bytes_");
    if (bytes && number >= 0 && number < 9e15) return format_size(static_cast<uint64_t>(number));
    // Exact where it is an identifier or a large count.
    if (value.is_number_integer()) return value.dump();
    return plain_number(number);
  }

  void add_dist(const std::string& path, const Figures& dist) {
    bool times = is_time(last_key(path));
    std::vector<std::string> cells{names_.clean(without_units(path)),
                                   plain_number(number_at(dist, "count"))};
    for (const char* key : {"mean", "p50", "p90", "p99", "p999", "max"}) {
      bool measured = has_number(dist, key) && number_at(dist, "count") > 0;
      double value = number_at(dist, key);
      cells.push_back(!measured ? std::string("-")
                      : times   ? time_of_us(value)
                                : plain_number(value));
    }
    dists_.row(std::move(cells));
  }

  // "size 4, name a; size 5, name b; and 30 more"
  void add_array(const std::string& path, const Figures& array, size_t depth) {
    bool flat = std::all_of(array.begin(), array.end(), is_flat);
    bool scalars = std::none_of(array.begin(), array.end(),
                                [](const Figures& item) { return item.is_structured(); });
    size_t most = scalars ? 16 : 4;
    std::string list;
    for (size_t i = 0; i < array.size(); ++i) {
      const Figures& item = array[i];
      if (i == most) {
        std::string rest = fmt::format("and {} more", array.size() - i);
        if (flat) {
          list += (scalars ? ", " : "; ") + rest;
        } else {
          put(path, rest);
        }
        break;
      }
      if (!flat) {
        add(fmt::format("{}[{}]", path, label(item, i)), item, depth + 1);
      } else if (scalars) {
        list += (i == 0 ? "" : ", ") + scalar(path, item);
      } else {
        list += (i == 0 ? "" : "; ") + members(item);
      }
    }
    if (!list.empty()) put(path, list);
  }

  // What an object calls itself, or its place.
  static std::string label(const Figures& item, size_t place) {
    bool named = item.is_object() && item.contains("name") && item["name"].is_string();
    return named ? item["name"].get<std::string>() : std::to_string(place);
  }

  [[nodiscard]] std::string members(const Figures& object) const {
    if (!object.is_object()) return scalar("", object);
    std::string list;
    for (const auto& [key, value] : object.items()) {
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", names_.clean(without_units(key)),
                          scalar(key, value));
    }
    return list;
  }

  void put(const std::string& path, std::string text) {
    if (entries_.size() >= kMostEntries) {
      ++left_out_;
      return;
    }
    entries_.emplace_back(names_.clean(without_units(path)), std::move(text));
  }

  Page& page_;
  const Names& names_;
  std::vector<std::pair<std::string, std::string>> entries_;
  Table dists_{{{"", kLeft, 0, true},
                {"count"},
                {"mean"},
                {"p50"},
                {"p90", kRight, 2},
                {"p99"},
                {"p99.9", kRight, 1},
                {"max"}}};
  size_t left_out_ = 0;
};

constexpr size_t kFirst = 4;
constexpr size_t kWorst = 8;

// The first ones, to see what is normal here, and the worst ones, in the order of time.
std::vector<size_t> requests_worth_showing(const Figures& requests) {
  std::vector<size_t> order;
  for (size_t i = 0; i < requests.size(); ++i) order.push_back(i);
  if (order.size() <= kFirst + kWorst) return order;
  std::stable_sort(order.begin() + kFirst, order.end(), [&](size_t a, size_t b) {
    return number_at(requests[a], "us") > number_at(requests[b], "us");
  });
  order.resize(kFirst + kWorst);
  std::sort(order.begin(), order.end());
  return order;
}

// Times that a probe tells apart beside the whole ("submit_us").
std::vector<std::string> other_times(const Figures& requests) {
  constexpr size_t kMost = 4;
  std::vector<std::string> keys;
  if (requests.empty() || !requests[0].is_object()) return keys;
  for (const char* key : {"submit_us", "queue_us", "device_us", "complete_us"}) {
    if (has_number(requests[0], key)) keys.emplace_back(key);
  }
  for (const auto& [key, value] : requests[0].items()) {
    bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
    bool time = key != "at_us" && key != "us" && ends(key, "_us") && value.is_number();
    if (time && !known && keys.size() < kMost) keys.push_back(key);
  }
  return keys;
}

}  // namespace

void print_probe(Page& page, const Names& names, const Report& report) {
  const Figures& probe = report.probe;
  if (!probe.is_object()) return;
  page.title("Probe");
  if (probe.contains("requests") && probe["requests"].is_array()) {
    const Figures& requests = probe["requests"];
    std::vector<std::string> others = other_times(requests);
    std::vector<Column> columns{{"request"}, {"at"}, {"time"}};
    for (const std::string& key : others) {
      columns.push_back({names.clean(key.substr(0, key.size() - 3)), kRight, 1});
    }
    columns.push_back({"", kLeft, 0, true});
    Table table(std::move(columns));
    for (size_t index : requests_worth_showing(requests)) {
      const Figures& request = requests[index];
      double us = number_at(request, "us");
      std::vector<std::string> cells{fmt::to_string(index + 1),
                                     fmt::format("{:.3f} s", number_at(request, "at_us") / 1e6),
                                     time_of_us(us)};
      for (const std::string& key : others) {
        cells.push_back(has_number(request, key.c_str())
                            ? time_of_us(number_at(request, key.c_str()))
                            : std::string("-"));
      }
      bool failed = request.is_object() && request.contains("error");
      cells.push_back(failed ? "failed: " + names.clean(request["error"].is_string()
                                                            ? request["error"].get<std::string>()
                                                            : request["error"].dump())
                             : std::string());
      bool slow = us * 1000 >= static_cast<double>(report.threshold_ns);
      table.row(std::move(cells), slow && report.threshold_ns > 0 ? Ink::kYellow : Ink::kPlain);
    }
    if (!table.empty()) table.print(page);
    if (requests.size() > kFirst + kWorst) {
      page.line(fmt::format("  (of {}: the first {} and the {} longest others)", requests.size(),
                            kFirst, kWorst));
    }
  }
  Flat flat(page, names);
  if (probe.contains("latency_us")) flat.add("all", probe["latency_us"]);
  for (const auto& [key, value] : probe.items()) {
    if (key != "requests" && key != "latency_us") flat.add(key, value);
  }
  flat.print();
}

void print_workload(Page& page, const Names& names, const Report& report) {
  if (!report.workload.is_object()) return;
  bool fsmark = is_fsmark(report.workload);
  if (fsmark) print_fsmark(page, report.workload);
  bool osync = is_osync(report.workload);
  if (osync) print_osync(page, names, report.workload);
  bool matrix = is_dio_matrix(report.workload);
  if (matrix) print_dio_matrix(page, names, report.workload);
  Flat flat(page, names);
  for (const auto& [key, value] : report.workload.items()) {
    if (fsmark && key == "iterations") continue;
    if (osync && is_printed_by_osync(key)) continue;
    if (matrix && is_printed_by_dio_matrix(key)) continue;
    flat.add(key, value);
  }
  if (flat.empty()) return;
  page.title("The workload's own figures");
  flat.print();
}

}  // namespace stalltrace::report

// A half-open interval of CLOCK_MONOTONIC nanoseconds, and an index over things that have one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stalltrace::model {

struct Span {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;

  [[nodiscard]] bool empty() const { return end_ns <= start_ns; }
  [[nodiscard]] uint64_t ns() const { return empty() ? 0 : end_ns - start_ns; }
  [[nodiscard]] bool holds(uint64_t ns) const { return start_ns <= ns && ns < end_ns; }
  [[nodiscard]] Span clip(Span to) const {
    return {std::max(start_ns, to.start_ns), std::min(end_ns, to.end_ns)};
  }
  [[nodiscard]] bool overlaps(Span other) const { return !clip(other).empty(); }
  bool operator==(const Span&) const = default;
};

// What of an interval nobody has taken yet.
class FreeSpans {
 public:
  explicit FreeSpans(Span whole) {
    if (!whole.empty()) spans_.push_back(whole);
  }

  // In order.
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }

  // Calls visit(piece) for every free piece of `span`; they are free no more.
  template <typename Visit>
  void take(Span span, Visit&& visit) {
    if (span.empty()) return;
    auto first = std::partition_point(spans_.begin(), spans_.end(),
                                      [&](Span gap) { return gap.end_ns <= span.start_ns; });
    std::vector<Span> rest;
    auto last = first;
    for (; last != spans_.end() && last->start_ns < span.end_ns; ++last) {
      Span piece = last->clip(span);
      if (last->start_ns < piece.start_ns) rest.push_back({last->start_ns, piece.start_ns});
      if (piece.end_ns < last->end_ns) rest.push_back({piece.end_ns, last->end_ns});
      visit(piece);
    }
    auto at = spans_.erase(first, last);
    spans_.insert(at, rest.begin(), rest.end());
  }

 private:
  std::vector<Span> spans_;
};

// Which of many spans overlap a given one, in time proportional to the answer. One that lasts for
// the whole trace (a hung request) does not slow the others down.
class SpanIndex {
 public:
  SpanIndex() = default;

  // `spans` sorted by start_ns. Answers are positions in it.
  explicit SpanIndex(const std::vector<Span>& spans) {
    size_t leaves = 1;
    while (leaves < spans.size()) leaves *= 2;
    leaves_ = spans.empty() ? 0 : leaves;
    starts_.reserve(spans.size());
    latest_end_.assign(leaves_ * 2, 0);
    for (size_t i = 0; i < spans.size(); ++i) {
      starts_.push_back(spans[i].start_ns);
      latest_end_[leaves_ + i] = spans[i].end_ns;
    }
    for (size_t i = leaves_; i-- > 1;) {
      latest_end_[i] = std::max(latest_end_[2 * i], latest_end_[2 * i + 1]);
    }
  }

  // In order of start.
  [[nodiscard]] std::vector<size_t> overlapping(Span with) const {
    std::vector<size_t> found;
    if (with.empty() || leaves_ == 0) return found;
    auto end = std::lower_bound(starts_.begin(), starts_.end(), with.end_ns);
    collect(1, 0, leaves_, static_cast<size_t>(end - starts_.begin()), with.start_ns, found);
    return found;
  }

 private:
  void collect(size_t node, size_t first, size_t count, size_t limit, uint64_t after,
               std::vector<size_t>& found) const {
    if (first >= limit || latest_end_[node] <= after) return;
    if (count == 1) {
      found.push_back(first);
      return;
    }
    collect(2 * node, first, count / 2, limit, after, found);
    collect(2 * node + 1, first + count / 2, count / 2, limit, after, found);
  }

  size_t leaves_ = 0;
  std::vector<uint64_t> starts_;
  std::vector<uint64_t> latest_end_;  // a heap-shaped tree of maxima; the leaves are the spans
};

}  // namespace stalltrace::model

// Causes that tile an interval exactly. What is put first keeps its place; what comes later gets
// what is still free. So sums hold by construction, whatever the events say.
#pragma once

#include <algorithm>
#include <cassert>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "userspace/blame/stall.h"
#include "userspace/model/span.h"

namespace stalltrace::blame {

using model::Span;
using Causes = std::vector<Cause>;

inline Span span_of(const Cause& cause) {
  return {cause.start_ns, cause.start_ns + cause.ns};
}

// A list of one; `{cause}` would copy it.
inline Causes one(Cause cause) {
  Causes causes;
  causes.push_back(std::move(cause));
  return causes;
}

class Tiling {
 public:
  explicit Tiling(Span whole) : whole_(whole), free_(whole) {}

  [[nodiscard]] Span whole() const { return whole_; }
  [[nodiscard]] bool full() const { return free().empty(); }
  [[nodiscard]] const std::vector<Span>& free() const { return free_.spans(); }
  [[nodiscard]] bool is_free(uint64_t ns) const {
    return std::any_of(free().begin(), free().end(), [&](Span gap) { return gap.holds(ns); });
  }

  // Calls make(piece) for every free piece of `span`; it returns a Cause or Causes that tile it.
  template <typename Make>
  void put(Span span, Make&& make) {
    free_.take(span.clip(whole_), [&](Span piece) { keep(piece, make(piece)); });
  }

  template <typename Make>
  void fill(Make&& make) {
    put(whole_, std::forward<Make>(make));
  }

  // In order of time. Neighbours that say the same become one.
  [[nodiscard]] Causes take() && {
    assert(full());
    auto earlier = [](const Cause& a, const Cause& b) { return a.start_ns < b.start_ns; };
    if (!std::is_sorted(causes_.begin(), causes_.end(), earlier)) {
      std::sort(causes_.begin(), causes_.end(), earlier);
    }
    Causes merged;
    merged.reserve(causes_.size());
    for (Cause& cause : causes_) {
      if (!merged.empty() && same(merged.back(), cause)) {
        merged.back().ns += cause.ns;
        merged.back().root.ns += cause.ns;
      } else {
        merged.push_back(std::move(cause));
      }
    }
    return merged;
  }

 private:
  static bool same(const Cause& a, const Cause& b) {
    return a.causes.empty() && b.causes.empty() && a.kind == b.kind && a.id == b.id &&
           a.dev == b.dev && a.task.tid == b.task.tid && a.sure == b.sure && a.text == b.text &&
           a.evidence == b.evidence && a.root.kind == b.root.kind && a.root.dev == b.root.dev &&
           a.root.task.tid == b.root.task.tid;
  }

  void keep([[maybe_unused]] Span piece, Cause cause) {
    assert(span_of(cause) == piece);
    causes_.push_back(std::move(cause));
  }
  void keep([[maybe_unused]] Span piece, Causes causes) {
    [[maybe_unused]] uint64_t at = piece.start_ns;
    for (Cause& cause : causes) {
      assert(cause.start_ns == at && cause.ns > 0);
      at += cause.ns;
      causes_.push_back(std::move(cause));
    }
    assert(at == piece.end_ns);
  }

  Span whole_;
  model::FreeSpans free_;
  Causes causes_;
};

}  // namespace stalltrace::blame

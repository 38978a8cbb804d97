// From a stalled call to its parts, the chains behind them and their roots.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "userspace/blame/stall.h"
#include "userspace/model/trace.h"

namespace stalltrace::blame {

// `trace` must be sealed.
Stall explain(const model::Trace& trace, const model::Call& call);

// Every call that is a stall, by start; ids count from 1. A call that the window's edges, or its
// being wanted for an explanation only, leave shorter than `threshold_ns` is none. `look` sees each
// with its chains whole; those returned are shortened (shorten.h).
std::vector<Stall> explain_all(const model::Trace& trace, uint64_t threshold_ns = 0,
                               const std::function<void(const Stall&)>& look = {});

// The same of those calls only that `is_wanted` picks, however long they took.
std::vector<Stall> explain_calls(const model::Trace& trace,
                                 const std::function<bool(const model::Call&)>& is_wanted,
                                 const std::function<void(const Stall&)>& look = {});

}  // namespace stalltrace::blame

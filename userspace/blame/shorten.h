// Chains that a person can read and a report can hold. Seventy tasks behind one another's locks
// wait for what each of those before them waited for: told in full, that is thousands of links a
// stall.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "userspace/blame/tiling.h"
#include "userspace/model/trace.h"

namespace stalltrace::blame {

// So many links of a stall are told one by one, the longest. With a hundred, what was summed up in a
// long commit lay tens of milliseconds from its place.
constexpr size_t kMostLinks = 500;

// A link for each root under `run`, in its place and of its length: sums stay exact, the places
// inside of it do not. `text_of_root` says what such a link was.
Causes sums_of(const Causes& run, const std::function<std::string(const Root&)>& text_of_root);

// Links beyond the `most` longest are summed up by root among their neighbours. Parts, roots and
// every sum stay what they were.
void shorten(Stall& stall, const model::Trace& trace, size_t most = kMostLinks);

}  // namespace stalltrace::blame

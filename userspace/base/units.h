// Times and sizes as people write them: `250us`, `10ms`, `1.5s`; `64k`, `128m`, `4g` (fio's
// suffixes, powers of 1024).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stalltrace {

// Nanoseconds. A bare number is refused unless it is 0: a time without a unit is a guess.
// Throws a usage Error that names `what`.
uint64_t parse_time_ns(std::string_view text, std::string_view what);

// Bytes. Accepts a bare number, and k, m, g, t with an optional `b` or `ib`, in either case.
// Throws a usage Error that names `what`.
uint64_t parse_size(std::string_view text, std::string_view what);

// "1.86 s", "12.3 ms", "250 us": three significant digits, a unit that suits.
std::string format_time(uint64_t ns);

// "4 KiB", "1.5 GiB".
std::string format_size(uint64_t bytes);

}  // namespace stalltrace

// Names of tasks and files are bytes that anybody may choose. These functions make them safe for
// JSON and for a terminal, and tell how much room they take.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stalltrace::report {

// Valid UTF-8: each byte that is no part of any becomes U+FFFD. Control characters stay (JSON
// escapes them).
std::string valid_utf8(std::string_view bytes);

// Harmless on a terminal: control characters, invalid bytes and characters that change the
// direction or shape of text become \xNN. Without `utf8` everything outside ASCII does.
std::string printable(std::string_view bytes, bool utf8);

// Columns that printable text takes on a terminal.
size_t columns_of(std::string_view text);

// The longest beginning (ending) of printable text within `columns`; characters stay whole.
std::string_view first_columns(std::string_view text, size_t columns);
std::string_view last_columns(std::string_view text, size_t columns);

}  // namespace stalltrace::report

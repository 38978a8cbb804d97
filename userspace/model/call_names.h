// The kinds of calls as people type and scripts read them ("io_submit", "fdatasync"); the only
// place where they meet the numbers of the wire.
#pragma once

#include <optional>
#include <string_view>

#include "bpf/wire.h"

namespace stalltrace::model {

// A static string; "none" for CALL_NONE and "unknown" for a number without a name (a recording of
// a later version).
std::string_view call_name(wire::wire_call_kind kind);

// The reverse, "none" included.
std::optional<wire::wire_call_kind> call_kind_named(std::string_view name);

}  // namespace stalltrace::model

#include "userspace/cli/stop_on.h"

#include <optional>
#include <string>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/model/call_names.h"

namespace stalltrace::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

StopOn parse_stop_on(std::string_view text) {
  size_t sign = text.find('>');
  if (sign == std::string_view::npos) {
    throw usage_error("--stop-on '{}': a kind of call and a time are wanted, like 'fsync > 1s'",
                      text);
  }
  std::string_view name = trimmed(text.substr(0, sign));
  StopOn stop_on{.over_ns =
                     parse_time_ns(std::string(trimmed(text.substr(sign + 1))), "--stop-on")};
  if (name == "stall") return stop_on;
  std::optional<wire::wire_call_kind> kind = model::call_kind_named(name);
  if (!kind || *kind == wire::CALL_NONE) {
    throw usage_error(
        "--stop-on: no kind of call is named '{}' (io_submit, write, fsync, ...; "
        "stall for any)",
        name);
  }
  stop_on.kind = *kind;
  return stop_on;
}

}  // namespace stalltrace::cli

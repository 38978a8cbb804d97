#include "userspace/model/call_names.h"

#include <array>
#include <cstddef>

namespace stalltrace::model {
namespace {

constexpr std::array<std::string_view, 25> kNames{
    "none",   "io_submit", "io_uring_enter", "uring_worker", "uring_sqpoll",
    "read",   "write",     "fsync",          "fdatasync",    "sync_file_range",
    "syncfs", "sync",      "msync",          "fallocate",    "truncate",
    "open",   "unlink",    "rename",         "mkdir",        "rmdir",
    "link",   "setattr",   "xattr",          "fault",        "kworker",
};
static_assert(kNames.size() == wire::CALL_KWORKER + 1);

}  // namespace

std::string_view call_name(wire::wire_call_kind kind) {
  auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames.at(index) : "unknown";
}

std::optional<wire::wire_call_kind> call_kind_named(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == name) return static_cast<wire::wire_call_kind>(i);
  }
  return std::nullopt;
}

}  // namespace stalltrace::model

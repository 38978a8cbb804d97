// Whose stalls are told: everything that happens still explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf/wire.h"
#include "userspace/kernel/containers.h"

namespace CLI {
class App;
}

namespace stalltrace::cli {

struct Filter {
  std::optional<uint32_t> pid;  // with its threads and the processes that it made; or one thread
  std::vector<std::string> comms;
  std::vector<std::string> kinds;
  std::string cgroup;
  std::string path;

  [[nodiscard]] bool any() const {
    return pid || !comms.empty() || !kinds.empty() || !cgroup.empty() || !path.empty();
  }
  // "of process 42 and those that it made, of calls fsync, write"
  [[nodiscard]] std::string text() const;
};

void add_filter_options(CLI::App& command, Filter& filter);

// A filter that has been looked at: throws a usage Error for what is not there.
class Wanted {
 public:
  explicit Wanted(const Filter& filter);

  // `path`: of the call's file, as our own namespace has it.
  [[nodiscard]] bool has(const wire::wire_call& call, const std::string& path,
                         const kernel::Containers& containers) const;
  // The process to be followed through its forks.
  [[nodiscard]] std::optional<uint32_t> followed() const { return followed_; }

 private:
  const Filter filter_;
  std::optional<uint32_t> thread_;  // that one only
  std::optional<uint32_t> followed_;
  std::vector<wire::wire_call_kind> kinds_;
  std::string cgroup_;  // as Containers names it
  std::string path_;
};

}  // namespace stalltrace::cli

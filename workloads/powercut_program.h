// Any program as the load of a power cut: it prints a line `promised TOKEN` for each thing that it
// was promised would last, and a checker says afterwards what of that is gone.
#pragma once

#include <string>
#include <vector>

#include "userspace/base/fd.h"
#include "workloads/powercut_load.h"

namespace stalltrace::workloads {

struct ProgramLoadSpec {
  std::vector<std::string> command;
  std::string folder;   // exists and is empty; STALLTRACE_DIR names it to the program
  std::string checker;  // run with the folder as its argument and the tokens as its input
};

class ProgramLoad : public PowercutLoad {
 public:
  // Begins at once. Throws a failed Error.
  explicit ProgramLoad(const ProgramLoadSpec& spec);
  ~ProgramLoad() override;

  uint64_t promised() override;
  bool is_syncing() override { return true; }
  void end() override;
  [[nodiscard]] std::optional<uint64_t> syncs_in_flight(uint64_t /*at_ns*/) const override {
    return std::nullopt;
  }
  // Exit status 0 of the checker: all is there. Else a line of its output per thing lost.
  PowercutFindings check(bool mounted) override;

 private:
  void read_lines();

  ProgramLoadSpec spec_;
  pid_t pid_ = -1;
  Fd output_;
  std::string begun_line_;
  std::vector<std::string> tokens_;
};

}  // namespace stalltrace::workloads

// The matrix of `run dio-matrix`: its targets, its cells, and what is read off them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "userspace/cli/signals.h"
#include "userspace/kernel/devices.h"
#include "userspace/kernel/knobs.h"
#include "workloads/dio_spec.h"
#include "workloads/process.h"

namespace stalltrace::cli {

struct DioMatrixSpec {
  struct Target {
    std::string name;
    std::string path;
  };
  // One way to mount the file targets: a knob of kernel/knobs.h and its value.
  struct Remount {
    std::string word;  // as it was given
    std::string knob, value;
  };
  std::vector<Target> targets;
  std::vector<Remount> remounts;
  std::vector<uint64_t> block_bytes;
  std::vector<unsigned> threads;
  std::vector<workloads::DioTest> tests;
  workloads::DioWriters writers = workloads::DioWriters::kDirect;
  workloads::DioLayout layout = workloads::DioLayout::kWritten;
  uint64_t size_bytes = 0;
  uint64_t cell_ns = 0;
  unsigned loops = 1;
  bool destroy_data = false;
  bool trace = true;
  std::optional<uint64_t> bound_ns;  // reads this long are looked into; else by the threads
  std::vector<std::string> disabled_hooks;
  workloads::OpsLogSpec ops_log;  // of the last cell
};

class DioMatrix {
 public:
  // Looks at all targets and changes nothing. Throws a usage Error for what cannot be run.
  DioMatrix(const DioMatrixSpec& spec, StopSignals& signals);
  DioMatrix(const DioMatrix&) = delete;
  DioMatrix& operator=(const DioMatrix&) = delete;
  ~DioMatrix();

  // Until the end, or until it is stopped: what was gathered is there.
  void run();

  // {"targets":[...],"cells":[...],"verdicts":[...],"cells_done","cells_planned","notes"}
  [[nodiscard]] nlohmann::json figures() const;
  [[nodiscard]] const std::vector<kernel::Device>& devices() const { return devices_; }

 private:
  // A column of the tables: a target, mounted in one way.
  struct Column {
    std::string name;
    std::string path;
    bool raw = false;
    std::vector<kernel::Device> devices;
    kernel::Knobs* knobs = nullptr;  // of its mount
    const DioMatrixSpec::Remount* remount = nullptr;
    std::string reference;  // the column of the first way to mount it
  };
  struct Place {
    uint64_t block_bytes;
    unsigned threads;
    workloads::DioTest test;
    size_t column;
    auto operator<=>(const Place&) const = default;
  };
  struct Cell {
    std::vector<double> read_mb_per_s, write_mb_per_s;  // by loop
    std::vector<nlohmann::json> readers;                // of those that were traced
  };

  void add_target(const DioMatrixSpec::Target& target);
  // False: it was stopped.
  bool run_cell(const Place& place);
  bool work(const workloads::Scenario& scenario, const Column& column, Cell& cell);
  // Makes the file that a column needs, or renews it.
  bool prepare_file(const Column& column);
  void show(const Place& place) const;
  [[nodiscard]] size_t planned() const;
  [[nodiscard]] nlohmann::json cell_figures(const Place& place, const Cell& cell) const;
  [[nodiscard]] double mean_rate(Place place, workloads::DioTest test, bool reads) const;
  [[nodiscard]] nlohmann::json verdicts() const;

  const DioMatrixSpec& spec_;
  StopSignals& signals_;
  std::vector<Column> columns_;
  std::vector<kernel::Device> devices_;
  std::map<std::string, std::unique_ptr<kernel::Knobs>> knobs_;  // by mount point
  // Files of ours, by path, each held by a process that removes it whatever becomes of us.
  std::map<std::string, workloads::Scenario> file_specs_;
  std::map<std::string, std::unique_ptr<workloads::WorkloadProcess>> files_;
  std::map<Place, Cell> cells_;
  size_t done_ = 0;
  uint64_t begun_ns_ = 0;
  std::string error_;
};

}  // namespace stalltrace::cli

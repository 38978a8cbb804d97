// The load of `run osync`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "workloads/block_order.h"
#include "workloads/device_guard.h"
#include "workloads/extra_load.h"
#include "workloads/osync_engine.h"
#include "workloads/osync_spec.h"

namespace stalltrace::workloads {

class OsyncWorker : public Worker {
 public:
  // Writes the region of `region_bytes` that begins at `region_start`.
  OsyncWorker(unsigned thread, const OpsLogSpec& log, const OsyncSpec& spec, int fd,
              uint64_t region_start, uint64_t region_bytes, const StopSignal& stop);
  ~OsyncWorker() override;

  [[nodiscard]] uint64_t writes() const { return writes_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 protected:
  void run(uint64_t start_ns) override;

 private:
  struct Slot {
    uint64_t id = 0;
    uint64_t start_ns = 0;
  };

  bool submit(unsigned slot);
  // Waits for one write; its slot, or nothing after an error.
  bool finish_one(unsigned& slot);

  const OsyncSpec& spec_;
  uint64_t region_start_;
  BlockOrder order_;
  const StopSignal& stop_;
  std::unique_ptr<DurableWriter> writer_;
  void* buffer_;  // all writes send the same bytes
  std::vector<Slot> slots_;
  uint64_t writes_ = 0;
  uint64_t bytes_ = 0;
};

class OsyncLoad : public ExtraLoad {
 public:
  OsyncLoad(const OsyncSpec& spec, const OpsLogSpec& log, const StopSignal& stop)
      : spec_(spec), log_(log), stop_(stop) {}

  bool prepare(const LayoutHooks& hooks) override;
  [[nodiscard]] const std::vector<std::unique_ptr<Worker>>& workers() const override {
    return workers_;
  }
  void remove_files() noexcept override { files_.remove_created(); }
  [[nodiscard]] nlohmann::json figures(uint64_t elapsed_ns) const override;

 private:
  const OsyncSpec& spec_;
  const OpsLogSpec& log_;
  const StopSignal& stop_;
  File claim_;  // of the device: nobody mounts it meanwhile
  FileSet files_;
  File file_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace stalltrace::workloads

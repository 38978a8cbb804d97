// The threads of one cell of `run dio-matrix`.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "workloads/block_order.h"
#include "workloads/dio_spec.h"
#include "workloads/extra_load.h"

namespace stalltrace::workloads {

// Where the next write that extends the file goes. The file is cut back now and then, so that it
// does not fill the file system.
class GrowingEnd {
 public:
  // Cuts the file to `base_bytes`.
  void attach(int fd, uint64_t base_bytes);
  // An offset, or a negative errno.
  int64_t next(uint64_t bytes);

 private:
  std::mutex mutex_;
  int fd_ = -1;
  uint64_t base_ = 0;
  uint64_t limit_ = 0;
  uint64_t end_ = 0;
};

class DioWorker : public Worker {
 public:
  // `fd` is read or written in [first, first + blocks) blocks, or written where `end` says.
  DioWorker(unsigned index, unsigned thread, bool writes, const OpsLogSpec& log,
            const DioCellSpec& spec, int fd, uint64_t first, uint64_t blocks, GrowingEnd* end,
            const StopSignal& stop);
  ~DioWorker() override;

  [[nodiscard]] bool is_writer() const { return writes_; }
  [[nodiscard]] uint64_t operations() const { return operations_; }
  [[nodiscard]] uint64_t start_ns() const { return start_ns_; }

 protected:
  void run(uint64_t start_ns) override;

 private:
  const DioCellSpec& spec_;
  bool writes_;
  int fd_;
  uint64_t first_;
  BlockOrder order_;
  GrowingEnd* end_;
  const StopSignal& stop_;
  void* buffer_;
  uint64_t operations_ = 0;
  uint64_t start_ns_ = 0;
};

class DioCellLoad : public ExtraLoad {
 public:
  DioCellLoad(const DioCellSpec& spec, const OpsLogSpec& log, const StopSignal& stop)
      : spec_(spec), log_(log), stop_(stop) {}

  bool prepare(const LayoutHooks& hooks) override;
  [[nodiscard]] const std::vector<std::unique_ptr<Worker>>& workers() const override {
    return workers_;
  }
  void remove_files() noexcept override {}
  // {"reads","bytes_read","read_mb_per_s","writes","bytes_written","write_mb_per_s"}: each kind
  // over the time until its own last thread ended.
  [[nodiscard]] nlohmann::json figures(uint64_t elapsed_ns) const override;

 private:
  void add_threads(bool writers, int fd, uint64_t blocks);

  const DioCellSpec& spec_;
  const OpsLogSpec& log_;
  const StopSignal& stop_;
  File claim_;
  File reads_;
  File writes_;
  GrowingEnd end_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

class DioFileLoad : public ExtraLoad {
 public:
  explicit DioFileLoad(const DioFileSpec& spec) : spec_(spec) {}

  bool prepare(const LayoutHooks& hooks) override;
  [[nodiscard]] const std::vector<std::unique_ptr<Worker>>& workers() const override {
    return none_;
  }
  void remove_files() noexcept override { files_.remove_created(); }
  [[nodiscard]] nlohmann::json figures(uint64_t) const override { return nlohmann::json::object(); }

 private:
  const DioFileSpec& spec_;
  FileSet files_;
  std::vector<std::unique_ptr<Worker>> none_;
};

}  // namespace stalltrace::workloads

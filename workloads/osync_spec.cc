#include "workloads/osync_spec.h"

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/named_values.h"

namespace stalltrace::workloads {
namespace {

constexpr std::array<std::string_view, 3> kWriteSyncs{"osync", "dsync", "rwf_dsync"};
constexpr std::array<std::string_view, 3> kWriteEngines{"psync", "libaio", "io_uring"};

}  // namespace

std::string_view write_sync_name(WriteSync sync) {
  return kWriteSyncs[static_cast<size_t>(sync)];
}
std::optional<WriteSync> write_sync_of(std::string_view name) {
  return value_named<WriteSync>(kWriteSyncs, name);
}
const std::vector<std::string>& write_sync_names() {
  static const std::vector<std::string> names = as_strings(kWriteSyncs);
  return names;
}

std::string_view write_engine_name(WriteEngine engine) {
  return kWriteEngines[static_cast<size_t>(engine)];
}
std::optional<WriteEngine> write_engine_of(std::string_view name) {
  return value_named<WriteEngine>(kWriteEngines, name);
}
const std::vector<std::string>& write_engine_names() {
  static const std::vector<std::string> names = as_strings(kWriteEngines);
  return names;
}

std::string OsyncSpec::path() const {
  if (raw()) return device;
  return directory + (directory.ends_with('/') ? "" : "/") + "osync-000";
}

void check_osync(const OsyncSpec& spec, const std::string& where) {
  constexpr unsigned kMostThreads = 1000;
  constexpr unsigned kMostDepth = 1024;
  if (spec.device.empty() == spec.directory.empty()) {
    throw usage_error("{}: name either a device (--device) or a directory for a file (--dir)",
                      where);
  }
  if (spec.threads == 0 || spec.threads > kMostThreads) {
    throw usage_error("{}: --threads {}: choose 1 to {}", where, spec.threads, kMostThreads);
  }
  if (spec.block_bytes == 0 || spec.block_bytes % 512 != 0 ||
      spec.block_bytes > (uint64_t{1} << 30U)) {
    throw usage_error("{}: --bs {}: direct I/O needs a multiple of 512, up to 1 GiB", where,
                      spec.block_bytes);
  }
  if (spec.iodepth == 0 || spec.iodepth > kMostDepth) {
    throw usage_error("{}: --iodepth {}: choose 1 to {}", where, spec.iodepth, kMostDepth);
  }
  if (spec.iodepth > 1 && spec.engine == WriteEngine::kPsync) {
    throw usage_error(
        "{}: psync has one write in flight per thread: --iodepth is for libaio and "
        "io_uring",
        where);
  }
  if (!spec.raw() && spec.size_bytes / spec.threads < spec.block_bytes) {
    throw usage_error("{}: --size {} is less than one block of {} for each of {} threads", where,
                      format_size(spec.size_bytes), format_size(spec.block_bytes), spec.threads);
  }
}

}  // namespace stalltrace::workloads

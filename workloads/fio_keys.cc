#include "workloads/fio_keys.h"

#include <algorithm>

namespace stalltrace::workloads {
namespace {

// As `fio` has them under "job options": the last of two wins.
void remember(JobSpec& job, const FioEntry& entry) {
  std::string value = entry.value.value_or("1");
  auto found = std::find_if(job.options.begin(), job.options.end(),
                            [&](const auto& option) { return option.first == entry.key; });
  if (found != job.options.end()) {
    found->second = value;
  } else {
    job.options.emplace_back(entry.key, value);
  }
}

}  // namespace

FioDraft fio_defaults() {
  FioDraft draft;
  JobSpec& job = draft.job;
  job.name.clear();
  job.engine = Engine::kPsync;
  job.pattern = Pattern::kRead;
  job.block_bytes = 4096;
  job.size_bytes = 0;
  job.directory = ".";
  job.file_names = FileNames::kFio;
  job.drop_cache = true;
  job.advise = true;
  job.iodepth = 1;
  job.jobs = 1;
  job.direct = false;
  job.sync_in_ring = true;
  job.uring.cooperative = true;
  job.time_based = false;
  return draft;
}

void apply_fio_key(FioDraft& draft, const FioEntry& entry) {
  for (std::span<const FioKey> group :
       {fio_io_keys(), fio_file_keys(), fio_pace_keys(), fio_other_keys()}) {
    for (const FioKey& key : group) {
      if (key.name != entry.key) continue;
      key.set(draft, entry);
      remember(draft.job, entry);
      return;
    }
  }
  throw usage_error(
      "{}:{}: unknown key '{}': remove it, or run the file with fio under `stalltrace trace -- "
      "fio`",
      entry.file, entry.line, entry.key);
}

}  // namespace stalltrace::workloads

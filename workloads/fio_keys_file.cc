#include <fcntl.h>

#include <array>
#include <utility>

#include "workloads/fio_keys.h"

namespace stalltrace::workloads {
namespace {

void set_directory(FioDraft& draft, const FioEntry& entry) {
  if (entry.text().find(':') != std::string::npos) throw entry.error("only one directory");
  draft.job.directory = entry.text();
}

void set_filename(FioDraft& draft, const FioEntry& entry) {
  if (entry.text() == "-") throw entry.error("standard input and output are no files of a load");
  draft.job.filename = entry.text();
  draft.job.file_names = FileNames::kShared;
}

void set_format(FioDraft& draft, const FioEntry& entry) {
  if (entry.text().find("$clientuid") != std::string::npos) {
    throw entry.error("there are no clients here");
  }
  draft.job.filename_format = entry.text();
}

void set_name(FioDraft& draft, const FioEntry& entry) {
  if (entry.text().find('/') != std::string::npos) throw entry.error("no '/' in a job's name");
  draft.job.name = entry.text();
}

void set_size(FioDraft& draft, const FioEntry& entry) {
  draft.job.size_bytes = entry.size();
  draft.has_size = true;
}

void set_file_size(FioDraft& draft, const FioEntry& entry) {
  auto [least, most] = entry.size_range();
  if (least == 0) throw entry.error("an empty file has nothing to read or write");
  draft.job.file_min_bytes = least;
  draft.job.file_max_bytes = most;
}

void set_fallocate(FioDraft& draft, const FioEntry& entry) {
  static constexpr std::array<std::pair<std::string_view, Fill>, 7> kWords{
      {{"none", Fill::kNone},
       {"0", Fill::kNone},
       {"native", Fill::kPreallocate},
       {"posix", Fill::kPreallocate},
       {"1", Fill::kPreallocate},
       {"truncate", Fill::kTruncate},
       {"keep", Fill::kKeepSize}}};
  for (const auto& [word, fill] : kWords) {
    if (word == entry.text()) {
      draft.job.fill = fill;
      return;
    }
  }
  throw entry.error("must be none, native, posix, keep or truncate");
}

void set_file_order(FioDraft& draft, const FioEntry& entry) {
  std::vector<std::string_view> parts = split_at(entry.text(), ':');
  static constexpr std::array<std::pair<std::string_view, FileOrder>, 3> kWords{
      {{"roundrobin", FileOrder::kRoundRobin},
       {"sequential", FileOrder::kSequential},
       {"random", FileOrder::kRandom}}};
  for (const auto& [word, order] : kWords) {
    if (word != parts[0] || parts.size() > 2) continue;
    draft.job.file_order = order;
    draft.job.file_run = 1;
    if (parts.size() == 2) {
      draft.job.file_run = static_cast<unsigned>(entry.number_of(parts[1], 1'000'000'000));
    }
    if (draft.job.file_run == 0) throw entry.error("at least one I/O per file");
    return;
  }
  throw entry.error("this order is not built in (roundrobin, sequential, random)");
}

void set_sync(FioDraft& draft, const FioEntry& entry) {
  OpenSync& sync = draft.job.open_sync;
  if (!entry.value || *entry.value == "1" || *entry.value == "sync") {
    sync = OpenSync::kSync;
  } else if (*entry.value == "dsync") {
    sync = OpenSync::kDsync;
  } else if (*entry.value == "0" || *entry.value == "none") {
    sync = OpenSync::kNone;
  } else {
    throw entry.error("must be none, sync or dsync");
  }
}

// "wait_before,write,wait_after:COUNT"
void set_range_sync(FioDraft& draft, const FioEntry& entry) {
  std::vector<std::string_view> parts = split_at(entry.text(), ':');
  unsigned flags = 0;
  for (std::string_view word : split_at(parts[0], ',')) {
    if (word == "wait_before") {
      flags |= SYNC_FILE_RANGE_WAIT_BEFORE;
    } else if (word == "write") {
      flags |= SYNC_FILE_RANGE_WRITE;
    } else if (word == "wait_after") {
      flags |= SYNC_FILE_RANGE_WAIT_AFTER;
    } else {
      throw entry.error("must be some of wait_before, write, wait_after, and :COUNT");
    }
  }
  if (parts.size() != 2) throw entry.error("needs :COUNT, the number of writes");
  draft.job.range_sync_flags = flags;
  draft.job.range_sync_every = static_cast<unsigned>(entry.number_of(parts[1], 1'000'000'000));
}

template <unsigned JobSpec::*Member>
void set_number(FioDraft& draft, const FioEntry& entry) {
  draft.job.*Member = entry.count();
}

template <bool JobSpec::*Member>
void set_yes_no(FioDraft& draft, const FioEntry& entry) {
  draft.job.*Member = entry.flag();
}

template <uint64_t JobSpec::*Member>
void set_bytes(FioDraft& draft, const FioEntry& entry) {
  draft.job.*Member = entry.size();
}

constexpr std::array kFileKeys{
    FioKey{"directory", set_directory},
    FioKey{"filename", set_filename},
    FioKey{"filename_format", set_format},
    FioKey{"name", set_name},
    FioKey{"size", set_size},
    FioKey{"filesize", set_file_size},
    FioKey{"io_size", set_bytes<&JobSpec::io_bytes>},
    FioKey{"io_limit", set_bytes<&JobSpec::io_bytes>},
    FioKey{"offset", set_bytes<&JobSpec::offset_bytes>},
    FioKey{"offset_increment", set_bytes<&JobSpec::offset_step>},
    FioKey{"nrfiles", set_number<&JobSpec::files>},
    FioKey{"nr_files", set_number<&JobSpec::files>},
    FioKey{"file_service_type", set_file_order},
    FioKey{"fallocate", set_fallocate},
    FioKey{"overwrite", [](FioDraft& d, const FioEntry& e) { d.overwrite = e.flag(); }},
    FioKey{"file_append", set_yes_no<&JobSpec::append>},
    FioKey{"create_on_open", set_yes_no<&JobSpec::create_on_open>},
    FioKey{"allow_file_create", set_yes_no<&JobSpec::may_create>},
    FioKey{"invalidate", set_yes_no<&JobSpec::drop_cache>},
    FioKey{"fadvise_hint", set_yes_no<&JobSpec::advise>},
    FioKey{"sync", set_sync},
    FioKey{"fsync", set_number<&JobSpec::fsync_every>},
    FioKey{"fdatasync", set_number<&JobSpec::fdatasync_every>},
    FioKey{"sync_file_range", set_range_sync},
    FioKey{"end_fsync", set_yes_no<&JobSpec::end_fsync>},
    FioKey{"fsync_on_close", set_yes_no<&JobSpec::fsync_on_close>},
};

}  // namespace

std::span<const FioKey> fio_file_keys() {
  return kFileKeys;
}

}  // namespace stalltrace::workloads

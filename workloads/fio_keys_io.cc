#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "workloads/fio_keys.h"

namespace stalltrace::workloads {
namespace {

void set_engine(FioDraft& draft, const FioEntry& entry) {
  static constexpr std::array kEngines{Engine::kLibaio, Engine::kIoUring, Engine::kSync,
                                       Engine::kPsync,  Engine::kPvsync,  Engine::kPvsync2};
  for (Engine engine : kEngines) {
    if (engine_name(engine) == entry.text()) {
      draft.job.engine = engine;
      return;
    }
  }
  throw entry.error(
      "this engine is not built in (libaio, io_uring, sync, psync, pvsync and pvsync2 are)");
}

void set_pattern(FioDraft& draft, const FioEntry& entry) {
  static constexpr std::array<std::pair<std::string_view, Pattern>, 7> kPatterns{
      {{"read", Pattern::kRead},
       {"write", Pattern::kWrite},
       {"randread", Pattern::kRandRead},
       {"randwrite", Pattern::kRandWrite},
       {"rw", Pattern::kReadWrite},
       {"readwrite", Pattern::kReadWrite},
       {"randrw", Pattern::kRandReadWrite}}};
  for (const auto& [name, pattern] : kPatterns) {
    if (name == entry.text()) {
      draft.job.pattern = pattern;
      return;
    }
  }
  if (entry.text().find("trim") != std::string::npos) {
    throw entry.error("nothing is trimmed here: it would destroy what the device holds");
  }
  if (entry.text().find(':') != std::string::npos) {
    throw entry.error("what may follow the pattern after ':' is not built in");
  }
  throw entry.error("this pattern is not built in (read, write, randread, randwrite, rw, randrw)");
}

// One size for all I/O of a direction.
void set_block(FioDraft& draft, const FioEntry& entry) {
  entry.for_directions([&](size_t direction, std::string_view part) {
    uint64_t bytes = entry.size_of(part);
    draft.job.blocks[direction] = {.min_bytes = bytes, .max_bytes = bytes, .split = {}};
  });
}

void set_block_range(FioDraft& draft, const FioEntry& entry) {
  entry.for_directions([&](size_t direction, std::string_view part) {
    auto [least, most] = entry.size_range_of(part);
    draft.job.blocks[direction] = {.min_bytes = least, .max_bytes = most, .split = {}};
  });
}

// "4k/60:64k/40"; what has no share has an equal part of the rest.
BlockSizes parse_split(const FioEntry& entry, std::string_view text) {
  BlockSizes sizes;
  unsigned given = 0;
  size_t open = 0;
  for (std::string_view part : split_at(text, ':')) {
    size_t slash = part.find('/');
    BlockShare share{.bytes = entry.size_of(part.substr(0, slash)), .percent = 101};
    std::string_view percent = slash == std::string_view::npos ? "" : part.substr(slash + 1);
    if (percent.empty()) {
      ++open;
    } else {
      share.percent = static_cast<unsigned>(entry.number_of(percent, 100));
      given += share.percent;
    }
    sizes.split.push_back(share);
    if (sizes.split.size() > 64) throw entry.error("has more than 64 sizes");
  }
  if (given > 100) throw entry.error("the shares are more than 100 percent");
  if (given < 100 && open == 0) throw entry.error("the shares are less than 100 percent");
  for (BlockShare& share : sizes.split) {
    if (share.percent <= 100) continue;
    share.percent = (100 - given) / static_cast<unsigned>(open);
    given += share.percent;
    --open;
  }
  auto by_bytes = [](const BlockShare& a, const BlockShare& b) { return a.bytes < b.bytes; };
  auto [least, most] = std::minmax_element(sizes.split.begin(), sizes.split.end(), by_bytes);
  sizes.min_bytes = least->bytes;
  sizes.max_bytes = most->bytes;
  return sizes;
}

void set_block_split(FioDraft& draft, const FioEntry& entry) {
  entry.for_directions([&](size_t direction, std::string_view part) {
    draft.job.blocks[direction] = parse_split(entry, part);
  });
}

void set_distribution(FioDraft& draft, const FioEntry& entry) {
  std::vector<std::string_view> parts = split_at(entry.text(), ':');
  if (parts.size() > 2) throw entry.error("a center is not built in");
  auto by = [&](double standard) {
    if (parts.size() < 2) return standard;
    std::optional<double> value = parse_fio_float(parts[1]);
    if (!value) throw entry.error("is not a distribution such as zipf:1.2");
    return *value;
  };
  JobSpec& job = draft.job;
  if (parts[0] == "random") {
    job.skew = Skew::kNone;
  } else if (parts[0] == "zipf") {
    job.skew = Skew::kZipf;
    job.skew_by = by(1.1);
    if (job.skew_by <= 0 || job.skew_by == 1.0 || job.skew_by > 10) {
      throw entry.error("zipf's theta must be over 0, up to 10 and not 1");
    }
  } else if (parts[0] == "pareto") {
    job.skew = Skew::kPareto;
    job.skew_by = by(0.2);
    if (job.skew_by <= 0 || job.skew_by >= 1) throw entry.error("pareto's h must be in 0 to 1");
  } else if (parts[0] == "normal" || parts[0] == "gauss") {
    job.skew = Skew::kNormal;
    job.skew_by = by(0);
    if (job.skew_by <= 0 || job.skew_by > 100) {
      throw entry.error("needs the deviation in percent, such as normal:20");
    }
  } else {
    throw entry.error("this distribution is not built in (random, zipf, pareto, normal)");
  }
}

unsigned percent(const FioEntry& entry) {
  return static_cast<unsigned>(entry.number(100));
}

void set_seed(FioDraft& draft, const FioEntry& entry) {
  draft.job.seed = entry.number(UINT64_MAX);
}

template <unsigned JobSpec::*Member>
void set_count(FioDraft& draft, const FioEntry& entry) {
  draft.job.*Member = entry.count();
}

template <bool JobSpec::*Member>
void set_flag(FioDraft& draft, const FioEntry& entry) {
  draft.job.*Member = entry.flag();
}

template <bool UringModes::*Member>
void set_ring(FioDraft& draft, const FioEntry& entry) {
  draft.job.uring.*Member = entry.flag();
}

void set_poll_cpu(FioDraft& draft, const FioEntry& entry) {
  draft.job.uring.sq_cpu = static_cast<int>(entry.number(4095));
}

constexpr std::array kIoKeys{
    FioKey{"ioengine", set_engine},
    FioKey{"rw", set_pattern},
    FioKey{"readwrite", set_pattern},
    FioKey{"bs", set_block},
    FioKey{"blocksize", set_block},
    FioKey{"bsrange", set_block_range},
    FioKey{"blocksize_range", set_block_range},
    FioKey{"bssplit", set_block_split},
    FioKey{"bs_unaligned", set_flag<&JobSpec::any_size>},
    FioKey{"blocksize_unaligned", set_flag<&JobSpec::any_size>},
    FioKey{"iodepth", set_count<&JobSpec::iodepth>},
    FioKey{"iodepth_batch", set_count<&JobSpec::batch>},
    FioKey{"iodepth_batch_submit", set_count<&JobSpec::batch>},
    FioKey{"iodepth_batch_complete", set_count<&JobSpec::reap_min>},
    FioKey{"iodepth_batch_complete_min", set_count<&JobSpec::reap_min>},
    FioKey{"iodepth_batch_complete_max", set_count<&JobSpec::reap_max>},
    FioKey{"iodepth_low", set_count<&JobSpec::depth_low>},
    FioKey{"numjobs", set_count<&JobSpec::jobs>},
    FioKey{"rwmixread", [](FioDraft& d, const FioEntry& e) { d.job.read_percent = percent(e); }},
    FioKey{"rwmixwrite",
           [](FioDraft& d, const FioEntry& e) { d.job.read_percent = 100 - percent(e); }},
    FioKey{"percentage_random",
           [](FioDraft& d, const FioEntry& e) { d.job.random_percent = percent(e); }},
    FioKey{"random_distribution", set_distribution},
    FioKey{"norandommap", [](FioDraft& d, const FioEntry& e) { d.job.shuffle = !e.flag(); }},
    FioKey{"randseed", set_seed},
    FioKey{"direct", set_flag<&JobSpec::direct>},
    FioKey{"buffered", [](FioDraft& d, const FioEntry& e) { d.job.direct = !e.flag(); }},
    FioKey{"hipri", set_flag<&JobSpec::hipri>},
    FioKey{"nowait", set_flag<&JobSpec::nowait>},
    FioKey{"sqthread_poll", set_ring<&UringModes::sq_poll>},
    FioKey{"sqthread_poll_cpu", set_poll_cpu},
    FioKey{"registerfiles", set_ring<&UringModes::fixed_files>},
    FioKey{"fixedbufs", set_ring<&UringModes::fixed_buffers>},
    FioKey{"zero_buffers", set_flag<&JobSpec::zero_buffers>},
    FioKey{"scramble_buffers", set_flag<&JobSpec::scramble>},
    FioKey{"refill_buffers", set_flag<&JobSpec::refill>},
};

}  // namespace

std::span<const FioKey> fio_io_keys() {
  return kIoKeys;
}

}  // namespace stalltrace::workloads

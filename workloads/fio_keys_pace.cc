#include <array>

#include "workloads/fio_keys.h"

namespace stalltrace::workloads {
namespace {

constexpr uint64_t kMicrosecond = 1000;  // what a bare number of these keys is

void set_rate(FioDraft& draft, const FioEntry& entry) {
  entry.for_directions([&](size_t direction, std::string_view part) {
    draft.job.rate_bytes[direction] = entry.size_of(part);
  });
}

void set_rate_iops(FioDraft& draft, const FioEntry& entry) {
  entry.for_directions([&](size_t direction, std::string_view part) {
    draft.job.rate_ios[direction] = entry.number_of(part, 1'000'000'000);
  });
}

void set_rate_process(FioDraft& draft, const FioEntry& entry) {
  if (entry.text() != "linear" && entry.text() != "poisson") {
    throw entry.error("must be linear or poisson");
  }
  draft.job.rate_poisson = entry.text() == "poisson";
}

// "5" or "5-10": anything between.
void set_start_delay(FioDraft& draft, const FioEntry& entry) {
  const std::string& text = entry.text();
  size_t dash = text.find('-');
  auto part = [&](std::string_view words) {
    FioEntry one{.file = entry.file,
                 .line = entry.line,
                 .key = entry.key,
                 .value = std::string(strip_spaces(words))};
    return one.time_ns();
  };
  draft.job.start_delay_ns = part(std::string_view(text).substr(0, dash));
  draft.job.start_delay_max_ns =
      dash == std::string::npos ? 0 : part(std::string_view(text).substr(dash + 1));
  if (dash != std::string::npos && draft.job.start_delay_max_ns < draft.job.start_delay_ns) {
    throw entry.error("the range ends below its beginning");
  }
}

void set_loops(FioDraft& draft, const FioEntry& entry) {
  draft.job.loops = entry.count();
  if (draft.job.loops == 0) throw entry.error("at least once");
}

void set_think_blocks(FioDraft& draft, const FioEntry& entry) {
  draft.job.think_blocks = entry.count();
  if (draft.job.think_blocks == 0) throw entry.error("at least one block");
}

template <uint64_t JobSpec::*Member, uint64_t kBare = 1'000'000'000>
void set_time(FioDraft& draft, const FioEntry& entry) {
  draft.job.*Member = entry.time_ns(kBare);
}

constexpr std::array kPaceKeys{
    FioKey{"rate", set_rate},
    FioKey{"rate_iops", set_rate_iops},
    FioKey{"rate_process", set_rate_process},
    FioKey{"thinktime", set_time<&JobSpec::think_ns, kMicrosecond>},
    FioKey{"thinktime_spin", set_time<&JobSpec::think_spin_ns, kMicrosecond>},
    FioKey{"thinktime_blocks", set_think_blocks},
    FioKey{"startdelay", set_start_delay},
    FioKey{"start_delay", set_start_delay},
    FioKey{"ramp_time", set_time<&JobSpec::ramp_ns>},
    FioKey{"runtime", set_time<&JobSpec::runtime_ns>},
    FioKey{"timeout", set_time<&JobSpec::runtime_ns>},
    FioKey{"time_based", [](FioDraft& d, const FioEntry& e) { d.job.time_based = e.flag(); }},
    FioKey{"loops", set_loops},
    FioKey{"stonewall", [](FioDraft& d, const FioEntry& e) { d.stonewall = e.flag(); }},
    FioKey{"wait_for_previous", [](FioDraft& d, const FioEntry& e) { d.stonewall = e.flag(); }},
    FioKey{"new_group", [](FioDraft& d, const FioEntry& e) { d.new_group = e.flag(); }},
};

}  // namespace

std::span<const FioKey> fio_pace_keys() {
  return kPaceKeys;
}

}  // namespace stalltrace::workloads

// What kinds of disk there are, and what they cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/disk/disk.h"
#include "workloads/disk/schedule.h"

namespace stalltrace::disk {

// What a kind of request costs: a time drawn evenly between the two, then its bytes at that rate.
struct OpCost {
  uint64_t from_ns = 0;
  uint64_t to_ns = 0;
  uint64_t bytes_per_s = 0;  // 0: bytes cost nothing. A flush's bytes are those that it drains
  bool fixed = false;        // chosen by the user: exactly that time, whatever the disk would do
};

// A head over a rotating platter. The tracks follow each other without a loss, as skewed tracks do.
struct Mechanics {
  uint64_t seek_min_ns;       // to the next track
  uint64_t seek_max_ns;       // over the whole disk; between them as the root of the distance
  uint64_t rotation_ns;       // also the least that a flush with something to drain takes
  uint64_t bytes_per_track;   // with the rotation, the rate of sequential transfers
  uint64_t bytes_of_disk;     // what a whole seek crosses, however small the emulated disk is
  uint64_t read_ahead_bytes;  // read behind a read, as long as nothing else is asked
};

struct RequestLimit {
  uint64_t per_s;
  uint64_t burst;              // requests after a pause
  uint64_t bytes_per_request;  // a larger one counts as several
  uint64_t bytes_per_s;
};

struct Profile {
  std::string name;
  std::string about;
  Cache cache = Cache::kOff;
  uint64_t cache_bytes = 0;
  bool write_through = false;  // the kernel is told so, and sends no flush
  bool one_at_a_time = false;
  OpCost read{};
  OpCost write{};
  OpCost flush{};
  uint64_t pause_ns = 0;      // a flush that takes so long instead,
  uint64_t pause_one_in = 0;  // one in so many; 0: none
  std::optional<Mechanics> mechanics = std::nullopt;
  std::optional<RequestLimit> limit = std::nullopt;
};

// What a small request somewhere takes on average; a flush, with little to drain.
uint64_t typical_ns(const Profile& profile, Op op);

const std::vector<Profile>& profiles();
// "hdd7200, ssd-consumer, ..."
std::string profile_names();

// The profile of the options, with what they say otherwise put in. Without a profile: the plain
// times. Throws a usage Error for a profile that there is not and for what contradicts itself.
Profile resolve(const DiskOptions& options);

}  // namespace stalltrace::disk

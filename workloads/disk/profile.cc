#include "workloads/disk/profile.h"

#include <algorithm>

#include "userspace/base/error.h"

namespace stalltrace::disk {
namespace {

constexpr uint64_t kUs = 1'000;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kKB = 1'000;
constexpr uint64_t kMB = 1'000'000;
constexpr uint64_t kTB = 1'000'000'000'000;
constexpr uint64_t kKiB = 1ULL << 10;
constexpr uint64_t kMiB = 1ULL << 20;
constexpr uint64_t kDefaultCacheBytes = 64 * kMiB;

std::vector<Profile> make_profiles() {
  std::vector<Profile> table;

  // Data sheets of 7200 rpm SATA disks of 1 TB (3.5", around 2010 to 2015): average seek 8.5 to 9
  // ms (a random pair of places lies 0.53 of the way on the root's curve: 1 + 0.53 * 14), track to
  // track 1 ms, 60 s / 7200 = 8.33 ms a rotation, 125 to 180 MB/s sustained, 64 MB cache, SATA's
  // 300 MB/s into it. Command overhead 50 us.
  table.push_back({.name = "hdd7200",
                   .about = "7200 rpm disk: seeks, rotation, 150 MB/s, one request at a time",
                   .cache = Cache::kVolatile,
                   .cache_bytes = 64 * kMiB,
                   .one_at_a_time = true,
                   .read = {50 * kUs, 50 * kUs},
                   .write = {50 * kUs, 50 * kUs, 300 * kMB},
                   .flush = {50 * kUs, 50 * kUs},
                   .mechanics = Mechanics{.seek_min_ns = 1 * kMs,
                                          .seek_max_ns = 15 * kMs,
                                          .rotation_ns = 8'333 * kUs,
                                          .bytes_per_track = 1'250 * kKB,
                                          .bytes_of_disk = 1 * kTB,
                                          .read_ahead_bytes = 2 * kMiB}});

  // SATA drives without capacitors: reads of 4 KiB at depth 1 take 80 to 120 us, writes into the
  // drive's memory 25 to 40 us, published fsync rates at depth 1 lie between 250 and 1000 a second;
  // now and then garbage collection stops one for some hundred ms.
  table.push_back({.name = "ssd-consumer",
                   .about = "flush 1 to 4 ms, one in 500 takes 200 ms",
                   .cache = Cache::kVolatile,
                   .cache_bytes = 256 * kMiB,
                   .read = {80 * kUs, 120 * kUs, 500 * kMB},
                   .write = {25 * kUs, 35 * kUs, 500 * kMB},
                   .flush = {1 * kMs, 4 * kMs, 450 * kMB},
                   .pause_ns = 200 * kMs,
                   .pause_one_in = 500});

  // Drives with power-loss protection (data centre NVMe): data sheets give 15 to 30 us for a write
  // of 4 KiB at depth 1 and 80 to 90 us for a read; they report no volatile cache.
  table.push_back({.name = "ssd-plp",
                   .about = "power-loss protection: write through, no flush reaches it",
                   .write_through = true,
                   .read = {75 * kUs, 95 * kUs, 3'000 * kMB},
                   .write = {25 * kUs, 35 * kUs, 2'000 * kMB}});

  // Arrays over Fibre Channel or iSCSI with mirrored NVRAM: vendors and SPC-1 reports give 0.2 to
  // 0.5 ms for writes, the flush is acknowledged from NVRAM in one round trip.
  table.push_back({.name = "array",
                   .about = "writes into NVRAM in 200 us, flush 100 us",
                   .read = {300 * kUs, 600 * kUs, 1'000 * kMB},
                   .write = {180 * kUs, 220 * kUs, 1'000 * kMB},
                   .flush = {90 * kUs, 110 * kUs}});

  // AWS's documentation of gp3: 3000 requests a second of up to 256 KiB and 125 MiB/s as the
  // baseline; latency below a millisecond as commonly measured. A write is replicated when it is
  // acknowledged, a flush is one more round trip.
  table.push_back({.name = "cloud-volume",
                   .about = "3000 requests/s and 125 MiB/s, 700 us each, flush like a write",
                   .read = {600 * kUs, 800 * kUs},
                   .write = {600 * kUs, 800 * kUs},
                   .flush = {600 * kUs, 800 * kUs},
                   .limit = RequestLimit{.per_s = 3'000,
                                         .burst = 64,
                                         .bytes_per_request = 256 * kKiB,
                                         .bytes_per_s = 125 * kMiB}});
  return table;
}

Profile named(const std::string& name) {
  if (name.empty()) return {};
  const auto& table = profiles();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Profile& profile) { return profile.name == name; });
  if (found == table.end()) {
    throw usage_error("there is no disk profile '{}': it is one of {}", name, profile_names());
  }
  return *found;
}

void choose(OpCost& cost, const std::optional<uint64_t>& chosen_ns) {
  if (chosen_ns) cost = {*chosen_ns, *chosen_ns, 0, true};
}

}  // namespace

uint64_t typical_ns(const Profile& profile, Op op) {
  if (op == Op::kDiscard) return 0;
  const OpCost& cost =
      op == Op::kRead ? profile.read : (op == Op::kWrite ? profile.write : profile.flush);
  const uint64_t middle_ns = (cost.from_ns + cost.to_ns) / 2;
  if (cost.fixed || !profile.mechanics) return middle_ns;
  const Mechanics& mechanics = *profile.mechanics;
  if (op == Op::kFlush) return middle_ns + mechanics.rotation_ns;
  if (op == Op::kWrite && profile.cache == Cache::kVolatile) return middle_ns;
  // 8/15 of the way between the least and the whole seek: see seek_ns() for the root.
  return middle_ns + mechanics.seek_min_ns +
         (mechanics.seek_max_ns - mechanics.seek_min_ns) * 8 / 15 + mechanics.rotation_ns / 2;
}

const std::vector<Profile>& profiles() {
  static const std::vector<Profile> table = make_profiles();
  return table;
}

std::string profile_names() {
  std::string names;
  for (const Profile& profile : profiles()) {
    names += (names.empty() ? "" : ", ") + profile.name;
  }
  return names;
}

Profile resolve(const DiskOptions& options) {
  Profile profile = named(options.profile);
  choose(profile.read, options.read_ns);
  choose(profile.write, options.write_ns);
  choose(profile.flush, options.flush_ns);
  if (options.flush_ns) profile.pause_one_in = 0;
  if (options.cache) {
    profile.cache = *options.cache;
  } else if (options.lie_one_in > 0) {
    profile.cache = Cache::kVolatile;
  }
  if (profile.cache == Cache::kVolatile && profile.write_through) {
    throw usage_error("profile {} has no volatile cache: no flush would ever drain it",
                      profile.name);
  }
  if (profile.cache == Cache::kOff && options.lie_one_in > 0) {
    throw usage_error("a disk without a volatile cache has no flush to lie about");
  }
  if (profile.cache_bytes == 0) profile.cache_bytes = kDefaultCacheBytes;
  return profile;
}

}  // namespace stalltrace::disk

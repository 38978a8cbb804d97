#include "userspace/cli/disk_words.h"

#include <fmt/format.h>

#include <charconv>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "workloads/disk/profile.h"

namespace stalltrace::cli {
namespace {

disk::Cache parse_cache(const std::string& text) {
  for (const disk::Cache cache : {disk::Cache::kOff, disk::Cache::kVolatile}) {
    if (text == disk::to_string(cache)) return cache;
  }
  throw usage_error("--cache: '{}' is neither off nor volatile", text);
}

uint64_t parse_lie(const std::string& text) {
  if (text == "always") return 1;
  uint64_t one_in = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, one_in);
  if (error != std::errc() || rest != end || one_in == 0) {
    throw usage_error("--lie: '{}' is neither always nor a number N (one flush in N)", text);
  }
  return one_in;
}

void set_time(std::optional<uint64_t>& time_ns, const std::string& word, const char* option) {
  if (!word.empty()) time_ns = parse_time_ns(word, option);
}

}  // namespace

void add_disk_words(CLI::App& command, DiskWords& words) {
  std::string about = "a kind of disk, whose figures the options below override:";
  for (const disk::Profile& profile : disk::profiles()) {
    about += fmt::format("\n{} ({})", profile.name, profile.about);
  }
  command.add_option("--profile", words.profile, about)->type_name("NAME");
  command.add_option("--flush", words.flush, "time of a flush, like 20ms (without a profile: 0)")
      ->type_name("TIME");
  command.add_option("--write", words.write, "time of a write")->type_name("TIME");
  command.add_option("--read", words.read, "time of a read")->type_name("TIME");
  command
      .add_option("--cache", words.cache,
                  "volatile: writes lie in a cache until a flush, and a power cut may lose them; "
                  "off: they are stable at once (default: the profile's, else off)")
      ->type_name("KIND");
  command
      .add_option("--lie", words.lie,
                  "acknowledge flushes and drain nothing: always, or N for one flush in N at "
                  "random (what it skipped stays undrained)")
      ->type_name("always|N");
}

void apply_disk_words(const DiskWords& words, disk::DiskOptions& options) {
  if (!words.profile.empty()) options.profile = words.profile;
  set_time(options.flush_ns, words.flush, "--flush");
  set_time(options.write_ns, words.write, "--write");
  set_time(options.read_ns, words.read, "--read");
  if (!words.cache.empty()) options.cache = parse_cache(words.cache);
  if (!words.lie.empty()) options.lie_one_in = parse_lie(words.lie);
}

}  // namespace stalltrace::cli

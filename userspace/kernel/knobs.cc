#include "userspace/kernel/knobs.h"

#include <endian.h>
#include <fcntl.h>
#include <libmount.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "userspace/base/command.h"
#include "userspace/base/error.h"
#include "userspace/kernel/mounts.h"

namespace stalltrace::kernel {
namespace {

constexpr const char* kStateFolder = "/run/stalltrace/knobs";

enum class Kind { kNumberOption, kFlagOption, kMountAnew, kFeature, kQueue };

struct KnobSpec {
  std::string_view name;
  Kind kind;
  std::string_view usual;  // an option that is not shown has this value
};
constexpr std::array kSpecs{KnobSpec{"max_batch_time", Kind::kNumberOption, "15000"},
                            KnobSpec{"min_batch_time", Kind::kNumberOption, "0"},
                            KnobSpec{"commit", Kind::kNumberOption, "5"},
                            KnobSpec{"barrier", Kind::kFlagOption, "1"},
                            KnobSpec{"lazytime", Kind::kFlagOption, "0"},
                            KnobSpec{"dioread_nolock", Kind::kFlagOption, "1"},
                            KnobSpec{"data", Kind::kMountAnew, "ordered"},
                            KnobSpec{"fast_commit", Kind::kFeature, "0"},
                            KnobSpec{"write_cache", Kind::kQueue, ""},
                            KnobSpec{"scheduler", Kind::kQueue, ""},
                            KnobSpec{"wbt_lat_usec", Kind::kQueue, ""}};

const KnobSpec& spec_of(std::string_view name) {
  auto found = std::find_if(kSpecs.begin(), kSpecs.end(),
                            [name](const KnobSpec& spec) { return spec.name == name; });
  if (found != kSpecs.end()) return *found;
  std::string names;
  for (const std::string& one : knob_names()) names += (names.empty() ? "" : ", ") + one;
  throw usage_error("--try: there is no knob '{}': it is one of {}", name, names);
}

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

// What the word says of a flag: "barrier", "nobarrier", "barrier=0", "dioread_lock".
std::optional<std::string> flag_in(std::string_view name, std::string_view word) {
  if (word == name || word == std::string(name) + "=1") return "1";
  if (word == "no" + std::string(name) || word == std::string(name) + "=0") return "0";
  if (name == "dioread_nolock" && word == "dioread_lock") return "0";
  return std::nullopt;
}

std::string value_in(const KnobSpec& spec, const std::string& options) {
  std::string value(spec.usual);
  for (const std::string& word : words_of(options, ',')) {
    if (spec.kind == Kind::kFlagOption) {
      value = flag_in(spec.name, word).value_or(value);
    } else if (word.starts_with(std::string(spec.name) + "=")) {
      value = word.substr(spec.name.size() + 1);
    }
  }
  return value;
}

std::string option_text(const KnobSpec& spec, const std::string& value) {
  if (spec.kind != Kind::kFlagOption) return fmt::format("{}={}", spec.name, value);
  bool on = value == "1";
  if (spec.name == "dioread_nolock") return on ? "dioread_nolock" : "dioread_lock";
  return (on ? "" : "no") + std::string(spec.name);
}

std::string queue_path(const Device& device, std::string_view name) {
  return fmt::format("/sys/block/{}/queue/{}", device.disk_name, name);
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw failed_error("{} cannot be read", path);
  return line;
}

std::string queue_value(const Device& device, std::string_view name) {
  std::string line = read_line(queue_path(device, name));
  return name == "scheduler" ? parse_scheduler(line) : line;
}

const Mount& mount_at(const std::vector<Mount>& mounts, const Device& device) {
  auto found = std::find_if(mounts.rbegin(), mounts.rend(), [&](const Mount& mount) {
    return mount.mountpoint == device.mountpoint;
  });
  if (found == mounts.rend()) throw failed_error("{} is no longer mounted", device.mountpoint);
  return *found;
}

// The super block's options too that are not shown among the mount's (/proc/fs/ext4).
std::string all_options(const Device& device) {
  std::vector<Mount> mounts = current_mounts();
  std::string options = mount_at(mounts, device).options;
  std::ifstream more(fmt::format("/proc/fs/{}/{}/options", device.fs, device.name));
  for (std::string line; std::getline(more, line);) options += "," + line;
  return options;
}

// From the super block: no list of options shows it. Mounted or not, the buffer that the file
// system itself uses is read.
bool has_fast_commit(const Device& device) {
  constexpr off_t kCompatibleFeatures = 1024 + 0x5c;  // s_feature_compat, little-endian
  constexpr uint32_t kFastCommit = 0x400;             // EXT4_FEATURE_COMPAT_FAST_COMMIT
  std::string path = "/dev/" + device.name;
  Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  uint32_t features = 0;
  if (file.get() < 0 ||
      pread(file.get(), &features, sizeof features, kCompatibleFeatures) != sizeof features) {
    throw failed_error("{} cannot be read: {}", path, std::strerror(errno));
  }
  return (le32toh(features) & kFastCommit) != 0;
}

std::string current_value(const Device& device, const KnobSpec& spec) {
  if (spec.kind == Kind::kQueue) return queue_value(device, spec.name);
  if (spec.kind == Kind::kFeature) return has_fast_commit(device) ? "1" : "0";
  return value_in(spec, all_options(device));
}

struct ContextFree {
  void operator()(libmnt_context* context) const { mnt_free_context(context); }
};
using Context = std::unique_ptr<libmnt_context, ContextFree>;

void mount_with(const Device& device, const char* source, const std::string& options) {
  Context context(mnt_new_context());
  mnt_context_set_target(context.get(), device.mountpoint.c_str());
  mnt_context_set_options(context.get(), options.c_str());
  if (source != nullptr) {
    mnt_context_set_source(context.get(), source);
    mnt_context_set_fstype(context.get(), device.fs.c_str());
  }
  int result = mnt_context_mount(context.get());
  if (result == 0 && mnt_context_get_status(context.get()) == 1) return;
  std::array<char, 256> why{};
  mnt_context_get_excode(context.get(), result, why.data(), why.size());
  throw failed_error("mounting {} with {}: {}", device.mountpoint, options,
                     why[0] != '\0' ? why.data() : std::strerror(errno));
}

// Options that a new mount of ext4 takes: those of the old one without the knob's.
std::string without(const std::string& options, std::string_view name) {
  std::string kept;
  for (const std::string& word : words_of(options, ',')) {
    if (word.starts_with(std::string(name) + "=") || word.empty()) continue;
    kept += (kept.empty() ? "" : ",") + word;
  }
  return kept;
}

void turn_feature(const KnobSpec& spec, const std::string& value, const std::string& source) {
  need_command({"tune2fs", "-O", (value == "1" ? "" : "^") + std::string(spec.name), source});
}

// `before`: the mount before any knob was turned, whose options it gets again. Those of the present
// one may be others: data=journal turns dioread_nolock off, too.
void mount_anew(const Device& device, const KnobSpec& spec, const std::string& value,
                const Mount& before, bool restoring) {
  std::string options = before.options;
  if (spec.kind == Kind::kMountAnew && !restoring) {
    options = without(options, spec.name) + "," + option_text(spec, value);
  }
  if (umount(device.mountpoint.c_str()) != 0) {
    throw failed_error("{} has to be unmounted to change {}: {}", device.mountpoint, spec.name,
                       std::strerror(errno));
  }
  std::string failure;
  if (spec.kind == Kind::kFeature) {
    try {
      turn_feature(spec, value, before.source);
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  try {
    mount_with(device, before.source.c_str(), options);
  } catch (const Error& error) {
    // As it was, rather than not at all: fast commits, say, do not fit a small log.
    if (spec.kind == Kind::kFeature && failure.empty()) {
      turn_feature(spec, value == "1" ? "0" : "1", before.source);
    }
    mount_with(device, before.source.c_str(), before.options);
    throw failed_error("{} does not take {}={}: {}", device.mountpoint, spec.name, value,
                       error.what());
  }
  if (!failure.empty()) throw failed_error("{}", failure);
}

void set_knob(const Device& device, const KnobSpec& spec, const std::string& value,
              const Mount& before, bool restoring) {
  switch (spec.kind) {
    case Kind::kNumberOption:
    case Kind::kFlagOption:
      mount_with(device, nullptr, "remount," + option_text(spec, value));
      return;
    case Kind::kMountAnew:
    case Kind::kFeature:
      mount_anew(device, spec, value, before, restoring);
      return;
    case Kind::kQueue: {
      std::string path = queue_path(device, spec.name);
      Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
      if (file.get() < 0 ||
          write(file.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
        throw failed_error("{} does not take '{}': {}", path, value, std::strerror(errno));
      }
      return;
    }
  }
}

bool is_mounted(const Device& device) {
  std::vector<Mount> mounts = current_mounts();
  return std::any_of(mounts.begin(), mounts.end(),
                     [&](const Mount& mount) { return mount.mountpoint == device.mountpoint; });
}

// A run was killed between unmounting and mounting.
void mount_as_before(const Device& device, const nlohmann::json& knobs, const Mount& before) {
  for (const nlohmann::json& knob : knobs) {
    const KnobSpec& spec = spec_of(knob.at(0).get<std::string>());
    if (spec.kind == Kind::kFeature) turn_feature(spec, knob.at(1), before.source);
  }
  mount_with(device, before.source.c_str(), before.options);
}

Device device_from(const nlohmann::json& state) {
  Device device;
  device.mountpoint = state.at("mountpoint");
  device.fs = state.at("fs");
  device.name = state.at("name");
  device.disk_name = state.at("disk_name");
  return device;
}

}  // namespace

const std::vector<std::string>& knob_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    list.reserve(kSpecs.size());
    for (const KnobSpec& spec : kSpecs) list.emplace_back(spec.name);
    return list;
  }();
  return names;
}

namespace {

// What the kernel would refuse only once the runs before were made.
void check_value(const KnobSpec& spec, const std::string& value) {
  auto refuse = [&](std::string_view why) {
    throw usage_error("--try {}: '{}' is {}", spec.name, value, why);
  };
  if (value.empty()) throw usage_error("--try {}: an empty value", spec.name);
  bool digits = value.find_first_not_of("0123456789") == std::string::npos;
  switch (spec.kind) {
    case Kind::kFlagOption:
    case Kind::kFeature:
      if (value != "0" && value != "1") refuse("neither 0 nor 1");
      break;
    case Kind::kNumberOption: {
      // ext4 takes seconds that fit an int in ticks, and 0 for the usual 5.
      bool commit = spec.name == "commit";
      uint64_t most = commit ? 2'147'483 : std::numeric_limits<uint32_t>::max();
      uint64_t number = 0;
      auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (!digits) refuse("not a number");
      if (bad != std::errc() || number > most) refuse(fmt::format("more than {}", most));
      if (commit && number == 0) refuse("no time: choose 1 or more seconds");
      break;
    }
    case Kind::kMountAnew:
      if (value != "journal" && value != "ordered" && value != "writeback") {
        refuse("none of journal, ordered, writeback");
      }
      break;
    case Kind::kQueue:
      if (spec.name == "write_cache" && value != "write back" && value != "write through") {
        refuse("neither 'write back' nor 'write through'");
      }
      if (spec.name == "wbt_lat_usec" && !digits) refuse("not a number");
      break;
  }
}

}  // namespace

KnobTrial parse_knob_trial(const std::string& text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) {
    throw usage_error("--try {}: write KNOB=VALUE,VALUE", text);
  }
  KnobTrial trial{text.substr(0, equals), words_of(text.substr(equals + 1), ',')};
  const KnobSpec& spec = spec_of(trial.name);
  std::set<std::string> met;
  for (const std::string& value : trial.values) {
    check_value(spec, value);
    if (!met.insert(value).second) {
      throw usage_error("--try {}: '{}' is there twice", trial.name, value);
    }
  }
  return trial;
}

BatchBounds batch_bounds(const std::string& mount_options) {
  auto number = [&](std::string_view name) {
    std::string value = value_in(spec_of(name), mount_options);
    uint64_t us = 0;
    std::from_chars(value.data(), value.data() + value.size(), us);
    return us;
  };
  return {.min_us = number("min_batch_time"), .max_us = number("max_batch_time")};
}

Knobs::Knobs(Device device)
    : device_(std::move(device)),
      state_path_(fmt::format("{}/{}-{}.json", kStateFolder, getpid(), kdev_text(device_.kdev))) {}

Knobs::~Knobs() {
  try {
    restore();
  } catch (const std::exception&) {
    // The state file stays: the next start tries again.
  }
}

void Knobs::check(const KnobTrial& trial) const {
  if (spec_of(trial.name).kind != Kind::kQueue) return;
  std::string path = queue_path(device_, trial.name);
  if (access(path.c_str(), W_OK) != 0) {
    throw usage_error("--try {}: {} has no such setting ({}: {})", trial.name, device_.disk_name,
                      path, std::strerror(errno));
  }
  if (trial.name != "scheduler") return;
  std::string line = read_line(path);
  std::string plain = line;
  std::erase_if(plain, [](char c) { return c == '[' || c == ']'; });
  std::vector<std::string> known = words_of(plain, ' ');
  for (const std::string& value : trial.values) {
    if (std::find(known.begin(), known.end(), value) != known.end()) continue;
    throw usage_error("--try scheduler: {} has no '{}', but {}", device_.disk_name, value, line);
  }
}

void Knobs::remember(const std::string& name) {
  for (const auto& [known, value] : before_) {
    if (known == name) return;
  }
  if (before_.empty()) mount_ = mount_at(current_mounts(), device_);
  before_.emplace_back(name, current_value(device_, spec_of(name)));
  std::error_code ignored;
  std::filesystem::create_directories(kStateFolder, ignored);
  if (state_.get() < 0) {
    state_ = Fd(open(state_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (state_.get() < 0 || flock(state_.get(), LOCK_EX | LOCK_NB) != 0) {
      throw failed_error("{} cannot be written: {}", state_path_, std::strerror(errno));
    }
  }
  write_state(false);
}

void Knobs::write_state(bool unmounting) {
  nlohmann::json state{
      {"mountpoint", device_.mountpoint}, {"fs", device_.fs},        {"name", device_.name},
      {"disk_name", device_.disk_name},   {"source", mount_.source}, {"options", mount_.options},
      {"unmounting", unmounting},         {"before", before_}};
  std::string text = state.dump();
  // Over what is there, in one go: at no moment there is half of it.
  text.resize(std::max(text.size(), state_bytes_), ' ');
  state_bytes_ = text.size();
  if (pwrite(state_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      fsync(state_.get()) != 0) {
    throw failed_error("{} cannot be written: {}", state_path_, std::strerror(errno));
  }
}

// Should we be killed while it is unmounted, the next start has to know that it was we.
void Knobs::turn(const std::string& name, const std::string& value, bool restoring) {
  const KnobSpec& spec = spec_of(name);
  bool unmounts = spec.kind == Kind::kMountAnew || spec.kind == Kind::kFeature;
  if (unmounts) write_state(true);
  set_knob(device_, spec, value, mount_, restoring);
  if (unmounts) write_state(false);
}

void Knobs::set(const std::string& name, const std::string& value) {
  const KnobSpec& spec = spec_of(name);
  if (current_value(device_, spec) == value) return;
  remember(name);
  turn(name, value, false);
  std::string now = current_value(device_, spec);
  if (now != value) {
    throw failed_error("{} of {} does not take {}: it is {}", name, device_.name, value, now);
  }
}

void Knobs::restore() {
  if (before_.empty()) return;
  for (auto knob = before_.rbegin(); knob != before_.rend(); ++knob) {
    if (current_value(device_, spec_of(knob->first)) != knob->second) {
      turn(knob->first, knob->second, true);
    }
  }
  before_.clear();
  unlink(state_path_.c_str());
  state_ = Fd();
  state_bytes_ = 0;
}

std::vector<std::string> restore_leftover_knobs() {
  std::vector<std::string> lines;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kStateFolder, none)) {
    Fd file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0 || flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;  // its run lives
    try {
      std::ifstream stream(entry.path());
      nlohmann::json state = nlohmann::json::parse(stream);
      Device device = device_from(state);
      // An emulated disk that went with its run took its settings along.
      if (!std::filesystem::exists("/sys/class/block/" + device.name) ||
          !std::filesystem::exists(device.mountpoint)) {
        unlink(entry.path().c_str());
        continue;
      }
      Mount before;
      before.source = state.at("source");
      before.options = state.at("options");
      if (state.at("unmounting") && !is_mounted(device)) {
        mount_as_before(device, state.at("before"), before);
        lines.push_back(
            fmt::format("{} mounted and put back as it was: a run was killed that had unmounted it",
                        device.mountpoint));
      }
      for (const nlohmann::json& knob : state.at("before")) {
        const KnobSpec& spec = spec_of(knob.at(0).get<std::string>());
        if (current_value(device, spec) == knob.at(1)) continue;
        set_knob(device, spec, knob.at(1).get<std::string>(), before, true);
        lines.push_back(
            fmt::format("{} of {} put back to {}, which a run that was killed had changed",
                        spec.name, device.mountpoint, knob.at(1).get<std::string>()));
      }
    } catch (const std::exception& error) {
      lines.push_back(
          fmt::format("{}: what a run that was killed had changed cannot be put back: {}",
                      entry.path().string(), error.what()));
    }
    unlink(entry.path().c_str());
  }
  return lines;
}

}  // namespace stalltrace::kernel

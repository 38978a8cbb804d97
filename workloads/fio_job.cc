#include "workloads/fio_job.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "userspace/base/error.h"

namespace stalltrace::workloads {
namespace {

std::string_view strip(std::string_view text) {
  auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result;
  for (char c : text) result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

struct Number {
  uint64_t value;
  std::string suffix;
};

std::optional<Number> split_number(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  return Number{value, lower({rest, static_cast<size_t>(end - rest)})};
}

std::optional<uint64_t> times(uint64_t value, uint64_t unit) {
  uint64_t result = 0;
  if (__builtin_mul_overflow(value, unit, &result)) return std::nullopt;
  return result;
}

// One line of a section, with what an error message needs.
struct Entry {
  const std::string& file;
  size_t line;
  std::string key;
  std::optional<std::string> value;  // absent: a bare key

  [[nodiscard]] Error error(std::string_view what) const {
    return usage_error("{}:{}: {}{}: {}", file, line, key, value ? "=" + *value : std::string(),
                       what);
  }
  [[nodiscard]] const std::string& text() const {
    if (!value || value->empty()) throw error("needs a value");
    return *value;
  }
  [[nodiscard]] bool flag() const {
    if (!value || *value == "1") return true;
    if (*value == "0") return false;
    throw error("must be 0 or 1");
  }
  [[nodiscard]] uint64_t size() const {
    std::optional<uint64_t> bytes = parse_fio_size(text());
    if (!bytes) throw error("is not one size such as 64k or 128m");
    return *bytes;
  }
  [[nodiscard]] uint64_t number(uint64_t max) const {
    std::optional<Number> number = split_number(text());
    if (!number || !number->suffix.empty() || number->value > max) {
      throw error(fmt::format("is not a whole number up to {}", max));
    }
    return number->value;
  }
  [[nodiscard]] unsigned count() const { return static_cast<unsigned>(number(1'000'000'000)); }
};

// A job as far as the file has described it.
struct Draft {
  JobSpec job;
  bool has_size = false;
  bool overwrite = false;
  size_t line = 0;
};

void set_engine(Draft& draft, const Entry& entry) {
  static constexpr std::array<Engine, 4> kEngines{Engine::kLibaio, Engine::kIoUring, Engine::kSync,
                                                  Engine::kPsync};
  for (Engine engine : kEngines) {
    if (engine_name(engine) == entry.text()) {
      draft.job.engine = engine;
      return;
    }
  }
  throw entry.error("this engine is not built in (libaio, io_uring, sync and psync are)");
}

void set_pattern(Draft& draft, const Entry& entry) {
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
  throw entry.error("this pattern is not built in (read, write, randread, randwrite, rw, randrw)");
}

void set_directory(Draft& draft, const Entry& entry) {
  if (entry.text().find(':') != std::string::npos) throw entry.error("only one directory");
  draft.job.directory = entry.text();
}

void set_filename(Draft& draft, const Entry& entry) {
  if (entry.text().find_first_of(":/") != std::string::npos) {
    throw entry.error("only one file, by its name in `directory`");
  }
  draft.job.filename = entry.text();
  draft.job.file_names = FileNames::kShared;
}

void set_name(Draft& draft, const Entry& entry) {
  if (entry.text().find('/') != std::string::npos) throw entry.error("no '/' in a job's name");
  draft.job.name = entry.text();
}

void set_runtime(Draft& draft, const Entry& entry) {
  std::optional<uint64_t> ns = parse_fio_time_ns(entry.text());
  if (!ns) throw entry.error("is not a time such as 300 (seconds), 5m or 500ms");
  draft.job.runtime_ns = *ns;
}

void set_size(Draft& draft, const Entry& entry) {
  draft.job.size_bytes = entry.size();
  draft.has_size = true;
}

void set_verify(Draft& /*draft*/, const Entry& entry) {
  if (entry.text() != "0" && entry.text() != "none") {
    throw entry.error("what was written is not verified here; only verify=0");
  }
}

// Every job is a thread and results are always summed over the jobs, whatever these say.
void accept_flag(Draft& /*draft*/, const Entry& entry) {
  (void)entry.flag();
}

struct Key {
  std::string_view name;
  void (*set)(Draft&, const Entry&);
};

constexpr std::array kKeys{
    Key{"ioengine", set_engine},
    Key{"rw", set_pattern},
    Key{"readwrite", set_pattern},
    Key{"bs", [](Draft& d, const Entry& e) { d.job.block_bytes = e.size(); }},
    Key{"blocksize", [](Draft& d, const Entry& e) { d.job.block_bytes = e.size(); }},
    Key{"size", set_size},
    Key{"directory", set_directory},
    Key{"filename", set_filename},
    Key{"name", set_name},
    Key{"description", [](Draft& /*d*/, const Entry& e) { (void)e.text(); }},
    Key{"iodepth", [](Draft& d, const Entry& e) { d.job.iodepth = e.count(); }},
    Key{"numjobs", [](Draft& d, const Entry& e) { d.job.jobs = e.count(); }},
    Key{"verify", set_verify},
    Key{"direct", [](Draft& d, const Entry& e) { d.job.direct = e.flag(); }},
    Key{"buffered", [](Draft& d, const Entry& e) { d.job.direct = !e.flag(); }},
    Key{"fsync", [](Draft& d, const Entry& e) { d.job.fsync_every = e.count(); }},
    Key{"fdatasync", [](Draft& d, const Entry& e) { d.job.fdatasync_every = e.count(); }},
    Key{"end_fsync", [](Draft& d, const Entry& e) { d.job.end_fsync = e.flag(); }},
    Key{"overwrite", [](Draft& d, const Entry& e) { d.overwrite = e.flag(); }},
    Key{"runtime", set_runtime},
    Key{"timeout", set_runtime},
    Key{"time_based", [](Draft& d, const Entry& e) { d.job.time_based = e.flag(); }},
    Key{"norandommap", [](Draft& d, const Entry& e) { d.job.shuffle = !e.flag(); }},
    Key{"randseed", [](Draft& d, const Entry& e) { d.job.seed = e.number(UINT64_MAX); }},
    Key{"rwmixread",
        [](Draft& d, const Entry& e) {
          d.job.read_percent = static_cast<unsigned>(e.number(100));
        }},
    Key{"rwmixwrite",
        [](Draft& d, const Entry& e) {
          d.job.read_percent = 100 - static_cast<unsigned>(e.number(100));
        }},
    Key{"thread", accept_flag},
    Key{"group_reporting", accept_flag},
};

void apply(Draft& draft, const Entry& entry) {
  // fio expands these in any value; they would be taken literally here.
  if (entry.value && entry.value->find('$') != std::string::npos) {
    throw entry.error("variables are not expanded here; write the value");
  }
  for (const Key& key : kKeys) {
    if (key.name == entry.key) {
      key.set(draft, entry);
      return;
    }
  }
  throw usage_error(
      "{}:{}: unknown key '{}': remove it, or run the file with fio under `stalltrace trace -- "
      "fio`",
      entry.file, entry.line, entry.key);
}

// fio's defaults, not the chunk server's.
Draft fio_defaults() {
  Draft draft;
  draft.job.name.clear();
  draft.job.engine = Engine::kPsync;
  draft.job.pattern = Pattern::kRead;
  draft.job.block_bytes = 4096;
  draft.job.size_bytes = 0;
  draft.job.directory = ".";
  draft.job.file_names = FileNames::kFio;
  draft.job.iodepth = 1;
  draft.job.jobs = 1;
  draft.job.direct = false;
  draft.job.time_based = false;
  return draft;
}

JobSpec finish(Draft draft, const std::string& file, const JobOverrides& overrides) {
  JobSpec& job = draft.job;
  std::string where = fmt::format("{}:{}: job [{}]", file, draft.line, job.name);
  if (overrides.directory) job.directory = *overrides.directory;
  if (overrides.runtime_ns) job.runtime_ns = *overrides.runtime_ns;
  if (overrides.jobs) job.jobs = *overrides.jobs;
  if (overrides.size_bytes) job.size_bytes = *overrides.size_bytes;
  if (!draft.has_size && !overrides.size_bytes) {
    throw usage_error("{}: has no size; add size= or give --size", where);
  }
  if (!job.async()) job.iodepth = 1;
  // fio fills a file that will be read, or that `overwrite` asks for, and else reserves it.
  job.fill = job.reads() || draft.overwrite ? Fill::kWrite : Fill::kPreallocate;
  check_job(job, where);
  return job;
}

class Parser {
 public:
  Parser(const std::string& file, const JobOverrides& overrides)
      : file_(file), overrides_(overrides), global_(fio_defaults()) {}

  void line(size_t number, std::string_view text) {
    // fio cuts a line at the first ; or #, also behind a value.
    text = strip(text.substr(0, text.find_first_of(";#")));
    if (text.empty()) return;
    if (text.front() == '[') {
      begin_section(number, text);
      return;
    }
    if (!current_) throw usage_error("{}:{}: '{}' is before any [section]", file_, number, text);
    size_t equals = text.find('=');
    Entry entry{.file = file_,
                .line = number,
                .key = std::string(strip(text.substr(0, equals))),
                .value = std::nullopt};
    if (equals != std::string_view::npos) entry.value = strip(text.substr(equals + 1));
    apply(*current_, entry);
  }

  std::vector<JobSpec> end() {
    end_section();
    if (jobs_.empty()) throw usage_error("{}: has no job section, such as [writers]", file_);
    for (size_t i = 0; i < jobs_.size(); ++i) {
      for (size_t other = 0; other < i; ++other) refuse_same_files(jobs_[i], jobs_[other]);
    }
    return std::move(jobs_);
  }

 private:
  void begin_section(size_t number, std::string_view text) {
    if (text.back() != ']' || text.size() < 3) {
      throw usage_error("{}:{}: '{}' is not a [section]", file_, number, text);
    }
    end_section();
    std::string name(text.substr(1, text.size() - 2));
    if (name.find('/') != std::string::npos) {
      throw usage_error("{}:{}: no '/' in a job's name: [{}]", file_, number, name);
    }
    in_global_ = lower(name) == "global";
    if (in_global_) {
      current_ = &global_;
      return;
    }
    draft_ = global_;
    draft_.job.name = name;
    draft_.line = number;
    current_ = &draft_;
  }

  void end_section() {
    if (current_ != nullptr && !in_global_) jobs_.push_back(finish(draft_, file_, overrides_));
  }

  // Two jobs of one name would be one file with two layouts.
  void refuse_same_files(const JobSpec& a, const JobSpec& b) const {
    if (a.path(0) == b.path(0) && a.size_bytes != b.size_bytes) {
      throw usage_error("{}: two jobs use {} with different sizes", file_, a.path(0));
    }
  }

  const std::string& file_;
  const JobOverrides& overrides_;
  Draft global_;
  Draft draft_;
  Draft* current_ = nullptr;
  bool in_global_ = false;
  std::vector<JobSpec> jobs_;
};

}  // namespace

std::optional<uint64_t> parse_fio_size(std::string_view text) {
  std::optional<Number> number = split_number(text);
  if (!number) return std::nullopt;
  std::string_view suffix = number->suffix;
  if (suffix.empty() || suffix == "b") return number->value;
  static constexpr std::string_view kPrefixes = "kmgtp";
  size_t power = kPrefixes.find(suffix.front());
  if (power == std::string_view::npos) return std::nullopt;
  std::string_view tail = suffix.substr(1);
  uint64_t base = 0;
  if (tail.empty() || tail == "b" || tail == "i") base = 1024;
  if (tail == "ib") base = 1000;
  if (base == 0) return std::nullopt;
  std::optional<uint64_t> bytes = number->value;
  for (size_t i = 0; i <= power && bytes; ++i) bytes = times(*bytes, base);
  return bytes;
}

std::optional<uint64_t> parse_fio_time_ns(std::string_view text) {
  std::optional<Number> number = split_number(text);
  if (!number) return std::nullopt;
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 7> kUnits{
      {{"", 1'000'000'000},
       {"s", 1'000'000'000},
       {"ms", 1'000'000},
       {"us", 1'000},
       {"m", 60'000'000'000},
       {"h", 3'600'000'000'000},
       {"d", 86'400'000'000'000}}};
  for (const auto& [suffix, unit] : kUnits) {
    if (suffix == number->suffix) return times(number->value, unit);
  }
  return std::nullopt;
}

std::vector<JobSpec> parse_fio_job(std::string_view text, const std::string& file,
                                   const JobOverrides& overrides) {
  Parser parser(file, overrides);
  size_t number = 0;
  while (!text.empty()) {
    size_t end = text.find('\n');
    parser.line(++number, text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parser.end();
}

std::vector<JobSpec> read_fio_job(const std::string& file, const JobOverrides& overrides) {
  if (std::filesystem::is_directory(file))
    throw usage_error("{} is a directory, no job file", file);
  std::ifstream stream(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream.is_open() || stream.bad()) {
    throw usage_error("cannot read the job file {}: {}", file, std::strerror(errno));
  }
  return parse_fio_job(text, file, overrides);
}

}  // namespace stalltrace::workloads

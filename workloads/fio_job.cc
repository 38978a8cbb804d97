#include "workloads/fio_job.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "userspace/base/error.h"
#include "workloads/fio_keys.h"
#include "workloads/job_devices.h"

namespace stalltrace::workloads {
namespace {

// Far more than any load that this machine could run; a file that asks for more is a mistake.
constexpr size_t kMaxFileBytes = size_t{1} << 20U;
constexpr size_t kMaxValueBytes = 16384;
constexpr size_t kMaxSections = 1000;
constexpr uint64_t kMaxThreads = 4096;
constexpr uint64_t kMaxFiles = 100'000;

bool is_global(std::string_view name) {
  static constexpr std::string_view kGlobal = "global";
  return std::equal(name.begin(), name.end(), kGlobal.begin(), kGlobal.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

// ${NAME} is the environment's; $ncpus, $pagesize and $mb_memory are the machine's. What remains
// ($jobname) belongs to the key.
class Variables {
 public:
  explicit Variables(const FioEntry& entry) : entry_(entry) {}

  std::string expanded() const {
    std::string_view text = *entry_.value;
    std::string result;
    while (!text.empty()) {
      size_t dollar = text.find('$');
      result += text.substr(0, dollar);
      if (dollar == std::string_view::npos) break;
      text.remove_prefix(dollar);
      text.remove_prefix(replace(text, result));
      if (result.size() > kMaxValueBytes) throw entry_.error("is too long");
    }
    return result;
  }

 private:
  // Appends what stands for the variable at the beginning of `text`; how much of it that was.
  size_t replace(std::string_view text, std::string& result) const {
    if (text.starts_with("${")) {
      size_t end = text.find('}');
      if (end == std::string_view::npos) throw entry_.error("a variable without its '}'");
      std::string name(text.substr(2, end - 2));
      const char* value = std::getenv(name.c_str());
      if (value == nullptr) {
        throw entry_.error(fmt::format("the variable {} is not set in the environment", name));
      }
      result += value;
      return end + 1;
    }
    for (const auto& [word, number] :
         {std::pair{"$ncpus", sysconf(_SC_NPROCESSORS_ONLN)},
          std::pair{"$pagesize", sysconf(_SC_PAGESIZE)},
          std::pair{"$mb_memory", sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) >> 20}}) {
      if (!text.starts_with(word)) continue;
      result += std::to_string(number);
      return std::strlen(word);
    }
    result += '$';
    return 1;
  }

  const FioEntry& entry_;
};

// A file by its path: its directory is the job's.
void settle_names(FioDraft& draft, const std::string& where) {
  JobSpec& job = draft.job;
  if (job.file_names != FileNames::kShared) return;
  if (job.directory == "." && job.filename.starts_with('/') &&
      job.filename.find(':') == std::string::npos) {
    std::filesystem::path path(job.filename);
    job.directory = path.parent_path();
    job.filename = path.filename();
    if (job.filename.empty())
      throw usage_error("{}: filename={} is a directory", where, job.directory);
  }
  // As fio joins them; a name that leads out of the directory would not be this load's.
  while (job.directory != "." && job.filename.starts_with('/')) job.filename.erase(0, 1);
  // A device by one of its names (/dev/disk/by-id): links of other kinds are not followed.
  const std::filesystem::path path = path_in(job.directory, job.filename);
  if (!is_block_device(path)) return;
  const std::filesystem::path node = std::filesystem::canonical(path);
  job.directory = node.parent_path();
  job.filename = node.filename();
}

// One size for both directions is said more plainly.
void settle_blocks(JobSpec& job) {
  const BlockSizes& reads = job.blocks[0];
  const BlockSizes& writes = job.blocks[1];
  bool plain = reads.split.empty() && writes.split.empty() && reads.min_bytes == reads.max_bytes &&
               reads.min_bytes == writes.min_bytes && reads.min_bytes == writes.max_bytes &&
               reads.min_bytes > 0;
  if (!plain) return;
  job.block_bytes = reads.min_bytes;
  job.blocks = {};
}

void settle_depth(JobSpec& job) {
  if (!job.async()) job.iodepth = 1;
  job.batch = std::clamp(job.batch, 1U, std::max(1U, job.iodepth));
  job.reap_min = std::min(job.reap_min, job.iodepth);
  job.reap_max = std::min(job.reap_max, job.iodepth);
  // As in fio: one by one, where the file does not say otherwise.
  job.reap_max = std::max({job.reap_max, job.reap_min, 1U});
  job.depth_low = std::min(job.depth_low, job.iodepth);
}

void settle_sizes(FioDraft& draft, const std::string& where) {
  JobSpec& job = draft.job;
  if (draft.has_size) return;
  if (job.file_min_bytes == 0 && job.file_names == FileNames::kShared) {
    std::vector<std::string> paths;
    for (const JobFile& file : job_files(job, 0)) paths.push_back(file.path);
    const std::optional<uint64_t> all = size_of_devices(paths);
    if (all && job.offset_step > 0) {
      throw usage_error("{}: offset_increment on a device needs size=", where);
    }
    if (all && *all > job.offset_bytes) {
      job.size_bytes = (*all - job.offset_bytes) * paths.size();
      return;
    }
  }
  if (job.file_min_bytes == 0) {
    throw usage_error("{}: has no size; add size= or give --size", where);
  }
  if (__builtin_mul_overflow(job.file_max_bytes, uint64_t{job.files}, &job.size_bytes)) {
    throw usage_error("{}: files of {} bytes are more than can be", where, job.file_max_bytes);
  }
}

JobSpec finish(FioDraft draft, const std::string& file, const JobOverrides& overrides) {
  JobSpec& job = draft.job;
  std::string where = fmt::format("{}:{}: job [{}]", file, draft.line, job.name);
  if (overrides.directory) job.directory = *overrides.directory;
  if (overrides.runtime_ns) job.runtime_ns = *overrides.runtime_ns;
  if (overrides.jobs) job.jobs = *overrides.jobs;
  if (overrides.size_bytes) job.size_bytes = *overrides.size_bytes;
  draft.has_size = draft.has_size || overrides.size_bytes.has_value();
  settle_names(draft, where);
  settle_blocks(job);
  settle_sizes(draft, where);
  settle_depth(job);
  if (job.start_delay_max_ns < job.start_delay_ns) job.start_delay_max_ns = 0;
  // fio fills a file that will be read, or that `overwrite` asks for, and else reserves it.
  if (job.reads() || (draft.overwrite && !job.append)) job.fill = Fill::kWrite;
  if (job.create_on_open) {
    if (job.reads()) {
      throw usage_error("{}: create_on_open makes empty files: there is nothing to read", where);
    }
    job.fill = Fill::kNone;
  }
  check_job(job, where);
  return std::move(job);
}

class Parser {
 public:
  Parser(const std::string& file, const JobOverrides& overrides)
      : file_(file), overrides_(overrides), global_(fio_defaults()) {}

  void line(size_t number, std::string_view text) {
    // fio cuts a line at the first ; or #, also behind a value.
    text = strip_spaces(text.substr(0, text.find_first_of(";#")));
    if (text.empty()) return;
    if (text.size() > kMaxValueBytes) {
      throw usage_error("{}:{}: a line of {} bytes is no job file's", file_, number, text.size());
    }
    if (text.front() == '[') {
      begin_section(number, text);
      return;
    }
    if (!current_) throw usage_error("{}:{}: '{}' is before any [section]", file_, number, text);
    size_t equals = text.find('=');
    FioEntry entry{.file = file_,
                   .line = number,
                   .key = std::string(strip_spaces(text.substr(0, equals))),
                   .value = std::nullopt};
    if (equals != std::string_view::npos) {
      entry.value = strip_spaces(text.substr(equals + 1));
      if (entry.value->find('$') != std::string::npos) entry.value = Variables(entry).expanded();
    }
    apply_fio_key(*current_, entry);
  }

  std::vector<JobSpec> end() {
    end_section();
    if (jobs_.empty()) throw usage_error("{}: has no job section, such as [writers]", file_);
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
    in_global_ = is_global(name);
    if (in_global_) {
      current_ = &global_;
      return;
    }
    draft_ = global_;
    // fio lists what [global] says once, apart.
    draft_.job.global_options = std::exchange(draft_.job.options, {});
    draft_.job.name = name;
    draft_.line = number;
    current_ = &draft_;
  }

  void end_section() {
    if (current_ == nullptr || in_global_) return;
    if (jobs_.size() == kMaxSections) {
      throw usage_error("{}: more than {} jobs", file_, kMaxSections);
    }
    JobSpec job = finish(draft_, file_, overrides_);
    count(job);
    if (!jobs_.empty()) {
      job.phase = jobs_.back().phase + (draft_.stonewall ? 1 : 0);
      job.report_group = jobs_.back().report_group + (draft_.stonewall || draft_.new_group ? 1 : 0);
    }
    jobs_.push_back(std::move(job));
  }

  void count(const JobSpec& job) {
    threads_ += job.jobs;
    files_ += uint64_t{job.jobs} * (job.file_names == FileNames::kFio ? job.files : 1);
    if (threads_ > kMaxThreads || files_ > kMaxFiles) {
      throw usage_error("{}: {} threads and {} files up to [{}]: choose up to {} and {} in all",
                        file_, threads_, files_, job.name, kMaxThreads, kMaxFiles);
    }
  }

  const std::string& file_;
  const JobOverrides& overrides_;
  FioDraft global_;
  FioDraft draft_;
  FioDraft* current_ = nullptr;
  bool in_global_ = false;
  uint64_t threads_ = 0;
  uint64_t files_ = 0;
  std::vector<JobSpec> jobs_;
};

}  // namespace

std::vector<JobSpec> parse_fio_job(std::string_view text, const std::string& file,
                                   const JobOverrides& overrides) {
  if (text.size() > kMaxFileBytes) {
    throw usage_error("{}: {} bytes are no job file", file, text.size());
  }
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
  // One byte more than a job file can have: a device has no end.
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    throw usage_error("cannot read the job file {}: {}", file, std::strerror(errno));
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  return parse_fio_job(text, file, overrides);
}

}  // namespace stalltrace::workloads

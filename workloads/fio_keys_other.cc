// Keys that change nothing that is measured here, and those that are refused with a reason of
// their own.
#include <algorithm>
#include <array>

#include "workloads/fio_keys.h"

namespace stalltrace::workloads {
namespace {

// Every job is a thread of one process, and files are laid out in turn: what these say is so.
void accept_flag(FioDraft& /*draft*/, const FioEntry& entry) {
  (void)entry.flag();
}

void accept_text(FioDraft& /*draft*/, const FioEntry& entry) {
  (void)entry.text();
}

// Where only one value means what is done here.
template <const char* kWords>
void accept_one_of(FioDraft& /*draft*/, const FioEntry& entry) {
  std::vector<std::string_view> words = split_at(kWords, ' ');
  if (std::find(words.begin(), words.end(), entry.value.value_or("1")) == words.end()) {
    throw entry.error(fmt::format("is not done here; only {}={}", entry.key, words.front()));
  }
}
constexpr char kNo[] = "0 none";
constexpr char kNone[] = "none";
constexpr char kYes[] = "1";
constexpr char kBase[] = "1024";

void set_verify(FioDraft& /*draft*/, const FioEntry& entry) {
  if (entry.value != "0" && entry.value != "none" && entry.value != "null") {
    throw entry.error("what was written is not verified here; only verify=0");
  }
}

void set_percentiles(FioDraft& draft, const FioEntry& entry) {
  std::vector<double> list;
  for (std::string_view part : split_at(entry.text(), ':')) {
    std::optional<double> value = parse_fio_float(part);
    if (!value || *value <= 0 || *value > 100) {
      throw entry.error("is not a list of percentiles such as 50:99:99.9");
    }
    list.push_back(*value);
    if (list.size() > 20) throw entry.error("has more than 20 percentiles");
  }
  std::sort(list.begin(), list.end());
  draft.job.percentiles = std::move(list);
}

template <const char* kWhy>
void refuse(FioDraft& /*draft*/, const FioEntry& entry) {
  throw entry.error(kWhy);
}
constexpr char kLogs[] =
    "fio's logs are not written here: --ops-log FILE writes each operation, --fio-json the figures";
constexpr char kTrim[] = "nothing is trimmed here: it would destroy what the device holds";
constexpr char kProfile[] = "replaying and profiles are not built in";
constexpr char kCpus[] =
    "CPUs and priorities are not set here: run it under taskset, nice or ionice";
constexpr char kStop[] = "one job does not end the others here; give each its runtime";
constexpr char kErrors[] = "an error ends its job here";
constexpr char kLatency[] = "the depth is not adjusted to a latency here";
constexpr char kPattern[] = "buffers hold random bytes or zeros here";

constexpr std::array kOtherKeys{
    FioKey{"description", accept_text},
    FioKey{"thread", accept_flag},
    FioKey{"group_reporting",
           [](FioDraft& d, const FioEntry& e) { d.job.group_reporting = e.flag(); }},
    FioKey{"percentile_list", set_percentiles},
    FioKey{"verify", set_verify},
    FioKey{"do_verify", accept_one_of<kNo>},
    FioKey{"randrepeat", accept_flag},
    FioKey{"allrandrepeat", accept_flag},
    FioKey{"softrandommap", accept_flag},
    FioKey{"random_generator", accept_text},
    FioKey{"create_serialize", accept_flag},
    FioKey{"create_fsync", accept_flag},
    FioKey{"create_only", accept_one_of<kNo>},
    FioKey{"pre_read", accept_one_of<kNo>},
    FioKey{"unlink", accept_flag},
    FioKey{"unique_filename", accept_one_of<kYes>},
    FioKey{"openfiles", [](FioDraft& /*d*/, const FioEntry& e) { (void)e.count(); }},
    FioKey{"lockfile", accept_one_of<kNone>},
    FioKey{"allow_mounted_write", accept_flag},
    FioKey{"userspace_reap", accept_flag},
    FioKey{"nonvectored", accept_flag},
    FioKey{"gtod_reduce", accept_flag},
    FioKey{"disable_lat", accept_flag},
    FioKey{"disable_clat", accept_flag},
    FioKey{"disable_slat", accept_flag},
    FioKey{"disable_bw", accept_flag},
    FioKey{"disable_bw_measurement", accept_flag},
    FioKey{"clat_percentiles", accept_flag},
    FioKey{"lat_percentiles", accept_flag},
    FioKey{"slat_percentiles", accept_flag},
    FioKey{"bwavgtime", accept_text},
    FioKey{"iopsavgtime", accept_text},
    FioKey{"unified_rw_reporting", accept_one_of<kNo>},
    FioKey{"kb_base", accept_one_of<kBase>},
    FioKey{"unit_base", accept_text},
    FioKey{"continue_on_error", accept_one_of<kNone>},
    FioKey{"ignore_error", refuse<kErrors>},
    FioKey{"exitall", refuse<kStop>},
    FioKey{"exit_what", refuse<kStop>},
    FioKey{"exitall_on_error", accept_one_of<kNo>},
    FioKey{"wait_for", refuse<kStop>},
    FioKey{"latency_target", refuse<kLatency>},
    FioKey{"latency_window", refuse<kLatency>},
    FioKey{"latency_percentile", refuse<kLatency>},
    FioKey{"steadystate", refuse<kLatency>},
    FioKey{"write_bw_log", refuse<kLogs>},
    FioKey{"write_lat_log", refuse<kLogs>},
    FioKey{"write_iops_log", refuse<kLogs>},
    FioKey{"write_hist_log", refuse<kLogs>},
    FioKey{"log_avg_msec", refuse<kLogs>},
    FioKey{"log_hist_msec", refuse<kLogs>},
    FioKey{"rwmixtrim", refuse<kTrim>},
    FioKey{"trim_percentage", refuse<kTrim>},
    FioKey{"read_iolog", refuse<kProfile>},
    FioKey{"write_iolog", refuse<kProfile>},
    FioKey{"profile", refuse<kProfile>},
    FioKey{"include", refuse<kProfile>},
    FioKey{"cpus_allowed", refuse<kCpus>},
    FioKey{"cpumask", refuse<kCpus>},
    FioKey{"numa_cpu_nodes", refuse<kCpus>},
    FioKey{"nice", refuse<kCpus>},
    FioKey{"prio", refuse<kCpus>},
    FioKey{"prioclass", refuse<kCpus>},
    FioKey{"buffer_pattern", refuse<kPattern>},
    FioKey{"buffer_compress_percentage", refuse<kPattern>},
    FioKey{"dedupe_percentage", refuse<kPattern>},
};

}  // namespace

std::span<const FioKey> fio_other_keys() {
  return kOtherKeys;
}

}  // namespace stalltrace::workloads

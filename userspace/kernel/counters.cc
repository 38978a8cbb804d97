#include "userspace/kernel/counters.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include "userspace/base/error.h"
#include "userspace/kernel/devices.h"

namespace stalltrace::kernel {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

JournalInfo parse_journal_info(std::istream& text) {
  JournalInfo info;
  std::string line;
  std::string word;
  char parenthesis = 0;
  std::getline(text, line);
  std::istringstream first(line);
  if (!(first >> info.transactions >> word >> parenthesis >> info.requested) ||
      !word.starts_with("transaction") || parenthesis != '(') {
    throw failed_error("journal info: '{}' is not what jbd2 writes", line);
  }
  // "  1234us average transaction commit time", absent before the first commit.
  while (std::getline(text, line)) {
    size_t unit = line.find("us average transaction commit time");
    if (unit == std::string::npos) continue;
    size_t start = std::min(line.find_first_not_of(' '), unit);
    uint64_t us = 0;
    auto [end, error] = std::from_chars(line.data() + start, line.data() + unit, us);
    if (error == std::errc() && end == line.data() + unit) info.average_commit_us = us;
  }
  return info;
}

JournalInfo journal_info(const std::string& journal_name) {
  std::string path = fmt::format("/proc/fs/jbd2/{}/info", journal_name);
  std::ifstream file(path);
  if (!file) throw failed_error("{} cannot be read: the file system is not mounted", path);
  return parse_journal_info(file);
}

uint64_t jbd2_transactions(const std::string& journal_name) {
  return journal_info(journal_name).transactions;
}

std::optional<DiskStats> parse_disk_stats(std::istream& text, uint32_t kdev) {
  // major minor name, then 11 numbers; 15 with discards (4.18), 17 with flushes (5.5).
  constexpr size_t kNumbers = 17;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    uint32_t major = 0;
    uint32_t minor = 0;
    std::string name;
    if (!(words >> major >> minor >> name)) continue;
    if (make_kdev(major, minor) != kdev) continue;
    std::array<uint64_t, kNumbers> numbers{};
    size_t count = 0;
    while (count < kNumbers && words >> numbers[count]) ++count;
    if (count < 11) throw failed_error("diskstats: '{}' has too few numbers", line);
    DiskStats stats{.reads = numbers[0],
                    .read_sectors = numbers[2],
                    .read_ms = numbers[3],
                    .writes = numbers[4],
                    .write_sectors = numbers[6],
                    .write_ms = numbers[7],
                    .in_flight = numbers[8],
                    .io_ms = numbers[9],
                    .flushes = {},
                    .flush_ms = {}};
    if (count == kNumbers) {
      stats.flushes = numbers[15];
      stats.flush_ms = numbers[16];
    }
    return stats;
  }
  return std::nullopt;
}

DiskStats disk_stats(uint32_t kdev) {
  std::ifstream file("/proc/diskstats");
  auto stats = parse_disk_stats(file, kdev);
  if (!stats) {
    throw failed_error("/proc/diskstats has no line for {}: the device is gone", kdev_text(kdev));
  }
  return *stats;
}

double self_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double self_rss_mib() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
         (1024.0 * 1024.0);
}

}  // namespace stalltrace::kernel

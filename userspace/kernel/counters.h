// The kernel's own counts, printed beside ours so that a reader can check them.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

namespace stalltrace::kernel {

struct JournalInfo {
  uint64_t transactions = 0;  // committed since the mount
  uint64_t requested = 0;     // of those, asked for by somebody
  std::optional<uint64_t> average_commit_us;
};
// /proc/fs/jbd2/NAME/info. Throws a failed Error for another format.
JournalInfo parse_journal_info(std::istream& text);
// Throws a failed Error when there is no such journal.
JournalInfo journal_info(const std::string& journal_name);
uint64_t jbd2_transactions(const std::string& journal_name);

struct DiskStats {
  uint64_t reads = 0;
  uint64_t read_sectors = 0;
  uint64_t read_ms = 0;
  uint64_t writes = 0;
  uint64_t write_sectors = 0;
  uint64_t write_ms = 0;
  uint64_t in_flight = 0;
  uint64_t io_ms = 0;
  // Since Linux 5.5, and counted on whole disks only: always 0 on a partition.
  std::optional<uint64_t> flushes;
  std::optional<uint64_t> flush_ms;
};
// The line of a device in /proc/diskstats, or nothing. Throws a failed Error for another format.
std::optional<DiskStats> parse_disk_stats(std::istream& text, uint32_t kdev);
// Throws a failed Error when the device has no line.
DiskStats disk_stats(uint32_t kdev);

// CPU time of this process, user and system, all threads; and its resident memory.
double self_cpu_s();
double self_rss_mib();

}  // namespace stalltrace::kernel

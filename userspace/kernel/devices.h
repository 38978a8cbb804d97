// Block devices, the file systems on them and their journals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stalltrace::kernel {

// Device numbers inside stalltrace are the kernel's own dev_t.
constexpr uint32_t make_kdev(uint32_t major, uint32_t minor) {
  return (major << 20) | minor;
}
constexpr uint32_t kdev_major(uint32_t kdev) {
  return kdev >> 20;
}
constexpr uint32_t kdev_minor(uint32_t kdev) {
  return kdev & 0xfffff;
}
// "254:0"
std::string kdev_text(uint32_t kdev);
// From a stat() st_dev or st_rdev.
uint32_t kdev_of_stat(uint64_t st_dev);

struct Device {
  uint32_t disk = 0;  // kdev of the whole disk: what requests and diskstats carry. Of a mapped
                      // device (LVM, dm-crypt, md) the disk below it, if that is only one
  // Of a mapped device: the disks that it sends to in the end (if there are several, `disk` is the
  // mapped device itself), and the mapped devices from them up to it, itself last.
  std::vector<uint32_t> disks_below, maps;
  uint32_t kdev = 0;      // kdev of the partition or mapped device that holds the file system
  uint32_t st_dev = 0;    // what the file system's inodes report; differs from kdev on btrfs
  std::string name;       // kernel name of `kdev`: "loop0", "nvme0n1p2", "dm-0"
  std::string disk_name;  // kernel name of `disk`
  std::string fs;         // empty: not mounted
  std::string mountpoint;
  std::string root;  // the mount's root inside the file system, "/" but for bind mounts
  std::string options;
  // A journal of jbd2 (ext4). False for ext4 without a journal, and for other file systems.
  bool has_journal = false;
  std::string journal_name;         // the folder in /proc/fs/jbd2: "loop0-8"
  std::optional<uint32_t> journal;  // kdev of an external journal (or XFS log)
  std::string write_cache;          // "write back" or "write through"; empty: unknown
  unsigned nr_requests = 0;         // the queue's depth; 0: no such queue
  std::string scheduler;            // the one in use: "none", "mq-deadline"
};

// File systems on block devices, in mount order; one entry per file system (bind mounts and
// second mounts folded into the first that shows its root).
std::vector<Device> mounted_block_devices();

// Of a file or folder, or of a block device node (whose file system is filled in where it is
// mounted). Nothing for a file system without a block device (tmpfs, overlay, network). Throws a
// usage Error when the path does not exist.
std::optional<Device> device_of_path(const std::string& path);

// By number. Throws a usage Error when there is no such block device.
Device device_of_kdev(uint32_t kdev);

// The path of a file whose names from the file system's root are `components`. A file outside
// what the mount shows is given as "MOUNTPOINT:/a/b", which no real path can be mistaken for.
std::string path_under(const Device& device, const std::vector<std::string>& components);

// "none [mq-deadline] kyber" -> "mq-deadline".
std::string parse_scheduler(const std::string& text);

// How many writes writeback throttling (block/blk-wbt.c) lets be in flight on the whole disk called
// `name` just now, and for which latency: "12 writes, for a latency of 75 ms". Empty where it is
// off, or debugfs is not mounted.
std::string wbt_limit(const std::string& name);

// From a superblock's journal: which folder of /proc/fs/jbd2 (`folders`) is that of the file
// system on `name`, given what the kernel calls its journal thread ("jbd2/loop0-8", possibly cut
// to 15 characters; empty: not known). Empty: none.
std::string pick_journal_folder(const std::string& name, const std::string& thread_comm,
                                const std::vector<std::string>& folders);

}  // namespace stalltrace::kernel

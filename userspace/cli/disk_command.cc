#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "userspace/base/error.h"
#include "userspace/base/units.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/disk_words.h"
#include "userspace/cli/output.h"
#include "workloads/disk/disk.h"

namespace stalltrace::cli {
namespace {

struct CreateWords {
  std::string name;
  std::string size = "4g";
  DiskWords behaviour;
  uint64_t seed = 1;
  std::string schedule;
  std::string truth;
  uint32_t block_size = 512;
  std::string scheduler = "none";
  uint32_t nr_requests = 128;
  std::string wbt = "0";
};

std::string format_delay(uint64_t ns) {
  return ns == 0 ? "0" : format_time(ns);
}

// With a profile the figures are its own, to which seeks and transfers come.
std::string format_figure(const disk::DiskInfo& info, uint64_t ns) {
  return (info.profile.empty() ? "" : "~") + format_delay(ns);
}

std::string format_cache(const disk::DiskInfo& info) {
  std::string text = info.write_through ? "write through" : disk::to_string(info.cache);
  if (info.lie_one_in == 1) text += ", lies";
  if (info.lie_one_in > 1) text += fmt::format(", lies 1/{}", info.lie_one_in);
  return text;
}

void create(const CreateWords& words) {
  disk::DiskOptions options;
  options.name = words.name;
  options.size_bytes = parse_size(words.size, "--size");
  apply_disk_words(words.behaviour, options);
  options.seed = words.seed;
  options.schedule_path = words.schedule;
  options.truth_path = words.truth;
  options.block_size = words.block_size;
  options.scheduler = words.scheduler;
  options.nr_requests = words.nr_requests;
  options.wbt_lat_us = parse_time_ns(words.wbt, "--wbt") / 1000;
  // A disk half made is of no use to anybody: an interrupt is too late here, and the disk is told.
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) {});
  const disk::DiskInfo info = disk::create(options);
  fmt::print("{}\n", info.device);
  std::fflush(stdout);
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "disk '{}': {}, read {}, write {}, flush {}, cache {}, served by process {}\n",
             info.name, format_size(info.size_bytes), format_figure(info, info.read_ns),
             format_figure(info, info.write_ns), format_figure(info, info.flush_ns),
             format_cache(info), info.daemon_pid);
}

std::string device_numbers(const disk::DiskInfo& info) {
  return info.device.empty() ? "" : fmt::format("{}:{}", info.kdev >> 20, info.kdev & 0xfffff);
}

void print_json(const std::vector<disk::DiskInfo>& disks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const disk::DiskInfo& info : disks) {
    list.push_back({{"name", info.name},
                    {"device", info.device},
                    {"dev", device_numbers(info)},
                    {"size_bytes", info.size_bytes},
                    {"profile", info.profile},
                    {"cache", disk::to_string(info.cache)},
                    {"write_through", info.write_through},
                    {"lie_one_in", info.lie_one_in},
                    {"seed", info.seed},
                    {"read_ns", info.read_ns},
                    {"write_ns", info.write_ns},
                    {"flush_ns", info.flush_ns},
                    {"schedule", info.schedule_path},
                    {"truth", info.truth_path},
                    {"created_monotonic_ns", info.created_monotonic_ns},
                    {"daemon_pid", info.daemon_pid},
                    {"state", disk::to_string(info.state)},
                    {"mountpoints", info.mountpoints},
                    {"state_folder", info.state_folder}});
  }
  fmt::print("{}\n", nlohmann::ordered_json{{"disks", list}}.dump(2));
}

void print_table(const std::vector<disk::DiskInfo>& disks) {
  if (disks.empty()) {
    say("no emulated disks");
    return;
  }
  std::vector<std::vector<std::string>> rows{
      {"NAME", "DEVICE", "SIZE", "PROFILE", "READ", "WRITE", "FLUSH", "CACHE", "MOUNTED", "STATE"}};
  for (const disk::DiskInfo& info : disks) {
    rows.push_back(
        {info.name, info.device.empty() ? "-" : info.device, format_size(info.size_bytes),
         info.profile.empty() ? "-" : info.profile, format_figure(info, info.read_ns),
         format_figure(info, info.write_ns), format_figure(info, info.flush_ns), format_cache(info),
         info.mountpoints.empty() ? "-" : fmt::to_string(fmt::join(info.mountpoints, ",")),
         disk::to_string(info.state)});
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i];
    }
    fmt::print("{}\n", line);
  }
}

void add_create(CLI::App& disk) {
  auto words = std::make_shared<CreateWords>();
  CLI::App* command = disk.add_subcommand(
      "create", "make an emulated disk; prints its device, nothing else, on standard output");
  command
      ->add_option("NAME", words->name,
                   "letters, digits and _ . -, at most 64, the first no . or -")
      ->required();
  command->add_option("--size", words->size, "a multiple of 4k; only written pages take memory")
      ->capture_default_str();
  add_disk_words(*command, words->behaviour);
  command->add_option("--seed", words->seed, "of the profile's times, the lies and the power cuts")
      ->capture_default_str();
  command->add_option("--schedule", words->schedule,
                      "lines FROM TO OP DELAY, in time since creation; SIGHUP to the server reads "
                      "it again");
  command->add_option("--truth", words->truth,
                      "log of every request: op,start_ns,end_ns,offset,bytes (emptied first)");
  command->add_option("--block-size", words->block_size, "logical block size, 512 or 4096")
      ->capture_default_str();
  command->add_option("--scheduler", words->scheduler, "I/O scheduler of the device")
      ->capture_default_str();
  command
      ->add_option("--nr-requests", words->nr_requests,
                   "requests of the device's queue, at least 4")
      ->capture_default_str();
  command->add_option("--wbt", words->wbt, "target of the writeback throttling, 0: off")
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  DEV=$(stalltrace disk create slow --size 4g --flush 20ms) && mkfs.ext4 -q $DEV\n"
      "  stalltrace disk create rust --profile hdd7200\n"
      "  echo '5s 5.5s flush 1.5s' > faults\n"
      "  stalltrace disk create faulty --flush 1ms --schedule faults --truth /dev/shm/truth.csv");
  command->callback([words] { create(*words); });
}

void add_list(CLI::App& disk) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = disk.add_subcommand("list", "show the emulated disks");
  command->add_flag("--json", *json, "for programs");
  command->footer("Examples:\n  stalltrace disk list\n  stalltrace disk list --json | jq .disks[]");
  command->callback([json] {
    const auto disks = disk::list();
    if (*json) {
      print_json(disks);
    } else {
      print_table(disks);
    }
  });
}

void add_destroy(CLI::App& disk) {
  auto name = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  CLI::App* command = disk.add_subcommand(
      "destroy", "unmount, detach and remove an emulated disk, also what a crash left of one");
  command->add_option("NAME", *name, "as given to create");
  command->add_flag("--all", *all, "every disk; goes on past failures");
  command->footer("Examples:\n  stalltrace disk destroy slow\n  stalltrace disk destroy --all");
  command->callback([name, all] {
    if (*all != name->empty()) throw usage_error("disk destroy: give either NAME or --all");
    if (*all) {
      disk::destroy_all(say);
    } else {
      disk::destroy(*name, say);
    }
  });
}

void add_reload(CLI::App& disk) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      disk.add_subcommand("reload", "read a disk's schedule again and say if it is broken");
  command->add_option("NAME", *name, "as given to create")->required();
  command->callback([name] { disk::reload_schedule(*name); });
}

void add_cut(CLI::App& disk) {
  auto name = std::make_shared<std::string>();
  auto seed = std::make_shared<uint64_t>(0);
  CLI::App* command = disk.add_subcommand(
      "cut", "cut the power: every request fails, and any part of what no flush drained is lost");
  command->add_option("NAME", *name, "as given to create")->required();
  CLI::Option* seeded =
      command->add_option("--seed", *seed, "which part (default: another one for each cut)");
  command->footer(
      "Prints a line of JSON: completed writes dropped and kept, writes in flight (failed).\n"
      "Examples:\n"
      "  stalltrace disk create fragile --flush 2ms --cache volatile\n"
      "  stalltrace disk cut fragile --seed 7 && umount /mnt && stalltrace disk power-on fragile");
  command->callback([name, seed, seeded] {
    const disk::CutOutcome outcome =
        disk::cut(*name, seeded->empty() ? std::nullopt : std::optional<uint64_t>(*seed));
    fmt::print("{}\n", nlohmann::ordered_json{{"name", *name},
                                              {"seed", outcome.seed},
                                              {"at_monotonic_ns", outcome.at_ns},
                                              {"writes_dropped", outcome.writes_dropped},
                                              {"writes_kept", outcome.writes_kept},
                                              {"writes_in_flight", outcome.writes_in_flight},
                                              {"flushes_in_flight", outcome.flushes_in_flight},
                                              {"pages_dropped", outcome.pages_dropped},
                                              {"pages_kept", outcome.pages_kept}}
                           .dump());
  });
}

void add_power_on(CLI::App& disk) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      disk.add_subcommand("power-on", "serve again after a power cut, with what survived it");
  command->add_option("NAME", *name, "as given to create")->required();
  command->callback([name] { disk::power_on(*name); });
}

}  // namespace

void add_disk_command(CLI::App& app, int& status) {
  CLI::App* disk = app.add_subcommand(
      "disk", "emulated disks with chosen service times, faults and a log of the truth");
  disk->require_subcommand(1);
  disk->footer(
      "The disk lies in memory, behind a loop device of its own, and survives the command that\n"
      "made it. Its times count for each request; a flush holds up all requests behind it.\n"
      "Examples:\n"
      "  DEV=$(stalltrace disk create slow --size 4g --flush 20ms)\n"
      "  stalltrace disk list\n"
      "  stalltrace disk destroy slow");
  add_create(*disk);
  add_list(*disk);
  add_destroy(*disk);
  add_reload(*disk);
  add_cut(*disk);
  add_power_on(*disk);
  status = 0;
}

}  // namespace stalltrace::cli

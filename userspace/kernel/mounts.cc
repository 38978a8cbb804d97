#include "userspace/kernel/mounts.h"

#include <libmount.h>
#include <sys/sysmacros.h>

#include <cstdio>
#include <memory>

#include "userspace/base/error.h"
#include "userspace/kernel/devices.h"

namespace stalltrace::kernel {
namespace {

constexpr const char* kMountinfo = "/proc/self/mountinfo";

struct Unref {
  void operator()(libmnt_table* table) const { mnt_unref_table(table); }
  void operator()(libmnt_iter* iterator) const { mnt_free_iter(iterator); }
};
using Table = std::unique_ptr<libmnt_table, Unref>;

std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

Mount mount_of(libmnt_fs* fs) {
  dev_t device = mnt_fs_get_devno(fs);
  Mount mount{.id = mnt_fs_get_id(fs),
              .st_dev = make_kdev(major(device), minor(device)),
              .root = text_or_empty(mnt_fs_get_root(fs)),
              .mountpoint = text_or_empty(mnt_fs_get_target(fs)),
              .fs = text_or_empty(mnt_fs_get_fstype(fs)),
              .source = text_or_empty(mnt_fs_get_source(fs)),
              .options = {}};
  if (char* options = mnt_fs_strdup_options(fs); options != nullptr) {
    mount.options = options;
    std::free(options);
  }
  return mount;
}

// libmount skips what it cannot read unless told that this is an error.
int refuse_line(libmnt_table* /*table*/, const char* /*file*/, int /*line*/) {
  return -1;
}

}  // namespace

std::vector<Mount> parse_mountinfo(const std::string& text) {
  std::vector<Mount> mounts;
  if (text.empty()) return mounts;
  Table table(mnt_new_table());
  std::unique_ptr<libmnt_iter, Unref> iterator(mnt_new_iter(MNT_ITER_FORWARD));
  // fmemopen takes a pointer to non-const for its writing modes only.
  std::unique_ptr<FILE, int (*)(FILE*)> stream(
      fmemopen(const_cast<char*>(text.data()), text.size(), "r"), std::fclose);
  if (!table || !iterator || !stream) throw failed_error("mountinfo: out of memory");
  mnt_table_set_parser_errcb(table.get(), refuse_line);
  if (mnt_table_parse_stream(table.get(), stream.get(), "mountinfo") != 0) {
    throw usage_error("mountinfo: not in the format of {}", kMountinfo);
  }
  libmnt_fs* fs = nullptr;
  while (mnt_table_next_fs(table.get(), iterator.get(), &fs) == 0) mounts.push_back(mount_of(fs));
  return mounts;
}

std::vector<Mount> current_mounts() {
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(kMountinfo, "re"), std::fclose);
  if (!file) throw refused_error("{} cannot be read; mount /proc first", kMountinfo);
  std::string text;
  char buffer[16384];
  // Sizes are unknown beforehand, and fmemopen needs the whole.
  for (size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file.get())) > 0;) {
    text.append(buffer, got);
  }
  return parse_mountinfo(text);
}

const Mount* mount_of(const std::vector<Mount>& mounts, const std::string& path) {
  const Mount* deepest = nullptr;
  for (const Mount& mount : mounts) {
    const std::string& at = mount.mountpoint;
    bool below = path.starts_with(at) &&
                 (at.ends_with('/') || path.size() == at.size() || path[at.size()] == '/');
    if (below && (deepest == nullptr || at.size() >= deepest->mountpoint.size())) deepest = &mount;
  }
  return deepest;
}

}  // namespace stalltrace::kernel

#include "userspace/cli/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "userspace/base/error.h"
#include "userspace/base/fd.h"

namespace stalltrace::cli {
namespace {

// More than any kernel log or report.
constexpr size_t kMostBytes = size_t{1} << 30;

}  // namespace

std::string read_all(int fd, const std::string& name, const TextCheck& check) {
  constexpr size_t kEnoughToTell = 4096;
  std::string text;
  std::string buffer(size_t{1} << 20, '\0');
  bool checked = !check;
  while (true) {
    ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw usage_error("{} cannot be read: {}", name, strerror(errno));
    text.append(buffer, 0, static_cast<size_t>(got));
    // Not by the few bytes of a pipe's start.
    if (!checked && !text.empty() && (got == 0 || text.size() >= kEnoughToTell)) {
      check(text, name);
      checked = true;
    }
    if (got == 0) return text;
    if (text.size() > kMostBytes) {
      throw usage_error("{} is larger than 1 GiB: give the part that matters", name);
    }
  }
}

std::string read_file(const std::string& path, const TextCheck& check) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (fd.get() < 0) throw usage_error("{} cannot be read: {}", path, strerror(errno));
  struct stat about {};
  if (fstat(fd.get(), &about) == 0 && S_ISDIR(about.st_mode)) {
    throw usage_error("{} is a directory: give a file", path);
  }
  return read_all(fd.get(), path, check);
}

}  // namespace stalltrace::cli
